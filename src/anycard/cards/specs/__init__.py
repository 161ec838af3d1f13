"""What cards have and can do, by name: the one table of it. Pure: nothing of this machine is looked at.

``cards.csv`` is made by tools/card_specs.py; every figure names its source (``sources.csv``). A figure that no source gives is None.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from anycard.cards.specs.words import words
from anycard.units import GIB


@dataclass(frozen=True, slots=True)
class Spec:
    """One model as it is sold. FLOPS are dense, without sparsity; ``vector`` is the rate of the shaders, ``matrix`` of the tensor cores
    (XMX, cube, matrix cores). ``memory_sizes_bytes`` has several where the same chip is sold with each. ``sources``: figure -> where it is
    from, in words; ``note`` what is to be known of the figures."""

    vendor: str
    model: str
    memory_sizes_bytes: tuple[int, ...] = ()
    unified: bool = False
    memory_type: str | None = None
    bandwidth_bytes_s: float | None = None
    fp64_flops: float | None = None
    fp32_flops: float | None = None
    fp16_vector_flops: float | None = None
    fp16_matrix_flops: float | None = None
    bf16_matrix_flops: float | None = None
    fp8_matrix_flops: float | None = None
    int8_matrix_ops: float | None = None
    tdp_w: float | None = None
    link: str | None = None
    fabric: str | None = None
    capability: str | None = None
    architecture: str | None = None
    year: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None


def find(query: str = "") -> tuple[Spec, ...]:
    """Every model that has all the words of ``query`` in its vendor's name, its own, or its architecture's; words are compared whole.
    A memory size ("80GB") must be one that the model is sold with. All of them for an empty query."""
    asked, memory = words(query, frozenset())
    if not asked and memory is None:
        return () if query.strip() else specs()
    return tuple(
        spec
        for spec in specs()
        if asked <= _words(spec.vendor, spec.model, spec.architecture)
        and (memory is None or _is_sold_with(spec, memory))
    )


@functools.cache
def specs() -> tuple[Spec, ...]:
    """The whole table, in its order: by vendor, then as it grew."""
    return tuple(_spec(row) for row in rows())


@functools.cache
def rows() -> tuple[Mapping[str, str], ...]:
    """The table's lines as they are in the file."""
    return tuple(csv.DictReader(_file("cards.csv")))


@functools.cache
def sources() -> Mapping[str, str]:
    """Key -> where figures are from, in words."""
    return {row["key"]: row["source"] for row in csv.DictReader(_file("sources.csv"))}


def figure_sources(row: Mapping[str, str]) -> dict[str, str]:
    """Figure -> key of its source, for each figure that ``row`` has."""
    first, *others = row["sources"].split("; ")
    named = dict(pair.split("=", 1) for pair in others)
    return {name: named.get(name, first) for name, value in row.items() if value and name not in _NO_FIGURES}


_NO_FIGURES = ("vendor", "model", "sources", "note")


def _spec(row: Mapping[str, str]) -> Spec:
    return Spec(
        vendor=row["vendor"],
        model=row["model"],
        memory_sizes_bytes=tuple(round(float(size) * GIB) for size in row["memory_gib"].split()),
        unified=bool(row["unified"]),
        memory_type=row["memory_type"] or None,
        bandwidth_bytes_s=_scaled(row["bandwidth_gb_s"], 1e9),
        fp64_flops=_scaled(row["fp64_tflops"], 1e12),
        fp32_flops=_scaled(row["fp32_tflops"], 1e12),
        fp16_vector_flops=_scaled(row["fp16_vector_tflops"], 1e12),
        fp16_matrix_flops=_scaled(row["fp16_matrix_tflops"], 1e12),
        bf16_matrix_flops=_scaled(row["bf16_matrix_tflops"], 1e12),
        fp8_matrix_flops=_scaled(row["fp8_matrix_tflops"], 1e12),
        int8_matrix_ops=_scaled(row["int8_matrix_tops"], 1e12),
        tdp_w=_scaled(row["tdp_w"], 1),
        link=row["link"] or None,
        fabric=row["fabric"] or None,
        capability=row["capability"] or None,
        architecture=row["architecture"] or None,
        year=int(row["year"]) if row["year"] else None,
        sources={figure: sources()[key] for figure, key in figure_sources(row).items()},
        note=row["note"] or None,
    )


@functools.cache
def _words(vendor: str, model: str, architecture: str | None) -> frozenset[str]:
    maker = " ".join((vendor, *_MAKERS.get(vendor, ())))
    return words(f"{maker} {model} {architecture or ''}", frozenset())[0]


_MAKERS = {"ascend": ("huawei",), "moorethreads": ("moore", "threads", "mthreads"), "habana": ("intel",)}


def _is_sold_with(spec: Spec, memory_gib: float) -> bool:
    return any(abs(size / GIB - memory_gib) <= memory_gib * 0.1 for size in spec.memory_sizes_bytes)


def _scaled(text: str, factor: float) -> float | None:
    return float(text) * factor if text else None


def _file(name: str) -> list[str]:
    return resources.files("anycard.cards.specs").joinpath(name).read_text("utf-8").splitlines()
