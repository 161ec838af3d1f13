"""What running attempts use, looked at every few seconds, and memory limits where no control group holds them."""

from __future__ import annotations

import time

from anycard.engines.local.supervisor import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anycard.engines.local.supervisor.attempt import Attempt
    from anycard.engines.local.supervisor.attempts import Attempts
    from anycard.engines.local.supervisor.processes import Process

_REPORT_S = 5.0
_WATCH_S = 1.0
_MOST_SHARE = 0.05  # of one CPU: with very many processes the samples get rarer
_OVER_LIMIT_GRACE_S = 1.0  # short: what grows over its limit endangers everybody


class Sampling:
    """``due``: boot seconds of the next sample; None while nothing runs, so that an idle supervisor sleeps."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._report_due = 0.0
        self.due: float | None = None

    def has_new(self, attempt: Attempt) -> None:
        """An attempt has begun to run."""
        now = self._attempts.now()
        if self.due is None:
            self._report_due = now + _REPORT_S
            self.due = self._report_due
        if _is_watched(attempt):
            self.due = min(self.due, now + _WATCH_S)

    def turn(self, now: float) -> None:
        if self.due is None or now < self.due:
            return
        running = self._attempts.running()
        if not running:
            self.due = None
            return
        begun = time.process_time()
        for attempt in running:
            try:
                self._measure(attempt)
                if _is_watched(attempt):
                    self._check(attempt)
            except Exception as error:  # noqa: BLE001 - a number that cannot be read ends no attempt, still less all of them
                self._attempts.mishaps.note(f"attempt {attempt.id} could not be measured", error)
        if now >= self._report_due:
            self._report_due = now + _REPORT_S
            for attempt in running:
                self._attempts.report(attempt)
        rest = (time.process_time() - begun) / _MOST_SHARE
        wanted = now + _WATCH_S if any(_is_watched(attempt) for attempt in running) else self._report_due
        self.due = max(wanted, now + rest)

    def _measure(self, attempt: Attempt) -> None:
        members = dict(self._attempts.ending.members(attempt))
        if not members:
            self._attempts.ending.wake_shim(attempt)
        shim = self._attempts.ending.snapshot().by_pid.get(attempt.pid or 0)
        if shim is not None:
            members[shim.pid] = shim
        attempt.known = members
        if not members:
            return
        cpu_ticks = sum(process.cpu_ticks for process in members.values())
        attempt.cpu_s = max(attempt.cpu_s or 0.0, cpu_ticks / processes.TICKS_PER_S)
        attempt.memory_bytes = sum(process.rss_bytes for process in members.values())
        attempt.peak_memory_bytes = max(attempt.peak_memory_bytes or 0, attempt.memory_bytes)
        seen = [io for io in map(processes.io_bytes, members) if io is not None]
        if seen:
            attempt.read_bytes = max(attempt.read_bytes or 0, sum(read for read, _ in seen))
            attempt.written_bytes = max(attempt.written_bytes or 0, sum(written for _, written in seen))

    def _check(self, attempt: Attempt) -> None:
        limit = attempt.note["memory"]
        if attempt.memory_bytes is None or attempt.memory_bytes <= limit or attempt.kill_at is not None:
            return
        # Resident sizes count pages shared by forked workers several times; before anything is ended the fair count decides.
        if sum(map(_fair_bytes, attempt.known.values())) > limit:
            attempt.out_of_memory = True
            self._attempts.ending.begin(attempt, "out-of-memory", _OVER_LIMIT_GRACE_S)


def _is_watched(attempt: Attempt) -> bool:
    return attempt.limits == "watched" and attempt.note["memory"] is not None


def _fair_bytes(process: Process) -> int:
    fair = processes.proportional_bytes(process.pid)
    return process.rss_bytes if fair is None else fair
