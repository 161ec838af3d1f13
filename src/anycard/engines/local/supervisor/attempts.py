"""All attempts of this home and what happens to them: started, found again, stopped, ended, reported.

Knows nothing of sockets. The loop calls the verbs (``open``, ``start``, ``stop``, ``forget``) as messages come and ``turn`` after each
wait; ``turn`` says when it wants to be called next at the latest.
"""

from __future__ import annotations

import collections
import heapq
import os
import sys
import time

from anycard.engines.local.supervisor import attempt as states
from anycard.engines.local.supervisor import records
from anycard.engines.local.supervisor.attempt import Attempt
from anycard.engines.local.supervisor.cgroups import Cgroups
from anycard.engines.local.supervisor.ending import Ending
from anycard.engines.local.supervisor.finding import POLL_S, Finding, disk_is_full
from anycard.engines.local.supervisor.folders import Folders
from anycard.engines.local.supervisor.mishaps import Mishaps
from anycard.engines.local.supervisor.sampling import Sampling
from anycard.engines.local.supervisor.spawn import CLAIM_FAILED, REFUSED, SpawnError, own_folders, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Report = dict[str, Any]

BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # getrusage(2) there counts bytes, elsewhere KiB
_STARTS_A_TURN = 16  # so that ends and stops are seen while many start
_FRESH_S = 0.05  # after which a start is reported: of what is over sooner, the end says all, at half the cost


def boot_now() -> float:
    return time.clock_gettime(BOOT_CLOCK)


