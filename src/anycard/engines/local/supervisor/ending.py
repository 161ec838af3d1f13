"""Ends attempts: the stop signal, the grace, the kill, and whatever a program left behind.

The shim is spared until everything else of its attempt is gone, so that it can still write down how the program ended.
"""

from __future__ import annotations

import os
import signal
import time

from anycard.engines.local.supervisor import attempt as states
from anycard.engines.local.supervisor import processes, records
from anycard.engines.local.supervisor.processes import Process, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anycard.engines.local.supervisor.attempt import Attempt
    from anycard.engines.local.supervisor.attempts import Attempts
    from anycard.engines.local.supervisor.cgroups import Group

_SETTLE_S = 0.2  # what is only just exiting when its parent has ended is not "left behind"
_LEFT_BEHIND_GRACE_S = 2.0
_UNKILLABLE_S = 10.0  # a process the kernel holds (device or network file system) is not waited for longer
_FORKING_S = 1.0  # killed one by one for so long, what is still there forks faster than we look
_SHIM_GRACE_S = 1.0  # for the shim to write the exit, once it is alone
_GROUP_TRIES = 60  # a second apart


class Ending:
    """Works on the attempts of one ``Attempts``. One snapshot of the processes serves a whole turn, however many attempts end in it."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._subreaper = processes.become_subreaper()
        self._snapshot: Snapshot | None = None
        self._marks: dict[tuple[int, int], str | None] = {}
        self._groups: list[tuple[Group, int]] = []  # still to be removed, tries left
        self.groups_due: float | None = None

    def new_turn(self, now: float) -> None:
        self._snapshot = None
        if self.groups_due is not None and now >= self.groups_due:
            for group, _ in self._groups:
                group.kill()
            self._groups = [(group, tries - 1) for group, tries in self._groups if tries > 1 and not group.remove()]
            self.groups_due = now + 1.0 if self._groups else None

    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = Snapshot()
            alive = {(process.pid, process.start) for process in self._snapshot.by_pid.values()}
            self._marks = {key: mark for key, mark in self._marks.items() if key in alive}
        return self._snapshot

    # --- whose process is it

    def members(self, attempt: Attempt) -> dict[int, Process]:
        """Every process of the attempt but its shim, by pid: below the shim, in its session, process group or control group, seen there
        before, or with its mark in the environment (those that escaped all else by double fork and setsid)."""
        snapshot = self.snapshot()
        since = attempt.since_ticks()
        roots: list[Process] = []
        if attempt.pid is not None and attempt.seen_alive:
            if attempt.state == states.RUNNING:
                roots += snapshot.children.get(attempt.pid, [])
            roots += [process for process in snapshot.led_by.get(attempt.pid, []) if process.start >= since]
        if attempt.group is not None:
            roots += [snapshot.by_pid[pid] for pid in attempt.group.pids() if pid in snapshot.by_pid]
        for pid, known in attempt.known.items():
            process = snapshot.by_pid.get(pid)
            if process is not None and process.start == known.start:
                roots.append(process)
        mark = self._attempts.mark(attempt)
        # As the subreaper we are the parent of every orphan of our own attempts; those of an earlier supervisor's can be anywhere.
        candidates = self._orphans() if attempt.own and self._subreaper else list(snapshot.by_pid.values())
        for process in candidates:
            if process.start >= since and self._mark_of(process) == mark and self._may_end(attempt, process):
                roots.append(process)
        found = snapshot.below(roots)
        if attempt.pid is not None and attempt.state == states.RUNNING:
            found.pop(attempt.pid, None)
        for pid in self._attempts.clients:
            found.pop(pid, None)
        return found

    def _orphans(self) -> list[Process]:
        """Our children that are no shim: descendants of attempts whose parents have ended."""
        return [
            process
            for process in self.snapshot().children.get(os.getpid(), [])
            if process.pid not in self._attempts.shims and process.pid not in self._attempts.clients
        ]

    def _mark_of(self, process: Process) -> str | None:
        key = (process.pid, process.start)
        if key not in self._marks:
            self._marks[key] = processes.mark_of(process.pid)
        return self._marks[key]

    def _may_end(self, attempt: Attempt, process: Process) -> bool:
        """A mark is only words in an environment: as root, it counts for processes of the attempt's own user alone."""
        return attempt.uid is None or processes.owner_of(process.pid) == attempt.uid

    # --- stopping

    def begin(self, attempt: Attempt, why: str, grace_s: float, *, told: bool = False) -> None:
        """Stops the attempt for ``why``; asked again, the shorter grace counts. ``told``: an earlier supervisor sent the signal."""
        now = self._attempts.now()
        kill_at = now + max(0.0, grace_s)
        if attempt.state == states.DRAINING:  # it ended by itself; only what it left behind can still be hurried
            attempt.kill_at = min(kill_at, attempt.kill_at or kill_at)
            self._attempts.attend(attempt, now)
            return
        if attempt.kill_at is not None:
            if kill_at < attempt.kill_at:
                attempt.kill_at = kill_at
                self._remember(attempt, told=True)
                self._attempts.attend(attempt, now)
            return
        attempt.stopped_for = why
        if attempt.state == states.PENDING:  # whoever claimed it is found by its claim, then stopped
            attempt.kill_at = kill_at
            self._remember(attempt, told=False)
            attempt.kill_at = None
            return
        attempt.kill_at = kill_at
        if told:
            attempt.told = {(0, 0)}
        else:
            self._remember(attempt, told=False)
        self._attempts.attend(attempt, now)
        self.press(attempt, now)

    def press(self, attempt: Attempt, now: float) -> None:
        """One step of stopping a running attempt."""
        assert attempt.kill_at is not None
        members = self.members(attempt)
        if not members:
            self.wake_shim(attempt)
        if now < attempt.kill_at:
            # Told once, all together; who is started later (a program's own clean-up) is left to finish within the grace.
            if not attempt.told and members:
                for process in members.values():
                    processes.send(process, signal.SIGTERM)
                    processes.send(process, signal.SIGCONT)  # a paused one could not hear it
                    attempt.told.add((process.pid, process.start))
                self._remember(attempt, told=True)
            self._attempts.attend(attempt, attempt.kill_at if attempt.told else min(attempt.kill_at, now + 0.02))
            return
        if members:
            attempt.calm_since = None
            self._kill(attempt, members)
        elif attempt.calm_since is None:
            attempt.calm_since = now
        elif now - attempt.calm_since > _SHIM_GRACE_S:
            self._kill_shim(attempt)
        self._attempts.attend(attempt, now + 0.03)

    def _kill(self, attempt: Attempt, members: dict[int, Process]) -> None:
        assert attempt.kill_at is not None
        # Who forks faster than we look is ended with its group. The shim is in there too, so one that lives is given a moment first.
        shim_lives = attempt.state == states.RUNNING
        if attempt.group is not None and not (shim_lives and self._attempts.now() < attempt.kill_at + _FORKING_S):
            attempt.group.kill()
        for _ in range(5):  # again at once, for what was forked meanwhile
            for process in members.values():
                processes.send(process, signal.SIGKILL)
            self._snapshot = None
            newer = {pid: process for pid, process in self.members(attempt).items() if pid not in members}
            if not newer:
                return
            members = newer

    def wake_shim(self, attempt: Attempt) -> None:
        """For a shim that is alone: its program may have paused it before it ended, and it could then never say that it did."""
        shim = self.snapshot().by_pid.get(attempt.pid or 0)
        if shim is not None and attempt.seen_alive:
            processes.send(shim, signal.SIGCONT)

    def _kill_shim(self, attempt: Attempt) -> None:
        if attempt.pidfd is not None:
            try:
                signal.pidfd_send_signal(attempt.pidfd, signal.SIGKILL)
            except ProcessLookupError:
                return
        elif attempt.own and attempt.pid in self._attempts.shims:
            os.kill(attempt.pid, signal.SIGKILL)

    def _remember(self, attempt: Attempt, *, told: bool) -> None:
        assert attempt.stopped_for is not None and attempt.kill_at is not None
        try:
            records.write_stop(attempt.stem, attempt.stopped_for, attempt.kill_at, told=told)
        except OSError:
            return  # the stop itself matters more than its record

    # --- after the program's end

    def settle(self, ended: list[Attempt]) -> None:
        """Our own attempts whose shims were just reaped: reports those that left nothing behind, at the cost of one small read for
        all of them together; drains the rest."""
        now = self._attempts.now()
        children = processes.own_children() if self._subreaper else None
        clean = children is not None and not children - self._attempts.shims.keys() - self._attempts.clients
        if not clean and self._subreaper:
            self._give_strays(ended)
        for attempt in ended:
            # A control group can be removed only when nothing is in it: that is asked and done at once.
            empty = clean and self._release(attempt) if self._subreaper else not _group_lives(attempt)
            if empty:
                self.finish(attempt)
            else:
                self._attempts.attend(attempt, now)
                self.drain(attempt, now)

    def _release(self, attempt: Attempt) -> bool:
        """Takes in what the kernel counted in the attempt's control group and removes it; False while anything is in there."""
        if attempt.group is None:
            return True
        if attempt.group.oom_kills():
            attempt.out_of_memory = True
        if not attempt.group.remove():
            return False
        attempt.group = None
        return True

    def _give_strays(self, ended: list[Attempt]) -> None:
        """An orphan that wiped its environment and its session belongs to somebody we ran. When none of the attempts that still run
        is older than it, it belongs to one that has just ended."""
        running = self._attempts.running()
        for orphan in self._orphans():
            mark = self._mark_of(orphan)
            if mark is not None and mark.startswith(self._attempts.home_key + ":"):
                continue
            if any(attempt.since_ticks() <= orphan.start for attempt in running):
                continue
            owners = [attempt for attempt in ended if attempt.since_ticks() <= orphan.start]
            if owners:
                max(owners, key=lambda attempt: attempt.started_at).known[orphan.pid] = orphan

    def drain(self, attempt: Attempt, now: float) -> None:
        """One step of ending what is left of an attempt whose program has ended."""
        members = self.members(attempt)
        # A group that cannot be removed has processes in it, also where each is gone again before it is looked at.
        if not members and self._release(attempt):
            self.finish(attempt)
            return
        if attempt.drained_since is None:
            attempt.drained_since = now
        if attempt.kill_at is None and now - attempt.drained_since >= _SETTLE_S:
            attempt.left_behind = max(1, len(members))
            attempt.kill_at = now + _LEFT_BEHIND_GRACE_S
            for process in members.values():
                processes.send(process, signal.SIGTERM)
                processes.send(process, signal.SIGCONT)
        if attempt.kill_at is not None and now >= attempt.kill_at:
            if now >= max(attempt.kill_at, attempt.drained_since) + _UNKILLABLE_S:
                self.finish(attempt)
                return
            if attempt.stopped_for is None:
                attempt.left_behind = max(attempt.left_behind, len(members))
            self._kill(attempt, members)
        self._attempts.attend(attempt, now + 0.05)

    def finish(self, attempt: Attempt) -> None:
        """The last word on an attempt: nothing of it runs any more."""
        if attempt.group is not None and not self._release(attempt):
            self._groups.append((attempt.group, _GROUP_TRIES))
            self.groups_due = self._attempts.now() + 0.1
            attempt.group = None
        if attempt.out_of_memory and attempt.start_failure is not None:  # too little even for its shell
            attempt.start_failure = None
            attempt.exit_code = 128 + signal.SIGKILL
        attempt.memory_bytes = None
        attempt.known, attempt.note = {}, {}
        if not attempt.given_up and not attempt.left_behind:
            self._attempts.folders.hand_on(attempt.folders, self._attempts.now() - attempt.started_at)
        self._attempts.unattend(attempt)
        attempt.state = states.ENDED
        if not attempt.ended_utc:
            attempt.ended_at, attempt.ended_utc = self._attempts.now(), time.time()
        self._attempts.report(attempt)


def _group_lives(attempt: Attempt) -> bool:
    """Without a subreaper: whether anything is left in the process group."""
    if attempt.pid is None:
        return False
    try:
        os.killpg(attempt.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
