"""How right the estimates are, set by set of the public measurements, beside hf-mem's, accelerate's and llmfit's formulas.

    python -m benchmarks.accuracy [--measured FILE] [--spot FOLDER] [--holdout] [--json]

The data lie in ANYCARD_EVAL (default ../shared/eval from the project's root). Each set is graded whole: rows that we believe wrong are
listed with the reason and still counted. The last line is the result as JSON.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from anycard.errors import AnycardError
from anycard.offers.files import load_availability
from anycard.offers.spot import SpotJob, forecast, replay
from anycard.sizing.cache import cache_bytes
from anycard.sizing.cardspec import without_slices
from anycard.sizing.files import card_by_name
from anycard.sizing.fit import Verdict, judge
from anycard.sizing.inference import Server, Serving, llama_cpp_compute_bytes
from anycard.sizing.speed import decode_speed, training_scale
from anycard.units import MIB
from benchmarks import accuracy_peers as peers
from benchmarks.accuracy_rows import (
    Answer,
    Row,
    inference_answer,
    llama_cpp_fit,
    llama_cpp_model,
    read_rows,
    shape_of,
    training_answer,
)
from benchmarks.measure import finish, say

_SPOT_HOURS = (1, 4, 12, 24, 48)
_SPOT_STARTS = 40
_SPOT_KNOWN_DAYS = 7


def main() -> None:
    arguments = _arguments()
    root = Path(os.environ.get("ANYCARD_EVAL") or Path(__file__).resolve().parents[1].parent / "shared" / "eval")
    measured = arguments.measured or root / "sizing" / "measured.csv"
    spot = arguments.spot or measured.parent / "spot"
    if not measured.is_file():
        sys.exit(f"no measurements at {measured}: set ANYCARD_EVAL or give --measured FILE")
    rows = read_rows(measured)
    result: dict[str, Any] = {
        "bf16": memory(rows, "bf16"),
        "quant": memory(rows, "quant"),
        "finetune": finetune(rows),
        "decode": decode(rows),
        "fits": fits(rows),
        "spot": spot_cover(sorted(spot.glob("*.json"))),
    }
    train_speed(rows)
    old_code(rows)
    buffers(rows)
    if arguments.holdout:
        from benchmarks.accuracy_holdout import holdout

        holdout(rows)
    finish(result, as_json=arguments.json)


def memory(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """Inference memory: n, mean and worst absolute error, worst under-estimate, in percent."""
    chosen = [row for row in rows if row["set"] == name and row["mem_mib"]]
    errors = [_answered(inference_answer, row) for row in chosen]
    say(f"{name}: {len(chosen)} rows")
    _line("anycard", errors)
    _peer("hf-mem", chosen, lambda row: peers.hf_mem_mib(shape_of(row), row["quant"], _context(row), 1))
    _peer("accelerate", chosen, lambda row: peers.accelerate_mib(shape_of(row), row["quant"]))
    _peer("llmfit", chosen, lambda row: peers.llmfit_mib(shape_of(row), row["quant"], _context(row)))
    return {
        "n": len(errors),
        "mean": _mean(map(abs, errors)),
        "max": max(map(abs, errors), default=0.0),
        "worst_under": min(0.0, *errors) if errors else 0.0,
    }


def finetune(rows: Sequence[Row]) -> dict[str, Any]:
    """Fine-tune memory: n, mean, 90th percentile, share of rows more than 5 % under."""
    chosen = [row for row in rows if row["set"] == "finetune" and row["mem_mib"]]
    errors = [_answered(training_answer, row) for row in chosen]
    say(f"finetune: {len(chosen)} rows")
    _line("anycard", errors)
    _peer("accelerate", chosen, lambda row: peers.accelerate_training_mib(shape_of(row), row["quant"]))
    for row, error in zip(chosen, errors, strict=True):
        least = _adamw_floor_mib(row)
        if least > float(row["mem_mib"]):
            say(
                f"  believed wrong, still counted: {row['model']} {row['method'].strip()} on {row['n_gpu']} card: {row['mem_mib']} MiB "
                f"are less than bf16 weights, gradients and AdamW's moments alone ({least:.0f} MiB); our error {error:+.0f} %"
            )
    return {
        "n": len(errors),
        "mean": _mean(map(abs, errors)),
        "p90": _percentile([abs(error) for error in errors], 0.9),
        "under5_share": _mean(1.0 if error < -5 else 0.0 for error in errors),
    }


def _adamw_floor_mib(row: Row) -> float:
    """8 bytes a weight for a full fine-tune on one card under pure bf16; 0 for anything else."""
    alone = row["method"].startswith("full") and row["n_gpu"] in ("", "1") and row["engine"] == "litgpt"
    return float(row["params"]) * 8 / MIB if alone and row["params"] else 0.0


def decode(rows: Sequence[Row]) -> dict[str, Any]:
    """Generation speed: n, mean absolute error of tokens a second, in percent."""
    chosen = [row for row in rows if row["set"] == "decode"]
    errors, theirs, unknown = [], [], 0
    for row in chosen:
        said = decode_prediction(row)
        truth = float(row["speed"])
        if said is None:
            unknown += 1
            errors.append(100.0)  # no answer counts as wholly wrong
            continue
        errors.append((said / truth - 1) * 100)
        bandwidth = card_by_name(without_slices(row["card"])[0]).bandwidth_bytes_s
        theirs.append((peers.llmfit_tokens_per_s(shape_of(row), row["quant"], bandwidth or 0.0) / truth - 1) * 100)
    say(f"decode: {len(chosen)} rows, {unknown} without an answer")
    _line("anycard", errors)
    _line("llmfit", theirs)
    return {"n": len(errors), "mean": _mean(map(abs, errors))}


def decode_prediction(row: Row, kind: Any = None) -> float | None:
    """Tokens a second that we expect of the row; None where card or class is unknown."""
    name, count = without_slices(row["card"])
    try:
        card = card_by_name(name)
    except AnycardError:
        return None
    try:
        shape, weights = llama_cpp_model(row)
    except (AnycardError, KeyError):
        return None
    generated = int(row["context_out"] or 128)
    depth = re.search(r"@d(\d+)", row["method"])
    backend = row["engine"].removeprefix("llama.cpp").strip() or None
    speed = decode_speed(
        shape,
        weights,
        _fewer_cores(card, row["card"]),
        cards=int(row["n_gpu"] or count),
        context=(int(depth[1]) if depth else 0) + generated // 2,
        backend=backend,
        kind=kind,
    )
    return None if speed is None else speed.tokens_per_s


def _fewer_cores(card: Any, name: str) -> Any:
    """Apple sells chips with some GPU cores off: ``M1 7-Core GPU`` has 7 of 8. Full counts from Apple's specifications."""
    from dataclasses import replace

    full = {
        "Apple M1": 8,
        "Apple M1 Max": 32,
        "Apple M2 Max": 38,
        "Apple M2 Ultra": 76,
        "Apple M3 Max": 40,
        "Apple M1 Ultra": 64,
    }
    match = re.search(r"(\d+)\W*core", name, re.IGNORECASE)
    cores = full.get(card.model)
    if not match or not cores or not card.fp32_flops:
        return card
    return replace(card, fp32_flops=card.fp32_flops * min(1.0, int(match[1]) / cores))


