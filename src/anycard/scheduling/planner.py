"""The first policy: priority, then submission order, over whole cards, CPUs and memory. docs/scheduling.md draws it.

``plan`` is a function of its arguments alone: same snapshot, same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from anycard.model.demand import Allocation, Demand
from anycard.model.text import Text
from anycard.scheduling import reasons
from anycard.scheduling.feasibility import Candidates, candidates, impossible, millicores
from anycard.scheduling.plan import HostState, Placement, Plan, Policy, QueuedJob, Snapshot, WaitReason
from anycard.scheduling.pool import Pool, Quantity

__all__ = ["impossible", "plan"]

_Shape = tuple[tuple[Demand, ...], frozenset[str]]


def plan(snapshot: Snapshot, policy: Policy, now: float) -> Plan:
    """Which items start now and where, and why every other job waits. ``now``: UTC seconds (no rule of this policy reads it yet).

    Jobs are looked at in order; a job's items are placed while it has ``ready`` left and something fits, each item by the first of its
    options that does. A job that does not fit sets aside what it could use (see ``_Planner.block``); later ones get the rest.
    """
    queue = sorted(snapshot.queue, key=lambda job: (-job.priority, job.order, job.id))
    if policy.starts_paused is not None:
        paused = WaitReason(policy.starts_paused)
        return Plan(
            (), {job.id: _own_reason(job) or paused for job in queue if job.ready > 0 or job.waiting is not None}
        )
    planner = _Planner(snapshot.host, policy)
    for job in queue:
        planner.consider(job)
    return Plan(tuple(planner.placements), planner.reasons)


def _own_reason(job: QueuedJob) -> WaitReason | None:
    """The caller's reason, for a job that has nothing ready."""
    return WaitReason(job.waiting) if job.ready <= 0 and job.waiting is not None else None


@dataclass(frozen=True, slots=True)
class _Option:
    """One demand of a shape that this machine could serve one day, with the cards it could use by vendor."""

    number: int
    demand: Demand
    milli: int
    memory_bytes: int
    groups: tuple[Candidates, ...]


class _Resource(Enum):
    CARDS = "cards"
    CPUS = "cpus"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class _Short:
    """A thing that an option is short of. ``in_front``: the job that must start first. ``because_of``: the job to name to people; it
    may also be one that merely keeps what would have been enough."""

    of: _Resource
    lack: reasons.Lack
    in_front: int | None
    because_of: int | None


