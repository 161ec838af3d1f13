"""A reader looks at one vendor's cards again and again. It lives in a thread of its own, so that one that hangs stops nobody else."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from anycard.cards.problem import VendorFault
from anycard.cards.readings.shapes import Look, Mark
from anycard.i18n import N_
from anycard.model.instant import Instant
from anycard.model.text import Text

log = logging.getLogger("anycard.readings")

_BROKEN = N_("Reading {vendor} cards failed: {error}")


class Reader(Protocol):
    """``period_s``: how often it may be asked. A look that raises VendorFault says why there is nothing to be seen."""

    @property
    def name(self) -> str:
        """The vendor."""

    @property
    def period_s(self) -> float:
        """Seconds from one look to the next."""

    def look(self, at: Instant) -> Look:
        """What there is now. Called from one thread at a time, a second after the last at the soonest."""

    def close(self) -> None:
        """Lets go whatever it keeps open. Called in the thread of ``look``."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A look that ended, when it was begun, and what went wrong where it failed."""

    at: Instant
    look: Look
    why_not: Text | None = None


class Worker:
    """One reader's thread. Everything here but ``_run`` is called by the sampler's thread alone."""

    def __init__(self, reader: Reader, done: SimpleQueue[Worker]) -> None:
        self.reader = reader
        self.taken: Taken | None = None  # replaced whole by the thread
        self.marks: SimpleQueue[Mark] = SimpleQueue()  # of every look, also of one that the next has replaced already
        self.busy_since: Instant | None = None
        self._done = done
        self._asked: SimpleQueue[Instant | None] = SimpleQueue()
        self._last_s = float("-inf")
        self._told: str | None = None
        threading.Thread(target=self._run, daemon=True, name=f"readings {reader.name}").start()

    def ask(self, at: Instant) -> bool:
        """Begins a look when one is due. False: it is not, or the last has not ended."""
        if self.busy_since is not None or at.boot_s - self._last_s < self.reader.period_s - 0.1:
            return False
        self._last_s = at.boot_s
        self.busy_since = at
        self._asked.put(at)
        return True

    def close(self) -> None:
        """Ends the thread once its look ends. Never waits for it."""
        self._asked.put(None)

    def _run(self) -> None:
        while (at := self._asked.get()) is not None:
            look, why_not = self._look(at)
            self.taken = Taken(at, look, why_not)
            for mark in look.marks:
                self.marks.put(mark)
            self.busy_since = None
            self._done.put(self)
        self.reader.close()

    def _look(self, at: Instant) -> tuple[Look, Text | None]:
        try:
            return self.reader.look(at), None
        except VendorFault as fault:
            return Look(), fault.problem.reason
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if said != self._told:  # once, not every second
                log.exception("reading %s cards failed", self.reader.name)
            self._told = said
            return Look(), Text(_BROKEN, {"vendor": self.reader.name, "error": said})
