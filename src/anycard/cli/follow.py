"""Following a job to its end: through daemon restarts, interruptible, its log beside it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from anycard.api.client import Client, Json
from anycard.cli.output import note
from anycard.cli.streams import UnwrittenError
from anycard.errors import AnycardError, UnavailableError
from anycard.i18n import _
from anycard.i18n.words import HOLDING, OVER

_AWAY_S = 60.0  # a daemon that restarts is back long before
_AGAIN_S = 0.3
_BEGUN = (*HOLDING, *sorted(OVER - {"partly-failed"}))
# Lines that anycard itself writes at the head and the end of an attempt's log: progress, not what the program said.
_OWN_LINES = (b"[anycard] job ", b"[anycard] ended ")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a request to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, SIGINT and SIGTERM raise Interrupted; a signal that the caller had us ignore stays ignored."""
    before: dict[signal.Signals, Any] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watched(client: Client, job_id: int, *, deadline: float | None = None) -> Iterator[Json]:
    """The lines of ``Client.watch`` until the job is over, also when the daemon restarts meanwhile. The first line, and the first after a
    restart, holds every item that was ever started, so that nothing that happened before is missed.

    ``deadline`` on the monotonic clock: TimeoutError then. UnavailableError when the daemon stays away.
    """
    away_since: float | None = None
    while True:
        try:
            first = True
            for line in client.watch(job_id, timeout_s=_left(deadline)):
                away_since = None
                yield {**line, "items": _begun(client, job_id)} if first else line
                first = False
                if line["job"]["state"] in OVER:
                    return
                _left(deadline)
        except UnavailableError as error:
            away_since = _still_away(away_since, error)
        time.sleep(_AGAIN_S)


def _begun(client: Client, job_id: int) -> list[Json]:
    return [item for state in _BEGUN for item in client.all_items(job_id, state=state)]


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _still_away(since: float | None, error: UnavailableError) -> float:
    now = time.monotonic()
    if since is None:
        note(_("the daemon is away; the job goes on, waiting for the daemon to come back"))
        return now
    if now - since > _AWAY_S:
        raise error
    return since


class LogStream:
    """Copies the log of item 0 to stdout while it is written, attempt after attempt, in a thread of its own."""

    def __init__(self, client: Client, job_id: int) -> None:
        self._client = client
        self._job_id = job_id
        self._changed = threading.Condition()
        self._attempts = 0
        self._over = False
        self._failure: AnycardError | UnwrittenError | None = None
        self._writing = threading.Lock()  # held while a piece is written, and by ``pause`` until ``go_on``
        self._thread = threading.Thread(target=self._copy, name="log", daemon=True)
        self._thread.start()

    def saw(self, attempts: int) -> None:
        """So many attempts were started by now. Raises UnwrittenError when stdout takes no more."""
        with self._changed:
            self._attempts = max(self._attempts, attempts)
            self._changed.notify()
            if isinstance(self._failure, UnwrittenError):
                raise self._failure

    def pause(self) -> None:
        """Returns once no piece is half written; none is written until ``go_on``, so that a question stays on its line."""
        self._writing.acquire()

    def go_on(self) -> None:
        """Writes what came since ``pause``, and then what comes."""
        self._writing.release()

    def finish(self) -> None:
        """The job is over: returns once everything was copied. Raises what kept it from that."""
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _copy(self) -> None:
        try:
            number = 0
            while self._next(number):
                number += 1
                self._copy_attempt(number)
        except (AnycardError, UnwrittenError) as failure:
            with self._changed:
                self._failure = failure

    def _next(self, number: int) -> bool:
        """Waits for an attempt after ``number``; False when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._attempts > number or self._over)
            return self._attempts > number

    def _copy_attempt(self, number: int) -> None:
        written = 0  # bytes copied so far: after a dropped connection the copy goes on from there
        away_since: float | None = None
        while True:
            seen = 0
            try:
                for chunk in said_by_program(self._client.log(self._job_id, 0, attempt=number, follow=True)):
                    fresh = chunk[max(0, written - seen) :]
                    seen += len(chunk)
                    if fresh:
                        with self._writing:
                            sys.stdout.buffer.write(fresh)
                            sys.stdout.buffer.flush()
                        written = seen
                return
            except UnavailableError:  # the main thread says so
                away_since = time.monotonic() if away_since is None else away_since
                if time.monotonic() - away_since > _AWAY_S:
                    raise
                time.sleep(_AGAIN_S)


def said_by_program(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A log without anycard's own lines. What may still become one of them is held back until its line is whole."""
    held = b""
    line_start = True
    for chunk in chunks:
        *lines, held = (held + chunk).split(b"\n")
        out = bytearray()
        for line in lines:
            if not (line_start and line.startswith(_OWN_LINES)):
                out += line + b"\n"
            line_start = True
        if held and not (line_start and _may_be_own(held)):
            out += held
            held, line_start = b"", False
        if out:
            yield bytes(out)
    if held and not held.startswith(_OWN_LINES):
        yield held


def _may_be_own(start: bytes) -> bool:
    return any(start.startswith(own) or own.startswith(start) for own in _OWN_LINES)
