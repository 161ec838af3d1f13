"""The machine's side of the loop: which cards there are, whether the disk has room, who idles, who is over `release: max`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import psutil

from anycard.cards.probe import Inventory, is_destroyed, probe
from anycard.config import Paths
from anycard.errors import UsageError
from anycard.host.host import Host
from anycard.jobs.board import PREPARE, Attempt, Board, OpenJob
from anycard.jobs.cardlocks import CardLocks
from anycard.jobs.cardwatch import DEFAULT_LIMITS, CardNews, CardWatch, Limits
from anycard.jobs.files import NO_ROOM
from anycard.jobs.hostview import host_state
from anycard.model.card import CPU_VENDOR, Card, Health, Reading
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text
from anycard.scheduling.plan import HostState
from anycard.store.engine import DiskFullError
from anycard.store.reserve import Reserve, free_bytes
from anycard.units import MIB, format_bytes, parse_bytes

log = logging.getLogger("anycard.upkeep")

DISK_PAUSE_BYTES = 256 * MIB  # below: nothing starts. Overridden by ANYCARD_DISK_PAUSE_BYTES.
PROBE_S = 3.0  # a look takes 1 to 2 ms; a lost card is known after two
DISK_WATCH_S = 2.0
ENGINE_WATCH_S = 2.0
IDLE_CPU_SHARE = 0.02  # of one core: a sleeping Python with a heartbeat thread stays below
IDLE_CARD_UTILISATION = 0.01
DESTROYED_LOOKS = (
    5  # a MIG instance that is no more stays listed until its loss is told and its job moved: that takes 5 s more
)


class Upkeep:
    """What is seen of the machine. ``start`` probes once; ``run`` keeps looking."""

    def __init__(self, paths: Paths, host: Host, limits: Limits = DEFAULT_LIMITS) -> None:
        self._paths = paths
        self._host = host
        self.inventory: Inventory = Inventory((), ())
        self.readings: Mapping[str, Reading] = {}  # the sampler's last
        self._lost_twice: dict[str, int] = {}
        self._watch = CardWatch(limits)
        self._full: Text | None = None
        self._damage: Text | None = None
        self._engine_trouble: Text | None = None
        self._pause_below = _pause_below()
        self.reserve = Reserve(paths.reserve)

    @cached_property
    def locks(self) -> CardLocks:
        return CardLocks(self._paths.home)

    @property
    def cards(self) -> tuple[Card, ...]:
        return self.inventory.cards

    async def look(self) -> bool:
        """Probes the cards; True when what the planner sees of them changed."""
        before = self.inventory
        found = await asyncio.to_thread(probe, self._host, previous=before if before.cards else None)
        self.inventory = _with_cpu(found)
        for card in self.cards:
            self._lost_twice[card.id] = self._lost_twice.get(card.id, 0) + 1 if card.health is Health.LOST else 0
        kept = [card for card in self.cards if not is_destroyed(card) or self._lost_twice[card.id] < DESTROYED_LOOKS]
        self.inventory = replace(self.inventory, cards=tuple(kept))
        return before.cards != self.inventory.cards

    # ---- cards ------------------------------------------------------------------------------------------------------------

    def lost_among(self, card_ids: Collection[str]) -> tuple[str, ...]:
        """Those of ``card_ids`` whose driver says, in two looks, that they are lost. Not seeing a card is no proof."""
        return tuple(card_id for card_id in card_ids if self._lost_twice.get(card_id, 0) >= 2)

    def card_news(self, board: Board, now: Instant) -> Iterator[CardNews]:
        """What belongs in the event log since the last look: cards lost and back, idle under a job, too hot."""
        _, _, held = board.granted()
        lost = self.lost_among([card.id for card in self.cards])
        return self._watch.look(now.boot_s, self.cards, lost=lost, readings=self.readings, held=held)

    def host_state(self, board: Board) -> HostState:
        """The machine as the planner sees it now."""
        ours = self.our_pids(board)
        locked = {card.id: self.locks.holder(card.id) for card in self.cards if card.is_accelerator}
        return host_state(
            board, self.cards, ours=ours, locked={key: who for key, who in locked.items() if who is not None}
        )

    def our_pids(self, board: Board) -> set[int]:
        """Those pids on cards that belong to an attempt: itself, or a descendant of it."""
        mine = {attempt.pid for attempt in board.attempts.values() if attempt.pid is not None}
        on_cards = {process.pid for card in self.cards for process in card.processes or ()}
        return {pid for pid in on_cards if not mine.isdisjoint(_ancestors(self._host, pid))}

    # ---- the disk ---------------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> Text | None:
        """Why nothing starts; None when all is well."""
        return self._damage or self._full or self._engine_trouble

    def note_damage(self, what: Text) -> None:
        """The store was found damaged while it is in use: what runs goes on, nothing new starts until a whole one is put in its place."""
        self._damage = what

    def note_engine(self, trouble: Text | None) -> bool:
        """What the engine says of itself: while it can start nothing, nothing is given to it. True when that changed."""
        before, self._engine_trouble = self._engine_trouble, trouble
        return before != trouble

    def disk_is_low(self) -> bool:
        return free_bytes(self._paths.home) < self._pause_below

    def watch_disk(self) -> bool:
        """Pauses or resumes starts by the room left; True when that changed."""
        before = self._full
        free = free_bytes(self._paths.home)
        if free < self._pause_below:
            self._full = self._disk_text(free)
        elif self._full is not None and free > self._pause_below * 1.25:
            self.reserve.refill()
            self._full = None
        return (before is None) != (self._full is None)

    async def look_at_disk(self) -> bool:
        return await asyncio.to_thread(self.watch_disk)

    def note_disk_full(self, error: Exception) -> bool:
        """A write failed: when it was for want of room, free the reserve and pause. True when trying again makes sense."""
        if not isinstance(error, DiskFullError) and getattr(error, "errno", None) not in NO_ROOM:
            return False
        freed = self.reserve.free()
        self._full = self._disk_text(free_bytes(self._paths.home))
        log.error("the disk is full: starts are paused (%s)", error)
        return freed

    def _disk_text(self, free: int) -> Text:
        params = {"free": format_bytes(free), "home": str(self._paths.home), "floor": format_bytes(self._pause_below)}
        return Text("starts are paused: only {free} left on the disk of {home} (at least {floor} wanted)", params)

    # ---- release ----------------------------------------------------------------------------------------------------------

    def to_stop(self, board: Board, now: Instant) -> Iterator[tuple[Attempt, EndReason]]:
        """Attempts whose card is lost, and those that did nothing for as long as their file allows."""
        for attempt in list(board.attempts.values()):
            if attempt.stop_reason is not None:
                continue
            job = board.jobs[attempt.job_id]
            if self.lost_among(attempt.allocation.card_ids):
                yield attempt, EndReason.CARD_LOST
                continue
            allowed = job.spec.release.idle_s
            if allowed is not None and attempt.item != PREPARE and self._idle_for(attempt, now) >= allowed:
                yield attempt, EndReason.IDLE_RELEASED

    def _idle_for(self, attempt: Attempt, now: Instant) -> float:
        """Seconds since the attempt last did something; unknown counts as doing something."""
        cpu_s = attempt.usage.cpu_s
        if cpu_s is None or not attempt.seen_running:
            return 0.0
        if attempt.activity is None:
            attempt.activity = (now.boot_s, cpu_s)
            return 0.0
        since, cpu_then = attempt.activity
        elapsed = now.boot_s - since
        cards_idle = all(self._card_idle(card_id) for card_id in attempt.allocation.card_ids)
        if not cards_idle or cpu_s - cpu_then > max(0.05, elapsed * IDLE_CPU_SHARE):
            attempt.activity = (now.boot_s, cpu_s)
            return 0.0
        return elapsed

    def _card_idle(self, card_id: str) -> bool:
        reading = self.readings.get(card_id)
        return reading is not None and reading.utilisation is not None and reading.utilisation <= IDLE_CARD_UTILISATION

    def past_max_release(self, board: Board, now: Instant) -> list[OpenJob]:
        """Jobs with items waiting although `release: max` is over."""
        return [
            job
            for job in board.jobs.values()
            if job.spec.release.max_s is not None
            and job.first_granted is not None
            and job.counts.queued
            and now.seconds_since(job.first_granted) >= job.spec.release.max_s
        ]


def _pause_below() -> int:
    given = os.environ.get("ANYCARD_DISK_PAUSE_BYTES")
    if given is None:
        return DISK_PAUSE_BYTES
    try:
        return parse_bytes(given)
    except ValueError:
        raise UsageError("ANYCARD_DISK_PAUSE_BYTES is no size: {value}", value=given) from None


def _with_cpu(found: Inventory) -> Inventory:
    """A machine that we run on has a CPU, even when asking for it fails: then by what the interpreter says, and marked as not asked."""
    if any(not card.is_accelerator for card in found.cards):
        return found
    why = next((problem.reason for problem in found.problems if problem.vendor == CPU_VENDOR), None)
    cpu = Card(
        id=CPU_VENDOR,
        vendor=CPU_VENDOR,
        model="CPU",
        cores=float(os.cpu_count() or 1),
        memory_bytes=psutil.virtual_memory().total,
        health=Health.UNREACHABLE,
        health_reason=why,
    )
    return Inventory((cpu, *found.cards), found.problems)


def _ancestors(host: Host, pid: int) -> Iterator[int]:
    """``pid`` and its parents, as far as they can be seen."""
    for _ in range(64):
        yield pid
        stat = host.read(f"/proc/{pid}/stat").text
        if stat is None or ")" not in stat:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
        if pid <= 1:
            return