class Attempts:
    """``report`` is called with each status; ``watch(pidfd, attempt)`` and ``unwatch(pidfd)`` have the loop wait for a process that is
    not our child and call ``finding.adopted_ended``."""

    def __init__(
        self,
        home_key: str,
        boot_id: str,
        report: Callable[[Report], None],
        watch: Callable[[int, Attempt], None],
        unwatch: Callable[[int], None],
    ) -> None:
        self.home_key = home_key
        self.boot_id = boot_id
        self.by_id: dict[int, Attempt] = {}
        self.clients: set[int] = (
            set()
        )  # pids of daemons, which are no attempt's even when one of its programs started them
        self.shims: dict[int, Attempt] = {}  # our children, not reaped yet
        self.mishaps = Mishaps()
        self.cgroups = Cgroups(home_key)
        self.ending = Ending(self)
        self.finding = Finding(self)
        self.folders = Folders()
        self._report = report
        self.watch = watch
        self.unwatch = unwatch
        self._sampling = Sampling(self)
        self._queue: collections.deque[Attempt] = collections.deque()
        self._deadlines: list[tuple[float, int, str]] = []
        self._attention: dict[int, Attempt] = {}  # looked at when their ``due`` comes
        self._fresh: collections.deque[Attempt] = collections.deque()  # started, which was not reported yet

    # --- verbs

    def open(self, wanted: list[dict[str, Any]]) -> None:
        """Finds each attempt again, or starts it when it was never started; reports on all that are known."""
        for entry in wanted:
            if entry["id"] in self.by_id:
                continue
            attempt = Attempt(entry["id"], entry["stem"])
            if entry["spec"] is not None:
                attempt.take_spec(entry["spec"])
            self.by_id[attempt.id] = attempt
            self._try(attempt, self.finding.find, attempt, boot_now())
        for attempt in self.by_id.values():
            self.report(attempt)
        self.cgroups.sweep(self.by_id.keys())

    def start(self, spec: dict[str, Any]) -> None:
        """Starts the attempt in one of the next turns; one already known is only reported on."""
        known = self.by_id.get(spec["id"])
        if known is not None:
            self.report(known)
            return
        attempt = Attempt(spec["id"], spec["stem"])
        attempt.take_spec(spec)  # before it is known: what is no spec leaves nothing behind
        self.by_id[attempt.id] = attempt
        self.enqueue(attempt)

    def stop(self, attempt_id: int, why: str, grace_s: float) -> None:
        if not isinstance(why, str) or states.finite(grace_s) is None:
            raise ValueError("no stop")
        attempt = self.by_id.get(attempt_id)
        if attempt is None:
            return
        if attempt.state == states.QUEUED:  # never started, and now nobody can
            attempt.stopped_for = why
            self._end_unstarted(attempt)
        elif attempt.state != states.ENDED:
            self._try(attempt, self.ending.begin, attempt, why, grace_s)

    def forget(self, attempt_ids: list[int]) -> None:
        for attempt_id in attempt_ids:
            attempt = self.by_id.get(attempt_id)
            if attempt is not None and attempt.state == states.ENDED:
                del self.by_id[attempt_id]
        if len(self._deadlines) > 1000 + 2 * len(self.by_id):  # mostly of attempts that ended long before
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self.by_id]
            heapq.heapify(self._deadlines)

    # --- the turn

    def turn(self) -> float | None:
        """Everything that is due now; seconds until the next thing is, None when nothing is planned."""
        self.ending.new_turn(boot_now())
        self._reap()
        for _ in range(min(_STARTS_A_TURN, len(self._queue))):
            attempt = self._queue.popleft()
            if attempt.state == states.QUEUED:
                self._try(attempt, self._spawn, attempt)
        now = boot_now()
        while self._fresh and self._fresh[0].started_at + _FRESH_S <= now:
            fresh = self._fresh.popleft()
            if fresh.state != states.ENDED:  # else that was reported
                self.report(fresh)
        while self._deadlines and self._deadlines[0][0] <= now:
            _, attempt_id, why = heapq.heappop(self._deadlines)
            attempt_or_none = self.by_id.get(attempt_id)
            if attempt_or_none is not None and attempt_or_none.state == states.RUNNING:
                self._try(attempt_or_none, self.ending.begin, attempt_or_none, why, attempt_or_none.note["grace_s"])
        for attempt in list(self._attention.values()):
            if attempt.due <= now:
                self._try(attempt, self._attend, attempt, now)
        self._sampling.turn(now)
        if self._queue:
            return 0.0
        dues = [attempt.due for attempt in self._attention.values()]
        if self._deadlines:
            dues.append(self._deadlines[0][0])
        if self._fresh:
            dues.append(self._fresh[0].started_at + _FRESH_S)
        dues += [due for due in (self._sampling.due, self.ending.groups_due) if due is not None]
        return max(0.0, min(dues) - boot_now()) if dues else None

    @property
    def busy(self) -> bool:
        """Whether any attempt has not ended."""
        return any(attempt.state != states.ENDED for attempt in self.by_id.values())

    def running(self) -> list[Attempt]:
        return [attempt for attempt in self.by_id.values() if attempt.state == states.RUNNING]

    def now(self) -> float:
        """Boot seconds."""
        return boot_now()

    def attend(self, attempt: Attempt, due: float) -> None:
        """Has it looked at when ``due`` (boot seconds) comes, at the latest."""
        attempt.due = due
        self._attention[attempt.id] = attempt

    def unattend(self, attempt: Attempt) -> None:
        self._attention.pop(attempt.id, None)

    def enqueue(self, attempt: Attempt) -> None:
        """To be started in one of the next turns."""
        attempt.state = states.QUEUED
        self.unattend(attempt)
        self._queue.append(attempt)

    def report(self, attempt: Attempt, *, unseen: bool = False) -> None:
        """Its phase now; nothing for one that only waits for its turn to start."""
        if unseen:
            self._report(attempt.status("unseen", time.time(), boot_now()))
        elif attempt.state == states.ENDED:
            self._report(attempt.status("ended", attempt.ended_utc, attempt.ended_at))
        elif attempt.state in (states.RUNNING, states.DRAINING):
            self._report(attempt.status("running", time.time(), boot_now()))

    def _attend(self, attempt: Attempt, now: float) -> None:
        if attempt.state == states.PENDING:
            self.finding.find(attempt, now)
        elif attempt.state == states.DRAINING:
            self.ending.drain(attempt, now)
        elif attempt.state == states.RUNNING:
            if not attempt.own and attempt.pidfd is None:
                self.finding.poll(attempt, now)
            if attempt.state == states.RUNNING and attempt.kill_at is not None:
                self.ending.press(attempt, now)
                if not attempt.own and attempt.pidfd is None:
                    attempt.due = min(attempt.due, now + POLL_S)
            elif attempt.state == states.RUNNING and attempt.own:
                self.unattend(attempt)
        if attempt.state == states.ENDED:
            self.unattend(attempt)

    def adopted_ended(self, attempt: Attempt) -> None:
        """A process that was found again has ended: the loop saw its pidfd."""
        self._try(attempt, self.finding.adopted_ended, attempt)

    # --- one attempt's trouble is nobody else's

    def _try(self, attempt: Attempt, step: Callable[..., None], *arguments: object) -> None:
        """One step of one attempt. Part of what it meets is the attempt's own making (its files, its processes), and all others wait
        behind it: so whatever goes wrong ends at most this attempt."""
        try:
            step(*arguments)
        except (OSError, MemoryError) as error:  # the machine is short of something: that passes
            self.mishaps.note(f"attempt {attempt.id} is tried again", error)
            if attempt.state == states.QUEUED and attempt.pid is None:
                attempt.state, attempt.pending_since = states.PENDING, boot_now()
            self.attend(attempt, boot_now() + POLL_S)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others' supervisor outlives it
            self.mishaps.note(f"attempt {attempt.id} is given up", error)
            self._give_up(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """Says what is known, which is that nobody knows how it ends, and ends what runs of it."""
        self.finding.unwatch(attempt)
        attempt.spec = None
        if attempt.state == states.ENDED:
            self.unattend(attempt)
        elif attempt.given_up:  # nor can what runs of it be ended
            attempt.group = None
            self.ending.finish(attempt)
        else:
            if not attempt.ended_utc:
                attempt.ended_at, attempt.ended_utc = boot_now(), time.time()
                attempt.lost = True
            attempt.given_up = True
            attempt.state = states.DRAINING
            self.attend(attempt, 0.0)

    # --- starting

    def _spawn(self, attempt: Attempt) -> None:
        spec = attempt.spec
        assert spec is not None  # QUEUED ones have it
        attempt.spec = None
        try:
            entrances = self._enclose(attempt)
            pid = spawn(spec, attempt.note, self.mark(attempt), self.boot_id, entrances, self.folders)
        except SpawnError as error:
            attempt.start_failure = states.failure(error.code, **error.params)
            attempt.disk_full = error.disk_full
            self._end_unstarted(attempt)
            return
        except Exception as error:  # noqa: BLE001 - nothing runs, which the attempt's end says
            self.mishaps.note(f"attempt {attempt.id} could not be started", error)
            attempt.start_failure = states.failure("odd-words", reason=type(error).__name__)
            self._end_unstarted(attempt)
            return
        attempt.pid = pid
        attempt.own = attempt.seen_alive = True
        attempt.folders = own_folders(spec) if attempt.uid is None else []
        attempt.started_at = boot_now()
        attempt.state = states.RUNNING
        self.shims[pid] = attempt
        self.now_runs(attempt)

    def _enclose(self, attempt: Attempt) -> list[str]:
        """Makes the attempt's control group where it needs one; the files through which it is entered."""
        memory, cpus = attempt.note["memory"], attempt.note["cpus"]
        if memory is not None or cpus is not None:
            attempt.group = self.cgroups.make(attempt.id, memory, cpus)
            if attempt.group is not None:
                attempt.note["groups"] = list(attempt.group.folders)
        attempt.limits = self._limits(attempt)
        attempt.note["limits"] = attempt.limits
        return attempt.group.entrances if attempt.group is not None else []

    def _limits(self, attempt: Attempt) -> str:
        wanted = {name for name, key in (("memory", "memory"), ("cpu", "cpus")) if attempt.note[key] is not None}
        held = attempt.group.controllers if attempt.group is not None else frozenset()
        if "memory" in wanted - held:
            return "watched"
        return "cgroup" if wanted and wanted <= held else "none"

    def now_runs(self, attempt: Attempt) -> None:
        """It runs: its deadlines count from ``started_at``."""
        for after_s, why in attempt.note["deadlines"]:
            heapq.heappush(self._deadlines, (attempt.started_at + after_s, attempt.id, why))
        self._sampling.has_new(attempt)
        if attempt.own:
            self._fresh.append(attempt)
        else:
            self.report(attempt)

    def _end_unstarted(self, attempt: Attempt) -> None:
        attempt.ended_at, attempt.ended_utc = boot_now(), time.time()
        self.ending.finish(attempt)

    def mark(self, attempt: Attempt) -> str:
        return f"{self.home_key}:{attempt.id}"

    # --- our own children

    def _reap(self) -> None:
        ended = []
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            attempt = self.shims.pop(pid, None)
            if attempt is not None:  # else an orphan that came to us as the subreaper
                attempt.cpu_s = max(attempt.cpu_s or 0.0, usage.ru_utime + usage.ru_stime)
                attempt.peak_memory_bytes = max(attempt.peak_memory_bytes or 0, usage.ru_maxrss * _MAXRSS_BYTES)
                if attempt.given_up:
                    continue
                self._try(attempt, self._child_ended, attempt, pid, status)
                if attempt.state == states.DRAINING:
                    ended.append(attempt)
        if not ended:
            return
        try:
            self.ending.settle(ended)
        except Exception as error:  # noqa: BLE001 - looked at one by one, the one that it is about shows
            self.mishaps.note("ended attempts are looked at one by one", error)
            for attempt in ended:
                if attempt.state == states.DRAINING:
                    self.attend(attempt, 0.0)

    def _child_ended(self, attempt: Attempt, pid: int, status: int) -> None:
        """What the system says of our own child is the end; its record, where the program may have written, too, adds only why
        it could not be started."""
        code = os.waitstatus_to_exitcode(status)
        exit_code = 128 - code if code < 0 else code
        attempt.ended_at, attempt.ended_utc = boot_now(), time.time()
        attempt.state = states.DRAINING
        attempt.exit_code = exit_code
        try:
            ended = records.read_exit(attempt.stem)
        except OSError:
            ended = None
        if ended is not None and ended[0] == exit_code:
            return
        if code == CLAIM_FAILED and self._is_no_claimant(attempt, pid):
            return
        if ended is not None and code == REFUSED and ended[1] is not None:
            attempt.exit_code = None
            attempt.start_failure = attempt.refused(ended[1])
            return
        # The shim was killed, or its files are gone or forged, or the disk is full: what we saw is the record.
        try:
            records.write_exit(attempt.stem, exit_code)
        except OSError:
            return  # it stays in our memory and is reported until forgotten

    def _is_no_claimant(self, attempt: Attempt, pid: int) -> bool:
        """Whether our child could not claim the attempt: what is the attempt instead is then found out."""
        try:
            started = records.read_started(attempt.stem)
        except records.Incomplete:
            attempt.exit_code = None
            self.finding.wait_for_claim(attempt, attempt.ended_at)
            return True
        except OSError:
            started = None  # as if it were not there: nobody can have claimed it
        if started is None:
            attempt.exit_code = None
            attempt.start_failure = states.failure("unrecorded")
            attempt.disk_full = disk_is_full(attempt.stem)
            return True
        if started.pid == pid:
            return False
        attempt.exit_code = None
        self.finding.find(attempt, attempt.ended_at)  # another shim was first: that one is the attempt
        return True
