"""Spot cards: how long a job really takes when its card comes and goes, by replaying what availability was.

Work done since the last checkpoint is lost with the card (a reclaim gives no useful notice here); checkpoints are taken every
Young/Daly interval. The P90 promised is a higher quantile of the replays than 0.90, because the future differs from the past: the
level was chosen on five zones and checked on the sixth, each in turn (docs/offers.md).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

# Quantile of the replays that is called P90.
P90_LEVEL = 0.92
_SAMPLES = 400


@dataclass(frozen=True, slots=True)
class Availability:
    """When a spot card was to be had: up intervals in steps of ``gap_s`` seconds, over ``length`` steps."""

    gap_s: float
    length: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]  # exclusive

    @property
    def share(self) -> float:
        """Share of the time in which a card was to be had, 0..1."""
        return sum(self.ends) / self.length - sum(self.starts) / self.length if self.length else 0.0

    @property
    def mean_run_s(self) -> float:
        """Mean length of an uninterrupted run in seconds: the time between failures for Young/Daly."""
        return self.share * self.length * self.gap_s / len(self.starts) if self.starts else 0.0

    def up_at(self, step: int) -> bool:
        place = bisect.bisect_right(self.starts, step) - 1
        return place >= 0 and step < self.ends[place]

    def until(self, step: int) -> Availability:
        """What was known at ``step``."""
        kept = [(start, min(end, step)) for start, end in zip(self.starts, self.ends, strict=True) if start < step]
        return Availability(self.gap_s, step, tuple(start for start, _ in kept), tuple(end for _, end in kept))


@dataclass(frozen=True, slots=True)
class SpotJob:
    """``work_s``: seconds of undisturbed work. ``restart_s``: from a card to working again. ``checkpoint_s``: what a checkpoint costs;
    None: the job cannot checkpoint and starts over."""

    work_s: float
    restart_s: float = 300.0
    checkpoint_s: float | None = 30.0


@dataclass(frozen=True, slots=True)
class SpotRun:
    """One replay: seconds until the end, seconds paid, reclaims. ``finished`` False: the record ended first."""

    elapsed_s: float
    paid_s: float
    reclaims: int
    finished: bool


@dataclass(frozen=True, slots=True)
class SpotForecast:
    """Of the time to the end and of the time paid, in seconds. ``checkpoint_every_s``: the interval that the job should use."""

    elapsed_p50_s: float
    elapsed_p90_s: float
    paid_p50_s: float
    paid_p90_s: float
    reclaims_mean: float
    checkpoint_every_s: float | None
    replays: int


def availability(data: Sequence[int], gap_s: float) -> Availability:
    """From samples every ``gap_s`` seconds; 0 (or less) means none to be had."""
    starts: list[int] = []
    ends: list[int] = []
    up = False
    for step, value in enumerate(data):
        if (value > 0) != up:
            (ends if up else starts).append(step)
            up = not up
    if up:
        ends.append(len(data))
    return Availability(gap_s, len(data), tuple(starts), tuple(ends))


def checkpoint_interval(checkpoint_s: float, mean_run_s: float) -> float:
    """Seconds of work between checkpoints that waste least: sqrt(2 C M) - C with Daly's correction (Young 1974, Daly 2006).

    C is the cost of a checkpoint, M the mean time between failures, both in seconds. Daly's series holds to C = 2 M, from there on it is M.
    """
    if checkpoint_s <= 0 or mean_run_s <= 0:
        return 1.0
    if checkpoint_s >= 2 * mean_run_s:
        return max(1.0, mean_run_s)
    ratio = checkpoint_s / (2 * mean_run_s)
    daly = math.sqrt(2 * checkpoint_s * mean_run_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - checkpoint_s
    return max(1.0, min(mean_run_s, daly))


def replay(record: Availability, start: int, job: SpotJob, every_s: float | None, *, circular: bool = False) -> SpotRun:
    """The job started at ``start`` in the record. ``circular``: the record begins anew at its end, so that every replay finishes
    (after a hundred rounds it is given up as never)."""
    done = paid = 0.0
    reclaims = rounds = 0
    offset = 0
    place = bisect.bisect_right(record.ends, start)
    begin = start
    while True:
        if place >= len(record.starts):
            rounds += 1
            if not circular or not record.starts or rounds > 100:
                return SpotRun((offset + record.length - start) * record.gap_s, paid, reclaims, finished=False)
            offset += record.length
            place = begin = 0
        first, last = max(record.starts[place], begin), record.ends[place]
        span = (last - first) * record.gap_s
        need = job.restart_s + _with_checkpoints(job.work_s - done, job, every_s)
        if need <= span:
            return SpotRun((offset + first - start) * record.gap_s + need, paid + need, reclaims, finished=True)
        paid += span
        reclaims += 1
        done += _kept(span - job.restart_s, job, every_s)
        place, begin = place + 1, 0


def forecast(
    history: Availability, job: SpotJob, *, available_now: bool | None = None, samples: int = _SAMPLES
) -> SpotForecast | None:
    """P50 and P90 by replaying the history from many starts. None where the history never had a card.

    ``available_now``: only starts in the same state count, if there are any.
    """
    if not history.starts or history.length < 2:
        return None
    every = None if job.checkpoint_s is None else checkpoint_interval(job.checkpoint_s, history.mean_run_s)
    stride = max(1, history.length // samples)
    starts = [step for step in range(0, history.length, stride) if available_now in (None, history.up_at(step))]
    runs = [replay(history, start, job, every, circular=True) for start in starts or range(0, history.length, stride)]
    elapsed = sorted(run.elapsed_s if run.finished else math.inf for run in runs)
    paid = sorted(run.paid_s for run in runs)
    return SpotForecast(
        elapsed_p50_s=_quantile(elapsed, 0.5),
        elapsed_p90_s=_quantile(elapsed, P90_LEVEL),
        paid_p50_s=_quantile(paid, 0.5),
        paid_p90_s=_quantile(paid, P90_LEVEL),
        reclaims_mean=sum(run.reclaims for run in runs) / len(runs),
        checkpoint_every_s=every,
        replays=len(runs),
    )


def _with_checkpoints(work_s: float, job: SpotJob, every_s: float | None) -> float:
    if job.checkpoint_s is None or every_s is None:
        return work_s
    return work_s + max(0, math.ceil(work_s / every_s) - 1) * job.checkpoint_s


def _kept(span_s: float, job: SpotJob, every_s: float | None) -> float:
    """Work that outlives a run of ``span_s`` seconds: whole intervals with their checkpoints."""
    if job.checkpoint_s is None or every_s is None or span_s <= 0:
        return 0.0
    return int(span_s / (every_s + job.checkpoint_s)) * every_s


def _quantile(ordered: Sequence[float], level: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(level * len(ordered)) - 1)]