def fits(rows: Sequence[Row]) -> dict[str, Any]:
    """Cells of the llama.cpp table: share in which "ran" or "out of memory" is foretold."""
    chosen = [row for row in rows if row["set"] == "fits"]
    right = theirs = 0
    for row in chosen:
        ran = row["speed"].strip().upper() != "OOM"
        try:
            estimate, card = llama_cpp_fit(row)
        except (AnycardError, KeyError) as error:
            say(f"  no answer: {row['model']} {row['quant']} on {row['card']}: {error}")
            continue
        said = judge(estimate, card) is not Verdict.DOES_NOT_FIT
        right += said == ran
        if said != ran:
            say(f"  wrong: {row['model']} {row['quant']} on {row['card']}: {'ran' if ran else 'out of memory'}")
        _, count = without_slices(row["card"])
        memory_mib = (card.memory_bytes or 0) / MIB * int(row["n_gpu"] or count)
        theirs += (peers.llmfit_mib(shape_of(row), row["quant"], 1024) <= memory_mib) == ran
    share = right / len(chosen) if chosen else 0.0
    say(
        f"fits: {len(chosen)} cells\n  anycard     right {share:.3f}\n  llmfit      right {theirs / max(1, len(chosen)):.3f}"
    )
    return {"n": len(chosen), "right": share}


