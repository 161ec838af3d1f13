"""Tells the hooks: a thread each, which reads the event log from where it was. Nothing here touches the loop of turns.

The log is the queue. How far a hook was told is a file of the home, so a restart neither forgets nor repeats much: a notice goes out at
least once, and carries the event's number. A receiver that is away costs it its own old news (``OLD_S``), and nobody else anything.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from anycard.config import Paths
from anycard.errors import AnycardError, UnavailableError
from anycard.host.clock import now
from anycard.jobs.files import write_private
from anycard.jobs.hooks.notice import EVENT_KINDS, Notice, notice
from anycard.jobs.hooks.settings import Hook, Shape
from anycard.jobs.hooks.shapes import PACE_S, Verdict, message, verdict
from anycard.store import queries
from anycard.store.engine import Store
from anycard.store.eventlog import events_between, last_event

log = logging.getLogger("anycard.hooks")

LOOK_S = 2.0
OLD_S = 3600.0  # what could not be told for so long is not told any more
RETRIES_S = (2.0, 8.0, 30.0, 120.0)  # waits before the second to the last try
BATCH = 200  # notices taken from the log at once
_JOIN_S = 2.0


class Sender:
    """``start`` begins a thread for each hook, ``stop`` ends them; a message on its way may be cut off by that and is sent again."""

    def __init__(
        self,
        paths: Paths,
        store: Store,
        hooks: Sequence[Hook],
        *,
        look_s: float = LOOK_S,
        retries_s: Sequence[float] = RETRIES_S,
    ) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=_Follower(paths, store, hook, self._stop, look_s, retries_s).run,
                name=f"hook {hook.name}",
                daemon=True,
            )
            for hook in hooks
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_JOIN_S)


class _Follower:
    """One hook's."""

    def __init__(
        self, paths: Paths, store: Store, hook: Hook, stop: threading.Event, look_s: float, retries_s: Sequence[float]
    ) -> None:
        self._store = store
        self._hook = hook
        self._stop = stop
        self._look_s = look_s
        self._retries_s = retries_s
        self._file = place_file(paths, hook)
        self._place: int | None = None
        self._kept: int | None = None  # the last that was written down
        self._host = os.uname().nodename

    def run(self) -> None:
        troubled = False
        while not self._stop.is_set():
            try:
                self._tell_what_is_new()
                troubled = False
            except (AnycardError, OSError) as error:  # the store or the disk: later
                if not troubled:
                    log.warning("hook %s cannot go on: %s", self._hook.name, error)
                troubled = True
            self._stop.wait(self._look_s)

    def _tell_what_is_new(self) -> None:
        while not self._stop.is_set():
            notices, end, more = self._waiting()
            young = [one for one in notices if now().utc_s - one.at < OLD_S]
            if len(young) < len(notices):
                log.warning("hook %s: %d old notices are not told any more", self._hook.name, len(notices) - len(young))
            for part in self._parts(young):
                if not self._delivered(part):
                    return
                self._note(part[-1].id)
            self._note(end)
            if not more:
                return

    def _waiting(self) -> tuple[list[Notice], int, bool]:
        """What came since, the place up to which the log was read, and whether there is more."""
        with self._store.read() as connection:
            last = last_event(connection)
            if self._place is None:
                self._place = min(_read(self._file, default=last), last)  # a restored store may be behind
            events = events_between(connection, self._place, last, kinds=EVENT_KINDS, limit=BATCH)
            jobs = {event["job_id"]: queries.job(connection, event["job_id"]) for event in events if event["job_id"]}
        made = [notice(event, jobs.get(event["job_id"]), self._host) for event in events]
        wanted = [one for one in made if one is not None and one.kind in self._hook.kinds]
        more = len(events) == BATCH
        return wanted, events[-1]["seq"] if more else last, more

    def _parts(self, notices: Sequence[Notice]) -> Iterator[Sequence[Notice]]:
        """Of the JSON shape each alone; a chat gets all that waits as one message."""
        if self._hook.shape is Shape.JSON:
            yield from ([one] for one in notices)
        elif notices:
            yield notices

    def _delivered(self, part: Sequence[Notice]) -> bool:
        """True also when it was given up. False: the daemon stops, it is told by the next one."""
        for wait_s in (*self._retries_s, None):
            took, why = send(self._hook, part)
            if took is Verdict.TAKEN:
                self._stop.wait(PACE_S.get(self._hook.shape, 0.0))
                return True
            if took is Verdict.REFUSED or wait_s is None:
                log.warning("hook %s: %d notices were not taken: %s", self._hook.name, len(part), why)
                return True
            log.info("hook %s: %s; tries again in %g s", self._hook.name, why, wait_s)
            if self._stop.wait(wait_s):
                return False
        return True

    def _note(self, place: int) -> None:
        self._place = place  # in any case: while the disk is full, nobody is told the same thing again and again
        if place != self._kept:
            self._file.parent.mkdir(mode=0o700, exist_ok=True)
            write_private(self._file, b"%d\n" % place)
            self._kept = place


def send(hook: Hook, notices: Sequence[Notice]) -> tuple[Verdict, str]:
    """One try, in this thread, ten seconds at most; never raises for what a receiver does."""
    from anycard.jobs.hooks.post import post  # urllib and ssl: 6 MB that a daemon without hooks need not hold

    try:
        status, body = post(message(hook, notices, now().utc_s))
    except UnavailableError as error:
        return Verdict.LATER, str(error)
    return verdict(hook.shape, status, body)


def place_file(paths: Paths, hook: Hook) -> Path:
    """Holds the number of the last event that ``hook`` was told of."""
    return paths.home / "hooks" / hook.name


def _read(file: Path, *, default: int) -> int:
    try:
        return int(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return default
