"""Readings laid over what a job held: what its card and its CPU did together, moment by moment. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anycard.model.series import BITS_COLUMN, COLUMNS, Series, Values, reasons_of

_AT = {name: at for at, name in enumerate(COLUMNS)}
_SHORTEST_S = 0.001  # of a moment; what is less is rounding


@dataclass(frozen=True, slots=True)
class Hold:
    """A card (``cpu`` where the attempt has none) held by an attempt from ``since`` to ``until`` (UTC seconds), with ``cpus`` beside it.
    ``cpu_s`` of CPU time went into an attempt that is over; None: not counted."""

    card_id: str
    attempt: int
    since: float
    until: float
    cpus: float
    cpu_s: float | None = None

    @property
    def length_s(self) -> float:
        return max(0.0, self.until - self.since)


@dataclass(frozen=True, slots=True)
class Work:
    """What an attempt's own processes did from ``at`` on, for a step: CPUs kept busy, bytes a second read from storage."""

    at: float
    attempt: int
    cpu_cores: float | None = None
    read_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """``length_s`` of a hold, with what was seen in it; None: not seen. Ratios are 0..1. ``io_wait``: CPUs of the host that waited
    for a disk; ``host_cpu``: how busy all its CPUs were."""

    since: float
    length_s: float
    utilisation: float | None = None
    memory_bytes: float | None = None  # the most
    memory_total_bytes: float | None = None
    throttled: float | None = None
    reasons: tuple[str, ...] | None = None
    temperature_c: float | None = None  # the highest
    power_w: float | None = None
    cpu_cores: float | None = None
    read_bytes_per_s: float | None = None
    io_wait: float | None = None
    host_cpu: float | None = None

    @property
    def until(self) -> float:
        return self.since + self.length_s


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything known of a job's time. ``step_s`` is what a row of ``series`` stands for, ``work_step_s`` one of ``work``; ``cpu`` is the
    host's own CPU over the same time, ``cores`` how many it has."""

    holds: Sequence[Hold]
    series: Mapping[str, Series]
    step_s: float
    work: Sequence[Work] = ()
    work_step_s: float = 10.0
    cpu: Series | None = None
    cores: float | None = None


def moments(seen: Seen) -> dict[Hold, list[Moment]]:
    """By hold, in order of time; gaps are gaps.

    A row that begins before its hold or ends after it tells of somebody else's time, too, so it counts only where there is no other.
    """
    work = {(one.attempt, one.at // seen.work_step_s): one for one in seen.work}
    waits, host_cpu = _waits(seen), _host_cpu(seen)
    laid: dict[Hold, list[Moment]] = {}
    for hold in seen.holds:
        series = seen.series.get(hold.card_id)
        rows = [] if series is None else _rows_of(series, hold, seen.step_s)
        inside = [(at, row) for at, row in rows if at >= hold.since and at + seen.step_s <= hold.until]
        laid[hold] = []
        for at, row in inside or rows:
            since, until = max(at, hold.since), min(at + seen.step_s, hold.until)
            if until - since < _SHORTEST_S:
                continue
            done = work.get((hold.attempt, at // seen.work_step_s))
            laid[hold].append(
                Moment(
                    since,
                    until - since,
                    row[_AT["utilisation"]],
                    _first(row[_AT["memory_peak_bytes"]], row[_AT["memory_used_bytes"]]),
                    row[_AT["memory_total_bytes"]],
                    row[_AT["throttled"]],
                    reasons_of(row[_AT[BITS_COLUMN]]),
                    _first(row[_AT["temperature_peak_c"]], row[_AT["temperature_c"]]),
                    row[_AT["power_w"]],
                    done.cpu_cores if done else None,
                    done.read_bytes_per_s if done else None,
                    waits.get(at // seen.step_s),
                    host_cpu.get(at // seen.step_s),
                )
            )
    return laid


def _rows_of(series: Series, hold: Hold, step_s: float) -> list[tuple[float, Values]]:
    """Those that touch the hold."""
    first = bisect_left(series.times, hold.since - step_s)
    last = bisect_left(series.times, hold.until)
    return list(zip(series.times[first:last], series.rows[first:last], strict=True))


def _waits(seen: Seen) -> dict[float, float]:
    """How many CPUs waited for a disk, by step."""
    if seen.cpu is None or seen.cores is None:
        return {}
    told = zip(seen.cpu.times, seen.cpu.column("io_wait"), strict=True)
    return {at // seen.step_s: wait * seen.cores for at, wait in told if wait is not None}


def _host_cpu(seen: Seen) -> dict[float, float]:
    if seen.cpu is None:
        return {}
    told = zip(seen.cpu.times, seen.cpu.column("utilisation"), strict=True)
    return {at // seen.step_s: busy for at, busy in told if busy is not None}


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