def train_speed(rows: Sequence[Row]) -> None:
    """Ratios of training speed between cards: each model's rows against their own mean. Not graded, shown for advice's sake."""
    chosen = [row for row in rows if row["set"] == "train-speed" and float(row["speed"] or 0) > 0]
    ours: dict[str, list[tuple[float, float]]] = {}
    for row in chosen:
        name, count = without_slices(
            re.sub(r"^(LambdaCloud|DellTexas|Dell|SMC|1CC|RAIDZ1)\s+|(?<=\d)x(?=V100)", _space, row["card"])
        )
        try:
            scale = training_scale(card_by_name(name))
        except AnycardError:
            scale = None
        if scale is not None:
            ours.setdefault(row["model"], []).append((math.log(float(row["speed"])), math.log(scale * count)))
    errors: list[float] = []
    for pairs in ours.values():
        shift = _mean(truth - said for truth, said in pairs)
        errors += [(math.exp(said + shift - truth) - 1) * 100 for truth, said in pairs]
    say(f"train-speed: {len(chosen)} rows, {len(errors)} answered; ratios between cards:")
    _line("anycard", errors)


def _space(match: re.Match[str]) -> str:
    return "x " if match[0] == "x" else ""


def old_code(rows: Sequence[Row]) -> None:
    """Old modelling code: the share of rows that the interval covers, and how wide it is."""
    chosen = [row for row in rows if row["set"] == "bf16-old" and row["mem_mib"]]
    answers = [(inference_answer(row, old=True), float(row["mem_mib"])) for row in chosen]
    if not answers:
        return
    covered = _mean(1.0 if answer.low_mib <= truth <= answer.high_mib else 0.0 for answer, truth in answers)
    width = _percentile([answer.high_mib / answer.low_mib for answer, _ in answers], 0.5)
    say(f"bf16-old: {len(answers)} rows, interval covers {covered:.3f}, high over low {width:.2f} (median)")


def buffers(rows: Sequence[Row]) -> None:
    """llama.cpp's printed buffers: cache and compute beside ours, MiB."""
    say("llamacpp-buffers:")
    for row in (row for row in rows if row["set"] == "llamacpp-buffers"):
        printed = {
            name: float(value) for name, value in re.findall(r"(KV\(\w+\)|compute) (\d+(?:\.\d+)?)", row["method"])
        }
        if row["engine"] == "vllm" and (per_token := _vllm_cache(row)):
            say(
                f"  {row['model'][:44]:44} printed {float(row['mem_mib']):.0f} MiB; ours {per_token * int(row['context_in']) / MIB:.0f}"
            )
            continue
        if not row["vocab"] or not printed or not row["context_in"]:
            say(f"  {row['model'][:44]:44} not enough in the row ({row['note'][:60]})")
            continue
        shape = shape_of(row)
        copies = re.search(r"n_copies=(\d+)", row["model"])
        serving = Serving(
            server=Server.LLAMA_CPP,
            older_graph=True,  # the builds of 2024 that these rows are of
            context=int(row["context_in"]),
            ubatch=int(row["ubatch"] or 512),
            flash_attention=False,
            pipeline_copies=int(copies[1]) if copies else 1,
        )
        if "command-r" in row["model"].lower():
            from dataclasses import replace

            shape = replace(shape, parallel_block=True)
        kv = cache_bytes(shape, serving.context) / MIB
        compute = llama_cpp_compute_bytes(shape, serving) / MIB
        told = ", ".join(f"{name} printed {value:.2f}" for name, value in printed.items())
        say(f"  {row['model'][:44]:44} {told}; ours {kv:.2f} and {compute:.2f}")


