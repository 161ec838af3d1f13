"""The shapes of planning: Snapshot + Policy -> Plan. Everything is frozen; the same code runs in the daemon and in a simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anycard.model.demand import Allocation, Demand
from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class CardState:
    """A card as the planner sees it. ``names`` are what a job may call it, lower case (model, vendor, spellings). ``free`` False: ``why``
    says so (granted, in use by a program anycard did not start, out of service). ``divided``: usable only through its instances, which are
    cards too, ``part_of`` it, each called by its ``profile`` (``1g.10gb``)."""

    id: str
    vendor: str
    model: str
    names: frozenset[str]
    memory_bytes: int | None
    free: bool
    why: Text | None = None
    divided: bool = False
    part_of: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class HostState:
    """Totals are what may ever be granted; free is what is left now. Memory in bytes."""

    cpus_total: float
    cpus_free: float
    memory_total_bytes: int
    memory_free_bytes: int
    cards: tuple[CardState, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job with items that could start. ``ready`` items may start now (its own ``parallel``, holds and not-before times are already
    taken off by the caller); ``waiting`` is the caller's reason when ``ready`` is 0. ``avoid`` are cards its next attempt must not use."""

    id: int
    priority: int
    order: int  # submission order
    options: tuple[Demand, ...]
    ready: int
    waiting: Text | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    host: HostState
    queue: tuple[QueuedJob, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """``starts_paused``: nothing starts, for this reason (disk full, shutting down)."""

    starts_paused: Text | None = None
    max_starts: int = 1000  # a turn's bound, so that one huge array never blocks the loop


@dataclass(frozen=True, slots=True)
class Placement:
    """Start one more item of this job by its ``option``-th demand, with this allocation."""

    job_id: int
    option: int
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a job waits, and what would start it sooner (None: nothing the user can do)."""

    why: Text
    sooner: Text | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]
    reasons: Mapping[int, WaitReason] = field(default_factory=dict)  # by job id, for each job with items left waiting
