"""A job's time in numbers: a card's idle share and what it waited for, its memory, its throttling; what the CPUs did. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from anycard.jobs.report.moments import Hold, Moment, Seen, moments

IDLE_BELOW = 0.05  # of utilisation: a display or a monitor's own calls stay below
NEAR_CAP = 0.95  # of memory
CPU_BUSY_CORES = 0.7  # one thread at work, less what it waits for the card
CPU_IDLE_CORES = 0.3
HOST_FULL = 0.9  # of all the host's CPUs: a program that could run does not get the whole of one
STORAGE_BYTES_PER_S = 4 * 2**20  # a loader that waits for storage reads; logs and checkpoints between steps are less
STORAGE_WAIT_CORES = 0.3  # CPUs of the host that waited for a disk
_STRETCHES = 10  # named, the longest


class Cause(StrEnum):
    """What the CPU did while a card idled."""

    CPU = "cpu-bound"  # it worked: the card waited for it
    STORAGE = "storage-bound"  # it idled too, and data came in
    WAITING = "waiting"  # it idled too, for no reason that is seen
    UNKNOWN = "unknown"  # it was not seen, or did a little


@dataclass(frozen=True, slots=True)
class Stretch:
    """A card idle without a break, UTC seconds; ``cause`` is that of most of it."""

    since: float
    until: float
    cause: Cause

    @property
    def length_s(self) -> float:
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class CardFigures:
    """Seconds, bytes, degrees Celsius, watts; ratios 0..1 of the time that was seen. None: never seen.

    ``idle_s`` is all idle time; of it ``before_s`` lies before a hold's first use of the card and ``after_s`` after its last; ``by_cause``
    splits the rest. ``cores`` and ``read_bytes_per_s`` are means over the idle time of that cause.
    """

    card_id: str
    holds: int
    held_s: float
    seen_s: float
    utilisation: float | None = None
    idle_s: float = 0.0
    before_s: float = 0.0
    after_s: float = 0.0
    by_cause: Mapping[Cause, float] = field(default_factory=dict)
    cores: Mapping[Cause, float] = field(default_factory=dict)
    read_bytes_per_s: float | None = None
    host_cpu: float | None = None  # how busy all the host's CPUs were in the idle time for which the CPU is the cause
    stretches: tuple[Stretch, ...] = ()
    cpus: float = 1.0
    memory_peak_bytes: float | None = None
    memory_total_bytes: float | None = None
    memory_seen_s: float = 0.0
    near_cap_s: float = 0.0
    throttled_s: float = 0.0
    throttle_seen_s: float = 0.0
    throttle_reasons: Mapping[str, float] = field(default_factory=dict)  # seconds; a moment may have several
    temperature_peak_c: float | None = None
    power_w: float | None = None

    @property
    def idle_share(self) -> float | None:
        return _share(self.idle_s, self.seen_s)

    @property
    def near_cap_share(self) -> float | None:
        return _share(self.near_cap_s, self.memory_seen_s)

    @property
    def throttled_share(self) -> float | None:
        return _share(self.throttled_s, self.throttle_seen_s)


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """``cpus`` granted and ``cores`` kept busy, both the mean over the attempts' time (of several at once: together). ``cores`` None: not
    seen. ``each``: the most CPUs that one attempt had."""

    cpus: float
    cores: float | None
    seen_s: float
    each: float


@dataclass(frozen=True, slots=True)
class Figures:
    """``began`` is the first moment of the job, UTC seconds."""

    began: float
    cards: tuple[CardFigures, ...]
    cpu: CpuFigures


def figures(seen: Seen) -> Figures:
    """Cards in the order in which the job first held them; a job without a card has none."""
    laid = moments(seen)
    by_card: dict[str, dict[Hold, list[Moment]]] = {}
    for hold, seen_in_it in laid.items():
        if hold.card_id != "cpu":
            by_card.setdefault(hold.card_id, {})[hold] = seen_in_it
    began = min((hold.since for hold in seen.holds), default=0.0)
    return Figures(began, tuple(_card(card_id, mine, seen.step_s) for card_id, mine in by_card.items()), _cpu(seen))


def _card(card_id: str, by_hold: Mapping[Hold, Sequence[Moment]], step_s: float) -> CardFigures:
    every = [moment for mine in by_hold.values() for moment in mine]
    seen = [moment for moment in every if moment.utilisation is not None]
    held_s = sum(hold.length_s for hold in by_hold)
    before_s = after_s = 0.0
    stretches: list[Stretch] = []
    inner: list[Moment] = []
    for hold, mine in by_hold.items():
        busy = [at for at, moment in enumerate(mine) if moment.utilisation is not None and not _idle(moment)]
        first, last = (busy[0], busy[-1]) if busy else (len(mine), len(mine))
        before_s += _sum(mine[:first], _idle)
        after_s += _sum(mine[last + 1 :], _idle)
        inner += [moment for moment in mine[first : last + 1] if _idle(moment)]
        stretches += _stretches(mine, hold.cpus, step_s)
    cpus = sum(hold.cpus * hold.length_s for hold in by_hold) / held_s if held_s else next(iter(by_hold)).cpus
    by_cause: dict[Cause, list[Moment]] = {}
    for moment in inner:
        by_cause.setdefault(_cause(moment, cpus), []).append(moment)
    with_memory = [moment for moment in every if moment.memory_bytes is not None and moment.memory_total_bytes]
    with_throttle = [moment for moment in every if moment.throttled is not None]
    slowed: defaultdict[str, float] = defaultdict(float)
    for moment in with_throttle:
        for reason in moment.reasons or ():
            slowed[reason] += (moment.throttled or 0.0) * moment.length_s
    longest = sorted(stretches, key=lambda stretch: -stretch.length_s)[:_STRETCHES]
    return CardFigures(
        card_id=card_id,
        holds=len(by_hold),
        held_s=held_s,
        seen_s=_sum(seen),
        utilisation=_mean(seen, lambda moment: moment.utilisation),
        idle_s=_sum(seen, _idle),
        before_s=before_s,
        after_s=after_s,
        by_cause={cause: _sum(mine) for cause, mine in by_cause.items()},
        cores={
            cause: mean
            for cause, mine in by_cause.items()
            if (mean := _mean(mine, lambda moment: moment.cpu_cores)) is not None
        },
        read_bytes_per_s=_mean(by_cause.get(Cause.STORAGE, ()), lambda moment: moment.read_bytes_per_s),
        host_cpu=_mean(by_cause.get(Cause.CPU, ()), lambda moment: moment.host_cpu),
        stretches=tuple(sorted(longest, key=lambda stretch: stretch.since)),
        cpus=cpus,
        memory_peak_bytes=max((moment.memory_bytes or 0.0 for moment in with_memory), default=None),
        memory_total_bytes=max((moment.memory_total_bytes or 0.0 for moment in with_memory), default=None),
        memory_seen_s=_sum(with_memory),
        near_cap_s=_sum(with_memory, _near_cap),
        throttled_s=sum((moment.throttled or 0.0) * moment.length_s for moment in with_throttle),
        throttle_seen_s=_sum(with_throttle),
        throttle_reasons={reason: seconds for reason, seconds in slowed.items() if seconds > 0},
        temperature_peak_c=max(
            (moment.temperature_c for moment in every if moment.temperature_c is not None), default=None
        ),
        power_w=_mean(every, lambda moment: moment.power_w),
    )


def _near_cap(moment: Moment) -> bool:
    return (moment.memory_bytes or 0.0) >= NEAR_CAP * (moment.memory_total_bytes or 0.0)


def _idle(moment: Moment) -> bool:
    return moment.utilisation is not None and moment.utilisation < IDLE_BELOW


def _cause(moment: Moment, cpus: float) -> Cause:
    """A job with less than one CPU is busy with less, and so is one that must share a full host with others."""
    scale = min(1.0, cpus)
    if moment.cpu_cores is None:
        return Cause.UNKNOWN
    crowded = (moment.host_cpu or 0.0) >= HOST_FULL
    if moment.cpu_cores >= (CPU_IDLE_CORES if crowded else CPU_BUSY_CORES) * scale:
        return Cause.CPU
    reads = (moment.read_bytes_per_s or 0.0) >= STORAGE_BYTES_PER_S
    if reads or (moment.io_wait or 0.0) >= STORAGE_WAIT_CORES:
        return Cause.STORAGE
    return Cause.WAITING if moment.cpu_cores < CPU_IDLE_CORES * scale else Cause.UNKNOWN


def _stretches(mine: Sequence[Moment], cpus: float, step_s: float) -> Iterable[Stretch]:
    """Idle moments that follow each other; one that was not seen between two ends a stretch."""
    run: list[Moment] = []
    for moment, following in pairwise([*mine, None]):
        if moment is None or not _idle(moment):
            continue
        run.append(moment)
        goes_on = following is not None and _idle(following) and following.since - moment.until < step_s / 2
        if not goes_on:
            weights: defaultdict[Cause, float] = defaultdict(float)
            for part in run:
                weights[_cause(part, cpus)] += part.length_s
            yield Stretch(run[0].since, run[-1].until, max(weights, key=lambda cause: weights[cause]))
            run = []


def _cpu(seen: Seen) -> CpuFigures:
    """Each attempt counts once, however many cards it holds."""
    attempts = {hold.attempt: hold for hold in seen.holds}
    span_s = _length_of_union(attempts.values())
    cpus = sum(hold.cpus * hold.length_s for hold in attempts.values()) / span_s if span_s > 0 else 0.0
    each = max((hold.cpus for hold in attempts.values()), default=0.0)
    counted = [hold.cpu_s for hold in attempts.values() if hold.cpu_s is not None]
    if span_s > 0 and len(counted) == len(attempts):  # all are over: their counts are exact, however short they were
        return CpuFigures(cpus, sum(counted) / span_s, span_s, each)
    told = {(one.attempt, one.at): one.cpu_cores for one in seen.work if one.cpu_cores is not None}
    steps = {at for _, at in told}
    if not steps:
        return CpuFigures(cpus, None, 0.0, each)
    return CpuFigures(cpus, sum(told.values()) / len(steps), min(span_s, len(steps) * seen.work_step_s), each)


def _length_of_union(holds: Iterable[Hold]) -> float:
    """Seconds in which at least one of them went on: what lies between two tries of an item is nobody's."""
    length, reached = 0.0, -math.inf
    for hold in sorted(holds, key=lambda one: one.since):
        length += max(0.0, hold.until - max(hold.since, reached))
        reached = max(reached, hold.until)
    return length


def _sum(moments: Iterable[Moment], which: Callable[[Moment], bool] = lambda _: True) -> float:
    return sum(moment.length_s for moment in moments if which(moment))


def _mean(moments: Iterable[Moment], value: Callable[[Moment], float | None]) -> float | None:
    """Weighed by length."""
    seen = [(told, moment.length_s) for moment in moments if (told := value(moment)) is not None]
    weight = sum(length for _, length in seen)
    return sum(told * length for told, length in seen) / weight if weight > 0 else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