def _vllm_cache(row: Row) -> int:
    """Bytes a token of a model in the shipped table, sliding layers in full as vLLM charges them; 0 for an unknown one."""
    try:
        return cache_bytes(shape_of(row), 1, full_windows=True)
    except AnycardError:
        return 0


def spot_cover(traces: Sequence[Path]) -> dict[str, Any]:
    """Share of replays that end within the P90 foretold from what was known at their start."""
    covered = count = 0
    for path in traces:
        record = load_availability(path)
        draw = random.Random(path.stem)
        mine = total = 0
        for hours in _SPOT_HOURS:
            job = SpotJob(work_s=hours * 3600)
            first = int(_SPOT_KNOWN_DAYS * 86400 / record.gap_s)
            last = record.length - int(hours * 3600 / record.gap_s) - 1
            for _ in range(_SPOT_STARTS if last > first else 0):
                start = draw.randrange(first, last)
                seen = forecast(record.until(start), job, available_now=record.up_at(start), samples=150)
                if seen is None:
                    continue
                truth = replay(record, start, job, seen.checkpoint_every_s)
                if not truth.finished and truth.elapsed_s <= seen.elapsed_p90_s:
                    continue  # the record ended before either could be told wrong
                total += 1
                mine += truth.finished and truth.elapsed_s <= seen.elapsed_p90_s
        say(f"  spot {path.stem}: {mine} of {total} replays within P90")
        covered, count = covered + mine, count + total
    return {"n": count, "p90_cover": covered / count if count else 0.0}


def _context(row: Row) -> int:
    return int(row["context_in"] or 0) + int(row["context_out"] or 0)


def _answered(ask: Callable[[Row], Answer], row: Row) -> float:
    """Our error in percent; no answer counts as wholly wrong."""
    try:
        return _error(ask(row).mib, row)
    except (AnycardError, KeyError) as error:
        say(f"  no answer: {row['model']} {row['quant']} {row['method']}: {error}")
        return -100.0


def _peer(name: str, rows: Sequence[Row], ask: Callable[[Row], float]) -> None:
    """A peer's line; a row that its formula has no answer for is left out of the peer's line only."""
    errors: list[float] = []
    for row in rows:
        try:
            errors.append(_error(ask(row), row))
        except (AnycardError, KeyError):
            continue
    _line(name, errors)


def _error(said_mib: float, row: Row) -> float:
    return (said_mib / float(row["mem_mib"]) - 1) * 100


def _line(name: str, errors: Sequence[float]) -> None:
    if not errors:
        say(f"  {name:11} no rows")
        return
    magnitudes = [abs(error) for error in errors]
    say(
        f"  {name:11} mean {_mean(magnitudes):6.2f} %  P90 {_percentile(magnitudes, 0.9):6.2f}  worst {max(magnitudes):6.2f}  "
        f"most under {min(errors):+.2f}  bias {_mean(errors):+.2f}"
    )


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _percentile(values: Sequence[float], level: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if ordered else 0.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measured", type=Path, help="a file like sizing/measured.csv")
    parser.add_argument("--spot", type=Path, help="a folder of spot records (default: spot/ beside the measurements)")
    parser.add_argument(
        "--holdout", action="store_true", help="fit on half of the models and cards, grade on the other half"
    )
    parser.add_argument("--json", action="store_true", help="the result as one JSON line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