class _Planner:
    """The state of one plan in the making. Jobs of one *shape* (equal options and avoided cards) share what was found out."""

    def __init__(self, host: HostState, policy: Policy) -> None:
        self.host = host
        self.policy = policy
        self.pool = Pool.of(host)
        self.placements: list[Placement] = []
        self.reasons: dict[int, WaitReason] = {}
        self.options_of: dict[_Shape, tuple[_Option, ...]] = {}
        self.groups_of: dict[tuple[str | None, int | None, int, frozenset[str]], tuple[Candidates, ...]] = {}
        self.blocked: dict[_Shape, WaitReason] = {}  # what a later job of a shape that already failed is told
        self.lack_of: dict[int, reasons.Lack] = {}  # what each job that keeps something waits for
        self.highest_blocked: int | None = None  # priority of the first job that does not fit

    def consider(self, job: QueuedJob) -> None:
        if job.ready <= 0:
            if job.waiting is not None:
                self.reasons[job.id] = WaitReason(job.waiting)
            return
        shape = (job.options, job.avoid)
        known = self.blocked.get(shape)
        if known is not None:
            self.reasons[job.id] = known
            return
        options = self.options(shape)
        for _ in range(job.ready):
            choice = self.choose(options)
            if choice is None:
                self.reasons[job.id] = self.block(job, shape, options)
                return
            if len(self.placements) >= self.policy.max_starts:
                self.reasons[job.id] = WaitReason(reasons.STARTS_SOON)
                return
            option, card_ids = choice
            self.pool.take(option.demand, card_ids)
            allocation = Allocation(option.demand.cpus, option.demand.memory_bytes, card_ids)
            self.placements.append(Placement(job.id, option.number, allocation))
        if job.waiting is not None:  # its other items wait for the job's own rules
            self.reasons[job.id] = WaitReason(job.waiting)

    def options(self, shape: _Shape) -> tuple[_Option, ...]:
        """Those options of ``shape`` that can be served at all; the others must not hold anything back."""
        found = self.options_of.get(shape)
        if found is None:
            demands, avoid = shape
            found = tuple(
                option
                for number, demand in enumerate(demands)
                if (option := self.possible_option(number, demand, avoid)) is not None
            )
            self.options_of[shape] = found
        return found

    def possible_option(self, number: int, demand: Demand, avoid: frozenset[str]) -> _Option | None:
        milli, memory_bytes = millicores(demand.cpus), demand.memory_bytes or 0
        if milli > millicores(self.host.cpus_total) or memory_bytes > self.host.memory_total_bytes:
            return None
        groups = self.groups(demand, avoid) if demand.card_count else ()
        if demand.card_count and not groups:
            return None
        return _Option(number, demand, milli, memory_bytes, groups)

    def groups(self, demand: Demand, avoid: frozenset[str]) -> tuple[Candidates, ...]:
        key = (demand.card, demand.card_memory_bytes, demand.card_count, avoid)
        found = self.groups_of.get(key)
        if found is None:
            found = self.groups_of[key] = candidates(self.host.cards, demand, avoid)
        return found

    def choose(self, options: tuple[_Option, ...]) -> tuple[_Option, tuple[str, ...]] | None:
        """The first option that fits what is available, with its cards."""
        for option in options:
            if option.milli > self.pool.cpus.available or option.memory_bytes > self.pool.memory.available:
                continue
            if option.demand.card_count == 0:
                return option, ()
            card_ids = self.pool.pick_cards(option.groups, option.demand.card_count)
            if card_ids is not None:
                return option, card_ids
        return None

    def block(self, job: QueuedJob, shape: _Shape, options: tuple[_Option, ...]) -> WaitReason:
        """Why ``job`` waits; and what is set aside for it.

        Every resource has a line. An option that is first in line for all that it is short of keeps what it could use of what is
        available, so that later jobs cannot starve it. One that stands behind another keeps nothing yet: it cannot start before the
        other does, and keeping would only leave things idle. It comes to the front of its line in its turn.
        """
        if not options:
            never = WaitReason(self.why_never(job))
            self.blocked[shape] = never
            return never
        if self.highest_blocked is None:
            self.highest_blocked = job.priority
        shorts = [self.shorts(option) for option in options]
        at_front = [all(short.in_front is None for short in of_option) for of_option in shorts]
        told = at_front.index(True) if True in at_front else 0
        sooner = self.sooner(options[told], shorts[told])
        for option, of_option, first in zip(options, shorts, at_front, strict=True):
            if first:
                self.pool.keep(option.demand, option.groups, job.id)
                self.stand_in_line(option, of_option, job.id)
        short = next((one for one in shorts[told] if one.in_front is not None), shorts[told][0])
        if at_front[told]:
            self.lack_of[job.id] = short.lack
        if short.because_of is None:
            self.blocked[shape] = WaitReason(short.lack.why_behind(job.id))
            return WaitReason(short.lack.own, sooner)
        behind = self.lack_of[short.because_of].why_behind(short.because_of)
        self.blocked[shape] = WaitReason(behind)
        return WaitReason(behind, sooner)

    def shorts(self, option: _Option) -> tuple[_Short, ...]:
        """What ``option`` is short of, the most telling first: cards, CPUs, memory."""
        found: list[_Short] = []
        count = option.demand.card_count
        if count and self.pool.pick_cards(option.groups, count) is None:
            found.append(self.short_of_cards(option))
        if option.milli > self.pool.cpus.available:
            found.append(_short_of(_Resource.CPUS, self.pool.cpus, option.milli, reasons.lacks_cpus))
        if option.memory_bytes > self.pool.memory.available:
            found.append(_short_of(_Resource.MEMORY, self.pool.memory, option.memory_bytes, reasons.lacks_memory))
        return tuple(found)

    def short_of_cards(self, option: _Option) -> _Short:
        count = option.demand.card_count
        in_front = self.pool.in_front_for_cards(option.groups, count)
        because_of = in_front
        free = sum(self.pool.count_free(group) for group in option.groups)
        if any(self.pool.count_free(group) >= count for group in option.groups):
            kept = (self.pool.kept_cards.get(card.id) for group in option.groups for card in group.cards)
            because_of = next(keeper for keeper in kept if keeper is not None) if in_front is None else in_front
            free = sum(len(self.pool.available_cards(group)) for group in option.groups)
        total = sum(len(group.cards) for group in option.groups)
        return _Short(_Resource.CARDS, reasons.lacks_cards(option.demand, free, total), in_front, because_of)

    def stand_in_line(self, option: _Option, shorts: tuple[_Short, ...], job_id: int) -> None:
        for short in shorts:
            if short.of is _Resource.CARDS:
                self.pool.stand_in_line_for_cards(option.groups, job_id)
            else:
                quantity = self.pool.cpus if short.of is _Resource.CPUS else self.pool.memory
                quantity.first_in_line = job_id if quantity.first_in_line is None else quantity.first_in_line

    def sooner(self, option: _Option, shorts: tuple[_Short, ...]) -> Text | None:
        """What the user could change for an immediate start: a higher priority, or asking less of the one thing that is short."""
        if self.fits_what_is_free(option) and self.highest_blocked is not None:
            return reasons.sooner_with_priority(self.highest_blocked)
        if len(shorts) != 1:
            return None
        match shorts[0].of:
            case _Resource.CARDS:
                most = max(len(self.pool.available_cards(group)) for group in option.groups)
                return reasons.sooner_with_cards(most) if most else None
            case _Resource.CPUS:
                available = self.pool.cpus.available
                return reasons.sooner_with_cpus(available) if available else None
            case _Resource.MEMORY:
                available = self.pool.memory.available
                return reasons.sooner_with_memory(available) if available else None

    def fits_what_is_free(self, option: _Option) -> bool:
        """Whether ``option`` would fit if nothing were set aside for others."""
        if option.milli > self.pool.cpus.free or option.memory_bytes > self.pool.memory.free:
            return False
        count = option.demand.card_count
        return count == 0 or any(self.pool.count_free(group) >= count for group in option.groups)

    def why_never(self, job: QueuedJob) -> Text:
        """For a job none of whose options this machine can serve now (a card went away, or all of its kind failed it)."""
        why = impossible(job.options, self.host)
        if why is not None:
            return why
        demand = next(demand for demand in job.options if impossible((demand,), self.host) is None)
        others = candidates(self.host.cards, replace(demand, card_count=1), job.avoid)
        return reasons.lacks_other_cards(demand.card_count, max((len(group.cards) for group in others), default=0))


def _short_of(of: _Resource, quantity: Quantity, need: int, lack: Callable[[int, int], reasons.Lack]) -> _Short:
    in_front = quantity.in_front(need)
    if need > quantity.free:
        return _Short(of, lack(need, quantity.free), in_front, in_front)
    because_of = quantity.keeper if in_front is None else in_front
    return _Short(of, lack(need, quantity.available), in_front, because_of)
