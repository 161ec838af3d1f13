"""Every open job in memory. Only the turn changes it (dispatch.py); the store holds the same after each commit."""

from __future__ import annotations

import bisect
import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from anycard.engines.protocol import Usage
from anycard.jobs.spec import JobSpec
from anycard.jobs.states import Counts
from anycard.model.demand import Allocation
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text

PREPARE = -1  # the item number of a job's prepare attempt: copy of the workdir, mounts, setup; holds no card


@dataclass(slots=True)
class Attempt:
    """One try that has not ended. ``seen_running``: the engine confirmed it. ``activity``: (boot second, CPU seconds) when it last did
    something, for release by idleness."""

    id: int
    job_id: int
    item: int
    number: int
    stem: str  # of its files, see engines/protocol.py
    started: Instant
    allocation: Allocation
    grant_id: int
    seen_running: bool = False
    stop_reason: EndReason | None = None
    pid: int | None = None
    usage: Usage = field(default_factory=Usage)
    activity: tuple[float, float] | None = None


@dataclass(slots=True)
class ItemNote:
    """What must be remembered of an item between attempts; an item that was never tried has none."""

    attempts: int = 0
    budget_used: int = 0
    free_used: int = 0
    run_s: float = 0.0
    started_at: float | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(slots=True)
class OpenJob:
    """``spec.items`` is always None here: the values stand in ``item_values``. ``ready`` holds items
    that may start, in order; ``delayed`` (not before, item) those that wait after a failed try."""

    id: int
    spec: JobSpec
    tenant: str
    user: str
    uid: int | None
    gid: int | None
    submitted_at: float
    n_items: int
    held: bool = False
    item_values: dict[int, dict[str, str]] = field(
        default_factory=dict
    )  # of items that are not over; empty: a plain job
    counts: Counts = field(default_factory=Counts)
    ready: deque[int] = field(default_factory=deque)
    delayed: list[tuple[float, int]] = field(default_factory=list)
    running: dict[int, Attempt] = field(default_factory=dict)  # by item, PREPARE included
    notes: dict[int, ItemNote] = field(default_factory=dict)
    failed: dict[int, dict[str, Any]] = field(default_factory=dict)  # rows of failed.json
    failed_why: dict[int, Text] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    upstream: set[int] = field(default_factory=set)  # jobs still waited for
    first_granted: Instant | None = None
    prepare_key: str | None = None  # what must be prepared before items start; None: nothing
    prepared: bool = True
    prepare_tries: int = 0
    prepare_used: int = 0  # of the retries that the file allows
    prepare_not_before: float = 0.0
    reopened: bool = False  # by `retry` after it had ended

    def note(self, item: int) -> ItemNote:
        found = self.notes.get(item)
        if found is None:
            found = self.notes[item] = ItemNote()
        return found

    @property
    def items_running(self) -> int:
        return len(self.running) - (PREPARE in self.running)

    def wake(self, now_utc: float) -> None:
        """Moves items whose wait is over to the ready ones."""
        while self.delayed and self.delayed[0][0] <= now_utc:
            self.ready.append(heapq.heappop(self.delayed)[1])

    def delay(self, item: int, not_before: float) -> None:
        heapq.heappush(self.delayed, (not_before, item))

    def values(self, item: int) -> dict[str, str]:
        return self.item_values.get(item, {})


@dataclass(slots=True)
class Board:
    """``setups``: what is being prepared now, by key -> job id. ``submit_keys``: recent ones, for repeated submits."""

    jobs: dict[int, OpenJob] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    setups: dict[str, int] = field(default_factory=dict)
    submit_keys: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)  # (id, name, items)
    queue: list[tuple[int, int]] = field(default_factory=list)  # (-priority, job id) of jobs with items queued, sorted
    next_job: int = 1
    next_attempt: int = 1
    next_grant: int = 1
    dependants: dict[int, set[int]] = field(default_factory=dict)

    def position(self, job_id: int) -> int | None:
        """The job's place in the queue, 1 the first; None when nothing of it is queued."""
        job = self.jobs.get(job_id)
        if job is None or not job.counts.queued:
            return None
        return bisect.bisect_left(self.queue, (-job.spec.priority, job_id)) + 1

    def requeue(self, job: OpenJob) -> None:
        """Puts ``job`` into the queue or takes it out, as its counts say. To be called whenever ``counts.queued`` changed."""
        key = (-job.spec.priority, job.id)
        at = bisect.bisect_left(self.queue, key)
        there = at < len(self.queue) and self.queue[at] == key
        if job.counts.queued and not there:
            self.queue.insert(at, key)
        elif there and not job.counts.queued:
            del self.queue[at]

    def granted(self) -> tuple[float, int, dict[str, int]]:
        """CPUs and host memory (bytes) granted now, and the attempt that holds each card."""
        cpus, memory = 0.0, 0
        cards: dict[str, int] = {}
        for attempt in self.attempts.values():
            cpus += attempt.allocation.cpus
            memory += attempt.allocation.memory_bytes or 0
            for card in attempt.allocation.card_ids:
                cards[card] = attempt.id
        return cpus, memory, cards
