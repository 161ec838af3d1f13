"""The sampler: a thread that asks every reader once a second and makes a tick of what they saw.

A reader that does not answer is not waited for: after PATIENCE_S the tick is made without it. Its last look stands in for it while that
is fresh; then its cards are unknown, and the tick names it as silent.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from queue import Empty, SimpleQueue

from anycard.cards.readings.reader import Reader, Worker
from anycard.cards.readings.recent import Recent
from anycard.cards.readings.shapes import CardUse, Mark, MarkKind, Silent, Tick
from anycard.host.clock import now
from anycard.i18n import N_
from anycard.model.card import CPU_VENDOR, Reading
from anycard.model.instant import Instant
from anycard.model.text import Text

log = logging.getLogger("anycard.readings")

TICK_S = 1.0
PATIENCE_S = 0.3  # for all readers together, and for each: what a healthy one needs is a hundredth of it
PATIENCE_EACH_S = 0.1
_FRESH_S = 1.6  # beyond a reader's own period: one late tick is nothing, two are
_JUMP_S = 1.5  # of the wall clock against the boot clock; less is the daily work of a time service

_SILENT = N_("Reading {vendor} cards does not end: their values are unknown since.")
_ANSWERS = N_("Reading {vendor} cards works again.")
_JUMPED = N_("The clock was set by {seconds} s.")


class Sampler:
    """``make`` gives the reader of a vendor; ``on_tick`` is called with each tick, in the sampler's thread, and must not wait."""

    def __init__(self, make: Callable[[str], Reader], on_tick: Callable[[Tick], None]) -> None:
        self.recent = Recent()
        self._make = make
        self._on_tick = on_tick
        self._wanted: frozenset[str] = frozenset()
        self._workers: dict[str, Worker] = {}
        self._silent: dict[str, Silent] = {}
        self._done: SimpleQueue[Worker] = SimpleQueue()
        self._ended = threading.Event()
        self._ahead: float | None = None  # of the wall clock before the boot clock
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """No tick comes after this returns, unless ``on_tick`` itself hangs. Readers end by themselves."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        for worker in self._workers.values():
            worker.close()

    def watch(self, vendors: Collection[str]) -> None:
        """Whose cards there are now. A vendor that was here stays: a driver that answers no more is to be seen as silent."""
        self._wanted = self._wanted | frozenset(vendors)

    def _run(self) -> None:
        while not self._ended.is_set():
            moment = now()
            # On the whole seconds of the boot clock: no drift, and after a suspend just a gap.
            if self._ended.wait(math.floor(moment.boot_s / TICK_S + 1) * TICK_S - moment.boot_s):
                return
            try:
                self._on_tick(self.tick(now()))
            except Exception:
                log.exception("a tick failed")

    def tick(self, at: Instant) -> Tick:
        """One round, also for tests and the command line."""
        for vendor in sorted(self._wanted - self._workers.keys(), key=lambda name: (name != CPU_VENDOR, name)):
            self._workers[vendor] = Worker(self._make(vendor), self._done)
        self._ask(at)
        marks = self._clock_marks(at)
        readings: list[Reading] = []
        uses: list[CardUse] = []
        for vendor, worker in self._workers.items():
            taken, busy_since = worker.taken, worker.busy_since
            while not worker.marks.empty():  # nobody else takes them
                marks.append(replace(worker.marks.get(), at=at.utc_s))
            fresh = taken is not None and at.boot_s - taken.at.boot_s <= worker.reader.period_s + _FRESH_S
            if fresh and taken is not None and taken.why_not is None:
                readings += taken.look.readings
                uses += taken.look.uses
                marks += self._speaks(vendor, at)
            elif taken is not None and taken.why_not is not None and busy_since is None:
                marks += self._falls_silent(vendor, taken.at, taken.why_not, at)
            elif busy_since is not None and at.boot_s - busy_since.boot_s > worker.reader.period_s + _FRESH_S:
                why = Text(_SILENT, {"vendor": vendor})
                if vendor not in self._silent:
                    log.warning("%s", why)
                marks += self._falls_silent(vendor, busy_since, why, at)
        tick = Tick(at.utc_s, at.boot_s, tuple(readings), tuple(uses), tuple(self._silent.values()), tuple(marks))
        self.recent.add(tick)
        return tick

    def _ask(self, at: Instant) -> None:
        """One after another: two threads that take the interpreter's lock from each other at every call of a library cost twice as much.
        Whoever takes long is not waited for, so that the next still has its turn."""
        deadline = time.monotonic() + PATIENCE_S
        for worker in self._workers.values():
            if not worker.ask(at):
                continue
            until = min(time.monotonic() + PATIENCE_EACH_S, deadline)
            while worker.busy_since is not None and (left := until - time.monotonic()) > 0:
                try:
                    self._done.get(timeout=left)  # perhaps of another, which was late
                except Empty:
                    break

    def _falls_silent(self, vendor: str, since: Instant, why: Text, at: Instant) -> list[Mark]:
        """A mark when it begins. The reason may change meanwhile: the latest holds."""
        before = self._silent.get(vendor)
        if before is not None:
            self._silent[vendor] = replace(before, why=why)
            return []
        self._silent[vendor] = Silent(vendor, since.utc_s, why)
        return [Mark(at.utc_s, None, MarkKind.SILENT, why)]

    def _speaks(self, vendor: str, at: Instant) -> list[Mark]:
        if self._silent.pop(vendor, None) is None:
            return []
        return [Mark(at.utc_s, None, MarkKind.ANSWERS, Text(_ANSWERS, {"vendor": vendor}))]

    def _clock_marks(self, at: Instant) -> list[Mark]:
        ahead, self._ahead = self._ahead, at.ahead_s
        if ahead is None or abs(self._ahead - ahead) < _JUMP_S:
            return []
        return [Mark(at.utc_s, None, MarkKind.CLOCK, Text(_JUMPED, {"seconds": round(self._ahead - ahead, 1)}))]
