"""Finds attempts again by their files, after the supervisor that started them has gone.

A process counts as the attempt's only by pid and boot id together with its start time or the attempt's mark. "Cannot be read" is
unseen, never ended.
"""

from __future__ import annotations

import os
import resource
import time

from anycard.engines.local.supervisor import attempt as states
from anycard.engines.local.supervisor import processes, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anycard.engines.local.supervisor.attempt import Attempt
    from anycard.engines.local.supervisor.attempts import Attempts

_CLAIM_TIMEOUT_S = (
    2.0  # a shim writes its claim within microseconds; after this it was killed in between, or the disk is full
)
_UNSEEN_AGAIN_S = 5.0
POLL_S = 1.0  # for processes without a pidfd
_SPARE_DESCRIPTORS = 200


class Finding:
    """Works on the attempts of one ``Attempts``."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._watched = 0
        self._most_watched = max(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_DESCRIPTORS)

    def find(self, attempt: Attempt, now: float) -> None:
        """Reads the attempt's files: it ended, runs, was lost, or was never started."""
        try:
            ended = records.read_exit(attempt.stem)
            started = self._started(attempt.stem, ended is not None)
            if started is None and ended is None:
                if attempt.spec is not None and attempt.pid is None:
                    self._attempts.enqueue(attempt)
                    return
                # Taking the claim ourselves makes sure that no late shim runs what is reported as lost.
                if os.path.isdir(os.path.dirname(attempt.stem)) and not records.claim(
                    attempt.stem, self._attempts.boot_id
                ):
                    self.wait_for_claim(attempt, now)
                    return
            stop = records.read_stop(attempt.stem)
        except records.Incomplete:
            self.wait_for_claim(attempt, now)
            return
        except OSError:  # cannot be read now: that says nothing about the attempt
            attempt.state, attempt.pending_since = states.PENDING, now
            self._attempts.report(attempt, unseen=True)
            self._attempts.attend(attempt, now + _UNSEEN_AGAIN_S)
            return
        attempt.spec = None
        if stop is not None:
            attempt.stopped_for = stop["why"]
        if started is not None:
            self._take_started(attempt, started)
        if ended is not None and not self._may_run(started):
            attempt.exit_code, refusal, when = ended
            attempt.start_failure = attempt.refused(refusal) if refusal is not None else None
            self._drain_found(attempt, when)
        elif started is None or not started.pid:
            attempt.lost = True
            self._drain_found(attempt, time.time())
        elif started.boot_id != self._attempts.boot_id:
            attempt.lost = attempt.rebooted = True
            self._drain_found(attempt, time.time())
        else:
            self._adopt(attempt, stop, now)

    def _may_run(self, started: records.Started | None) -> bool:
        """Whether the claim names a process of this boot that can be looked at. An end is the shim's last act, so one that stands below the
        claim of a shim that lives was written by its program, and does not count."""
        return (
            processes.HAS_PROC
            and started is not None
            and bool(started.pid)
            and started.boot_id == self._attempts.boot_id
        )

    def _started(self, stem: str, ended: bool) -> records.Started | None:
        """The claim; of an attempt that has ended, it may have been taken away or spoiled by the program."""
        try:
            return records.read_started(stem)
        except records.Incomplete:
            if not ended:
                raise
            return None

    def wait_for_claim(self, attempt: Attempt, now: float) -> None:
        """Claimed, but not readably: looked at again until it is, or until nobody can be writing it any more."""
        if attempt.state != states.PENDING:
            attempt.state = states.PENDING
            attempt.pending_since = now
        if now - attempt.pending_since < _CLAIM_TIMEOUT_S:
            self._attempts.attend(attempt, now + 0.02)
            return
        # Nobody finishes this claim any more. Draining looks for processes by their mark, so none goes on unseen.
        if attempt.pid is not None and attempt.spec is None and attempt.own:
            attempt.start_failure = states.failure("unrecorded")
            attempt.disk_full = disk_is_full(attempt.stem)
        else:
            attempt.lost = True
        attempt.own = False  # whoever claimed it need not be a child of ours
        self._drain_found(attempt, time.time())

    def _take_started(self, attempt: Attempt, started: records.Started) -> None:
        attempt.take_note(started.note)
        attempt.pid = started.pid or None
        attempt.start_ticks = started.start_ticks
        limits = started.note.get("limits")
        attempt.limits = limits if limits in ("cgroup", "watched") else "none"
        if os.getuid() == 0:
            owner = os.lstat(os.path.dirname(attempt.stem)).st_uid
            attempt.uid = owner or None
        names = started.note.get("groups")
        if isinstance(names, list) and names and started.boot_id == self._attempts.boot_id:
            attempt.group = self._attempts.cgroups.existing(attempt.id, [str(name) for name in names])

    def _adopt(self, attempt: Attempt, stop: dict[str, Any] | None, now: float) -> None:
        """The claim names a process of this boot: it runs, or it just ended, or it was killed with its shim."""
        assert attempt.pid is not None
        attempt.own = False
        if not attempt.start_ticks:
            attempt.start_ticks = self._proven_start(attempt)
        alive = processes.is_alive(attempt.pid, attempt.start_ticks)
        if alive and attempt.uid is not None:
            alive = processes.owner_of(attempt.pid) == attempt.uid
        if alive and hasattr(os, "pidfd_open") and self._watched < self._most_watched:
            attempt.pidfd = processes.open_pidfd(attempt.pid, attempt.start_ticks)
            alive = attempt.pidfd is not None
        if not alive:
            self.gone(attempt)
            return
        attempt.seen_alive = True
        attempt.state = states.RUNNING
        attempt.started_at = attempt.start_ticks / processes.TICKS_PER_S if attempt.start_ticks else now
        self._attempts.unattend(attempt)
        if attempt.pidfd is not None:
            self._watched += 1
            self._attempts.watch(attempt.pidfd, attempt)
        else:
            self._attempts.attend(attempt, now + POLL_S)
        self._attempts.now_runs(attempt)
        if stop is not None:
            kill_at = states.finite(stop.get("kill_at"))
            grace_s = attempt.note["grace_s"] if kill_at is None else max(0.0, kill_at - now)
            self._attempts.ending.begin(attempt, stop["why"], grace_s, told=stop.get("told") is True)

    def _proven_start(self, attempt: Attempt) -> int:
        """When the process of the claimed pid started, in clock ticks since boot, if it carries the attempt's mark: else the number is
        one that no process has. 0 where the system does not tell."""
        assert attempt.pid is not None
        if not processes.HAS_PROC:
            return 0
        process = processes.read_process(attempt.pid)
        mine = process is not None and processes.mark_of(attempt.pid) == self._attempts.mark(attempt)
        return process.start if process is not None and mine else -1

    def poll(self, attempt: Attempt, now: float) -> None:
        assert attempt.pid is not None
        if processes.is_alive(attempt.pid, attempt.start_ticks):
            self._attempts.attend(attempt, now + POLL_S)
        else:
            self.gone(attempt)

    def adopted_ended(self, attempt: Attempt) -> None:
        """A process that was found again has ended."""
        if attempt.pidfd is not None:  # else it was given up meanwhile
            self.unwatch(attempt)
            self.gone(attempt)

    def unwatch(self, attempt: Attempt) -> None:
        if attempt.pidfd is not None:
            self._watched -= 1
            self._attempts.unwatch(attempt.pidfd)
            os.close(attempt.pidfd)
            attempt.pidfd = None

    def gone(self, attempt: Attempt) -> None:
        """Not our child and not there any more: its record says how it ended, or nobody knows."""
        try:
            ended = records.read_exit(attempt.stem)
        except OSError:
            ended = None
        if ended is None:
            attempt.lost = True
            self._drain_found(attempt, time.time())
            return
        attempt.exit_code, refusal, when = ended
        attempt.start_failure = attempt.refused(refusal) if refusal is not None else None
        self._drain_found(attempt, when)

    def _drain_found(self, attempt: Attempt, ended_utc: float) -> None:
        utc = time.time()
        attempt.ended_utc = min(utc, ended_utc)
        attempt.ended_at = self._attempts.now() - (utc - attempt.ended_utc)
        attempt.state = states.DRAINING
        self._attempts.attend(attempt, 0.0)


def disk_is_full(stem: str) -> bool:
    """Whether an unprivileged user could not write another block there."""
    try:
        return os.statvfs(os.path.dirname(stem)).f_bavail == 0
    except OSError:
        return False
