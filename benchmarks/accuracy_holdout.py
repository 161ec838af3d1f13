"""Guard against over-fitting: the fitted constants fitted anew on a random half, graded on the other half, several times."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from anycard.sizing.cardspec import without_slices
from anycard.sizing.files import card_by_name
from anycard.sizing.speed import CLASSES, SpeedClass, speed_class
from anycard.sizing.training import FITTED, Constants
from benchmarks.accuracy import decode_prediction
from benchmarks.accuracy_rows import Row, training_answer
from benchmarks.measure import say

_ROUNDS = 3
# A shortfall costs more than a surplus: a run that dies against room to spare. At 5 at most a tenth of the rows of models that the fit did
# not see are more than 5 % short.
_UNDER_WEIGHT = 5.0


def holdout(rows: Sequence[Row]) -> None:
    tuned = [row for row in rows if row["set"] == "finetune" and row["mem_mib"]]
    _leave_one_out(tuned)
    _finetune(tuned)
    _decode([row for row in rows if row["set"] == "decode"])


def _finetune(rows: Sequence[Row]) -> None:
    models = sorted({row["model"] for row in rows})
    for seed in range(_ROUNDS):
        mine = _half(models, seed)
        fitted = min(
            _constants(), key=lambda constants: _loss([row for row in rows if row["model"] in mine], constants)
        )
        for name, chosen in (("fitted", True), ("held out", False)):
            errors = [_error(row, fitted) for row in rows if (row["model"] in mine) is chosen]
            _report(
                f"finetune, half {seed}, {name}",
                errors,
                f"activation {fitted.activation_factor}, reserve {fitted.reserve}",
            )


def _leave_one_out(rows: Sequence[Row]) -> None:
    """Each model, source and program graded by constants that were fitted on all the others."""
    tried = _constants()
    errors = [[_error(row, constants) for row in rows] for constants in tried]
    for key in ("model", "source", "engine"):
        unseen: list[float] = []
        for left in sorted({row[key] for row in rows}):
            others = [at for at, row in enumerate(rows) if row[key] != left]
            if not others:
                continue
            best = min(errors, key=lambda found, others=others: sum(_weighed(found[at]) for at in others))
            mine = [best[at] for at, row in enumerate(rows) if row[key] == left]
            unseen += mine
            if key != "model":
                _report(f"finetune, without {key} {left[-60:]}", mine, "graded on its rows alone")
        _report(f"finetune, each {key} left out once", unseen, f"{len(tried)} sets of constants")


def _weighed(error: float) -> float:
    return abs(error) * (_UNDER_WEIGHT if error < 0 else 1.0)


def _constants() -> list[Constants]:
    return [
        replace(FITTED, activation_factor=factor, reserve=reserve, logit_bytes=logits)
        for factor in (1.0, 1.05, 1.1, 1.15, 1.2)
        for reserve in (1.0, 1.06, 1.12, 1.18)
        for logits in (10.0, 12.0, 14.0)
    ]


def _loss(rows: Sequence[Row], constants: Constants) -> float:
    return sum(_weighed(_error(row, constants)) for row in rows)


def _error(row: Row, constants: Constants) -> float:
    return (training_answer(row, constants).mib / float(row["mem_mib"]) - 1) * 100


def _decode(rows: Sequence[Row]) -> None:
    for name in CLASSES:
        mine = [row for row in rows if _class_of(row) == name]
        cards = sorted({without_slices(row["card"])[0] for row in mine})
        if len(cards) < 2:
            say(f"decode, {name}: {len(mine)} rows of {len(cards)} card: no half to hold out")
            continue
        for key, of in (("card", lambda row: without_slices(row["card"])[0]), ("model", lambda row: row["model"])):
            unseen = _each_left_out(CLASSES[name], mine, of)
            _report(f"decode, {name}, each {key} left out once", unseen, f"{len({of(row) for row in mine})} of them")
        for seed in range(_ROUNDS):
            half = _half(cards, seed)
            seen = [row for row in mine if without_slices(row["card"])[0] in half]
            rest = [row for row in mine if without_slices(row["card"])[0] not in half]
            fitted = _fit(CLASSES[name], seen, random.Random(seed))
            told = f"efficiency {fitted.efficiency:.2f}, layer {fitted.layer_s * 1e6:.0f} us"
            _report(f"decode, {name}, half {seed}, held out", [_speed_error(row, fitted) for row in rest], told)


def _each_left_out(start: SpeedClass, rows: Sequence[Row], of: Callable[[Row], str]) -> list[float]:
    unseen: list[float] = []
    for left in sorted({of(row) for row in rows}):
        seen = [row for row in rows if of(row) != left]
        if seen:
            fitted = _fit(start, seen, random.Random(left))
            unseen += [_speed_error(row, fitted) for row in rows if of(row) == left]
    return unseen


def _fit(start: SpeedClass, rows: Sequence[Row], draw: random.Random) -> SpeedClass:
    """Random search by absolute log error from neutral values, not from the shipped ones."""

    def loss(kind: SpeedClass) -> float:
        return sum(abs(math.log(max(1e-9, 1 + _speed_error(row, kind) / 100))) for row in rows)

    best = replace(start, efficiency=0.8, layer_s=100e-6, hop_s=0.3e-3)
    least, step = loss(best), 0.3
    for _ in range(300):
        tried = replace(
            best,
            efficiency=min(0.98, best.efficiency * math.exp(draw.gauss(0, step))),
            layer_s=best.layer_s * math.exp(draw.gauss(0, step)),
            hop_s=best.hop_s * math.exp(draw.gauss(0, step)),
        )
        if (missed := loss(tried)) < least:
            best, least = tried, missed
        step = max(0.03, step * 0.99)
    return best


def _speed_error(row: Row, kind: SpeedClass) -> float:
    said: Callable[..., float | None] = decode_prediction
    speed = said(row, kind)
    return -100.0 if speed is None else (speed / float(row["speed"]) - 1) * 100


def _class_of(row: Row) -> str:
    card = card_by_name(without_slices(row["card"])[0])
    kind = speed_class(card, row["engine"].removeprefix("llama.cpp").strip() or None)
    return kind.name if kind else ""


def _half(names: Sequence[str], seed: int) -> set[str]:
    shuffled = list(names)
    random.Random(seed).shuffle(shuffled)
    return set(shuffled[: (len(shuffled) + 1) // 2])


def _report(title: str, errors: Sequence[float], told: str) -> None:
    if not errors:
        return
    magnitudes = sorted(abs(error) for error in errors)
    mean = sum(magnitudes) / len(magnitudes)
    under = sum(error < -5 for error in errors) / len(errors)
    p90 = magnitudes[min(len(magnitudes) - 1, int(0.9 * len(magnitudes)))]
    say(f"{title}: n {len(errors)}, mean {mean:.1f} %, P90 {p90:.1f}, more than 5 % under {under:.2f} ({told})")
