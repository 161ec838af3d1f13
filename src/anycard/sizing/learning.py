"""Predictions beside the truth: how far off they were, and what this host teaches. Pure, over what was recorded after each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LEARNT_FROM = 3  # so many runs of a kind before they correct anything: two may share one odd cause
# Parts that follow from the model and the recipe alone: what runs teach is about the rest.
EXACT = frozenset(("weights", "kv_cache", "gradients", "optimizer", "runtime_context"))
# A factor outside is no correction but another job than its file says: it is shown, and not used.
_CREDIBLE = (0.1, 5.0)


@dataclass(frozen=True, slots=True)
class Graded:
    """One run. Sizes in bytes: what was predicted with its interval, and the truth from ``source``: "printed" (the server's own lines),
    "card" (what the driver said its programs held) or "host" (its programs' memory on the CPU). ``rest_bytes``: of the prediction, what
    does not follow from the model alone (buffers, activations). ``parts``: (predicted, measured) by name.
    ``device``: the cards' vendor, or "cpu". Rates in tokens a second, None where either is unknown. ``at`` UTC seconds."""

    job: int
    at: float
    model: str
    task: str
    server: str
    device: str
    card: str
    cards: int
    source: str
    predicted_bytes: int
    rest_bytes: int
    low_bytes: int
    high_bytes: int
    measured_bytes: int
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    predicted_rate: float | None = None
    measured_rate: float | None = None

    @property
    def error(self) -> float:
        """Predicted over measured, less 1: below zero the prediction was too small."""
        return self.predicted_bytes / self.measured_bytes - 1

    @property
    def rest_factor(self) -> float | None:
        """Truth over prediction of the rest alone: of its own parts where they are known, else all that was not foreseen is put on it. None
        where there is none."""
        if not self.rest_bytes:
            return None
        if self.parts:
            return rest_of({name: pair[1] for name, pair in self.parts.items()}) / self.rest_bytes
        return max(0, self.measured_bytes - self.predicted_bytes + self.rest_bytes) / self.rest_bytes

    @property
    def inside(self) -> bool:
        return self.low_bytes <= self.measured_bytes <= self.high_bytes

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.task, self.server, self.device

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "model": self.model,
            "task": self.task,
            "server": self.server or None,
            "device": self.device,
            "card": self.card,
            "cards": self.cards,
            "source": self.source,
            "predicted_bytes": self.predicted_bytes,
            "rest_bytes": self.rest_bytes,
            "low_bytes": self.low_bytes,
            "high_bytes": self.high_bytes,
            "measured_bytes": self.measured_bytes,
            "error": round(self.error, 4),
            "inside": self.inside,
            "parts": {name: {"predicted_bytes": a, "measured_bytes": b} for name, (a, b) in self.parts.items()},
            "predicted_tokens_per_s": self.predicted_rate,
            "measured_tokens_per_s": self.measured_rate,
        }


@dataclass(frozen=True, slots=True)
class Learnt:
    """All runs of one kind. ``factor``: median of truth over prediction of what does not follow from the model alone, ``used``: whether
    predictions are corrected by it; ``rate_factor``: of tokens a second. ``mean_error`` of whole sizes, without sign; ``inside``: share
    within the interval."""

    task: str
    server: str
    device: str
    runs: int
    mean_error: float
    inside: float
    factor: float
    used: bool
    rate_factor: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "server": self.server or None,
            "device": self.device,
            "runs": self.runs,
            "mean_error": round(self.mean_error, 4),
            "inside": round(self.inside, 4),
            "factor": round(self.factor, 4),
            "used": self.used,
            "rate_factor": None if self.rate_factor is None else round(self.rate_factor, 4),
        }


def learn(graded: Iterable[Graded]) -> tuple[Learnt, ...]:
    """One entry a kind of run, most runs first. A job that was graded more than once counts with its last grade."""
    latest: dict[tuple[int, tuple[str, str, str]], Graded] = {}
    for one in graded:
        latest[one.job, one.kind] = one
    kinds: dict[tuple[str, str, str], list[Graded]] = {}
    for one in latest.values():
        kinds.setdefault(one.kind, []).append(one)
    return tuple(sorted((_learnt(runs) for runs in kinds.values()), key=lambda one: -one.runs))


def factor_of(learnt: Iterable[Learnt], task: str, server: str, device: str) -> tuple[float, int]:
    """What the rest of such a prediction is to be multiplied by, and how many runs say so; (1, 0) while nothing is learnt."""
    for one in learnt:
        if (one.task, one.server, one.device) == (task, server, device) and one.used:
            return one.factor, one.runs
    return 1.0, 0


def rest_of(parts: Mapping[str, int]) -> int:
    """Bytes of a prediction's parts that do not follow from the model alone."""
    return sum(size for name, size in parts.items() if name not in EXACT)


def _learnt(runs: Sequence[Graded]) -> Learnt:
    factors = [factor for one in runs if (factor := one.rest_factor) is not None]
    factor = _median(factors) if factors else 1.0
    rates = [one.measured_rate / one.predicted_rate for one in runs if one.measured_rate and one.predicted_rate]
    return Learnt(
        *runs[0].kind,
        runs=len(runs),
        mean_error=sum(abs(one.error) for one in runs) / len(runs),
        inside=sum(one.inside for one in runs) / len(runs),
        factor=factor,
        used=len(factors) >= LEARNT_FROM and _CREDIBLE[0] <= factor <= _CREDIBLE[1],
        rate_factor=_median(rates) if rates else None,
    )


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
