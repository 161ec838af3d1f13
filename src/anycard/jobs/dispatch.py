"""The loop: inputs -> board -> plan -> grants -> one commit -> engine. Everything that changes a job passes here, one turn at a time.

While one turn commits, the next one's inputs gather: that is the group commit. Nobody is answered and nothing is
started before the commit; if it fails, the board is rebuilt from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anycard.cards.visibility import visibility_env
from anycard.config import Paths
from anycard.doctor.cause import Cause
from anycard.engines.protocol import AttemptStatus, Engine, Phase
from anycard.errors import AnycardError, UnavailableError
from anycard.host.clock import now
from anycard.jobs import environment, files, lifecycle, prepare
from anycard.jobs.board import PREPARE, Attempt, Board, OpenJob
from anycard.jobs.file.foreach import item_variables
from anycard.jobs.grading import Grader
from anycard.jobs.logdoctor import LogDoctor
from anycard.jobs.outcome import Outcome, asks_the_log, classify
from anycard.jobs.queueing import Startable
from anycard.jobs.reload import load_board, resume_orders
from anycard.jobs.states import ItemState
from anycard.jobs.turn import Turn
from anycard.jobs.upkeep import Upkeep
from anycard.jobs.watching import Watcher, Watchers
from anycard.model.demand import Demand
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant, rfc3339
from anycard.model.text import Text
from anycard.scheduling.plan import HostState, Policy, QueuedJob, Snapshot, WaitReason
from anycard.scheduling.planner import plan
from anycard.store.engine import DiskFullError, Store

log = logging.getLogger("anycard.dispatch")
T = TypeVar("T")

HOUSEKEEPING_S = 5.0
_SHORT_QUEUE = 200  # reasons for so many are planned at once, in about a millisecond
_REASONS_PACE_S = 0.5
_SOON_S = 0.05
_QUICK_S = 0.004
_SMALL_ROWS = 500
_MIN_CPUS = 0.001
_CLOCK_SET_S = 2.0  # less is the clock being kept right


class Dispatcher:
    """Owns the board. ``machine`` keeps what is seen of the cards; ``shell`` runs scripts; ``doctor`` reads failed attempts' logs."""

    def __init__(
        self, *, paths: Paths, store: Store, engine: Engine, machine: Upkeep, shell: str, doctor: LogDoctor
    ) -> None:
        self.paths = paths
        self.store = store
        self.engine = engine
        self.machine = machine
        self.shell = shell
        self.doctor = doctor
        self.board = Board()
        self.grader = Grader(store, self.ask)
        self._watchers = Watchers()
        self._inputs: list[Callable[[Turn], None]] = []
        self._wake = asyncio.Event()
        self._timers: list[tuple[float, int]] = []  # (when, job) to look at again
        self._startable = Startable()
        self._dirty: set[int] = set()
        self._setup_waiters: dict[str, set[int]] = {}
        self._upkeep_due = 0.0  # boot seconds
        self._clock_ahead_s = now().ahead_s
        self._settle_s = 0.0  # how long turns took to settle lately
        self._stopping = False
        self._reasons: Mapping[int, WaitReason] = {}
        self._reasons_of = -1
        self._reasoning: asyncio.Task[None] | None = None
        self._version = 0  # of the board: counts turns that changed it

    # ---- what others call -------------------------------------------------------------------------------------------------

    async def ask(self, apply: Callable[[Turn], T]) -> T:
        """Runs ``apply`` in the next turn; returns its value once that turn is durable. Its AnycardError comes back as it is."""
        if self._stopping:
            raise UnavailableError("the daemon is stopping", hint="start it again with `anycard up -d`")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def run(turn: Turn) -> None:
            try:
                value = apply(turn)
            except AnycardError as error:
                turn.reply(future, error)
            else:
                turn.reply(future, value)

        self._put(run)
        return await future

    async def reasons(self) -> Mapping[int, WaitReason]:
        """Why each waiting job waits. Of a long queue they may be a moment old: they are planned aside, a few times a second at most."""
        if self._reasons_of == self._version:
            return self._reasons
        if len(self.board.queue) <= _SHORT_QUEUE:
            self._reasons, self._reasons_of = self._plan_reasons(self._whole_snapshot()), self._version
            return self._reasons
        if self._reasoning is None or self._reasoning.done():
            self._reasoning = asyncio.create_task(self._reason_aside())
        if not self._reasons:
            await asyncio.shield(self._reasoning)
        return self._reasons

    async def _reason_aside(self) -> None:
        version, snapshot = self._version, self._whole_snapshot()
        self._reasons = await asyncio.to_thread(self._plan_reasons, snapshot)
        self._reasons_of = version
        await asyncio.sleep(_REASONS_PACE_S)

    def _plan_reasons(self, snapshot: Snapshot) -> Mapping[int, WaitReason]:
        return plan(snapshot, Policy(self.machine.paused, max_starts=0), now().utc_s).reasons

    def _whole_snapshot(self) -> Snapshot:
        at = now()
        self._follow_clock(at)
        self._refresh(at.utc_s)
        known = self._startable.known
        return Snapshot(self.host(), tuple(known[job_id] for _, job_id in self.board.queue))

    def host(self) -> HostState:
        return self.machine.host_state(self.board)

    def watch(self, job_id: int) -> Watcher:
        """News of one job; close it when done."""
        return self._watchers.watch(job_id)

    # ---- the loop ---------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Rebuilds the board, finds what runs, and starts what was granted but not started."""
        self.board = await asyncio.to_thread(load_board, self.store)
        self._startable = Startable()
        self._dirty.clear()
        self._dirty.update(self.board.jobs)
        self.machine.locks.close()
        for attempt in self.board.attempts.values():
            self.machine.locks.take(attempt.allocation.card_ids)
        orders = resume_orders(self.board, self._order, self._secrets, self.paths)
        await self.engine.open(orders)
        for attempt in self.board.attempts.values():
            if attempt.stop_reason is not None:
                grace = self.board.jobs[attempt.job_id].spec.stop_grace_s
                await self.engine.stop(attempt.id, attempt.stop_reason, grace)

    async def run(self) -> None:
        """Until ``stop``. A turn that fails for a reason nobody planned for ends the daemon: the next one starts from the store."""
        reports = asyncio.create_task(self._follow_reports(), name="engine reports")
        try:
            while not (self._stopping and not self._inputs):
                await self._wait()
                await self._turn()
                if reports.done():
                    await reports
        finally:
            reports.cancel()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def _put(self, apply: Callable[[Turn], None], *, soon: bool = False) -> None:
        """``soon``: nobody waits for it, so it may ride along with whatever comes in the next moment."""
        self._inputs.append(apply)
        if not soon:
            self._wake.set()
        elif len(self._inputs) == 1:
            asyncio.get_running_loop().call_later(_SOON_S, self._wake.set)

    def nudge(self) -> None:
        """Something outside the board changed (cards, disk): plan again."""
        self._version += 1
        self._put(self._upkeep)

    async def _wait(self) -> None:
        timeout = HOUSEKEEPING_S
        if self._timers:
            timeout = min(timeout, max(0.0, self._timers[0][0] - now().utc_s))
        with contextlib.suppress(TimeoutError):  # then a timer is due, or it is time to look after things
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        self._wake.clear()

    async def _turn(self) -> None:
        turn = Turn(now(), dirty=self._dirty)
        self._follow_clock(turn.now)
        inputs, self._inputs = self._inputs, []
        for apply in inputs:
            apply(turn)
        if turn.now.boot_s >= self._upkeep_due:
            self._upkeep(turn)
        self._place(turn)
        if turn.changes or turn.files:
            self._version += 1
            try:
                await self._settled(turn)
            except AnycardError as error:
                await self._give_up_turn(turn, error)
                return
        await self._effects(turn)

    def _follow_clock(self, at: Instant) -> None:
        """When the wall clock was set, waits before another try move with it: they are lengths of time, and not hours of the day."""
        moved, self._clock_ahead_s = at.ahead_s - self._clock_ahead_s, at.ahead_s
        if abs(moved) < _CLOCK_SET_S:
            return
        log.warning("the clock was set by %+.0f seconds", moved)
        for job in self.board.jobs.values():
            if job.delayed or job.prepare_not_before > 0:
                job.delayed = [(not_before + moved, item) for not_before, item in job.delayed]
                job.prepare_not_before += moved
                self._dirty.add(job.id)

    async def _settled(self, turn: Turn) -> None:
        """A small turn on a quick disk is settled right here: handing it to a thread and back would cost more than the commit. Otherwise in
        a worker thread, so that the API goes on answering; the loop waits for it, so nothing else writes."""
        began = now().boot_s
        if self._settle_s < _QUICK_S and len(turn.changes) < _SMALL_ROWS:
            self._settle(turn)
        else:
            await asyncio.to_thread(self._settle, turn)
        self._settle_s += (now().boot_s - began - self._settle_s) / 8  # a moving average

    def _settle(self, turn: Turn) -> None:
        """Files first, each repeatable, then the commit."""
        try:
            self._settle_once(turn)
        except (DiskFullError, OSError) as error:
            if not self.machine.note_disk_full(error):
                raise _as_unavailable(error) from error
            try:  # the reserve was freed: once more
                self._settle_once(turn)
            except OSError as again:
                raise _as_unavailable(again) from again

    def _settle_once(self, turn: Turn) -> None:
        """Want of room is everybody's trouble and fails the turn. Any other fault of a file is its own job's: its program may have put
        anything in the way, and that must not keep others from being recorded."""
        for work, needed_by in turn.files:
            try:
                work()
            except OSError as error:
                if error.errno in files.NO_ROOM:
                    raise
                log.warning("a file of a job could not be settled: %s", error)
                if needed_by is not None:
                    turn.unstartable[needed_by] = Text("its files could not be made: {why}", {"why": str(error)})
        self.store.commit(turn.changes)

    async def _effects(self, turn: Turn) -> None:
        if turn.forgets:
            await self.engine.forget(turn.forgets)
        starts = [spec for spec in turn.starts if spec.id not in turn.unstartable]
        if starts:
            await self.engine.start(starts)
        for attempt_id, why_not in turn.unstartable.items():
            ended = AttemptStatus(attempt_id, Phase.ENDED, now(), start_failure=why_not)
            self._put(partial(self._ended, ended, "", None))
        for attempt_id, why, grace in turn.stops:
            await self.engine.stop(attempt_id, why, grace)
        for future, value in turn.replies:
            if future.cancelled():
                continue
            if isinstance(value, AnycardError):
                future.set_exception(value)
            else:
                future.set_result(value)
        self._watchers.tell(turn.touched)

    async def _give_up_turn(self, turn: Turn, error: AnycardError) -> None:
        """Nothing of the turn happened: say so to those who asked, and begin again from what is durable."""
        log.error("a turn could not be recorded: %s", error)
        for future, _ in turn.replies:
            if not future.done():
                future.set_exception(error)
        await self.open()
        await asyncio.sleep(1.0)

    # ---- placing ----------------------------------------------------------------------------------------------------------

    def _place(self, turn: Turn) -> None:
        self._refresh(turn.now.utc_s)
        if not self.board.queue or self._stopping:
            return
        host = self.host()
        if host.cpus_free < _MIN_CPUS:
            return
        snapshot = Snapshot(host, self._startable.candidates(host))
        for placement in plan(snapshot, Policy(self.machine.paused), turn.now.utc_s).placements:
            job = self.board.jobs[placement.job_id]
            if not self.machine.locks.take(placement.allocation.card_ids):
                self._dirty.add(job.id)  # another daemon was quicker; the next look at the host says so
                continue
            item = PREPARE if not job.prepared else job.ready.popleft()
            if item == PREPARE and job.prepare_key is not None:
                self.board.setups[job.prepare_key] = job.id
            cards = placement.allocation.card_ids
            unreadable: UnavailableError | None = None
            try:
                secrets = self._secrets(job)
            except UnavailableError as error:
                secrets, unreadable = {}, error
            attempt = lifecycle.start(
                turn,
                self.board,
                job,
                item,
                placement.allocation,
                engine=self.engine.name,
                paths=self.paths,
                secrets=secrets,
                **self._order(job, item, cards),
            )
            if unreadable is not None:
                turn.unstartable[attempt.id] = Text(unreadable.message, unreadable.params)

    def _refresh(self, at: float) -> None:
        """Looks again at the jobs whose chance to start may have changed."""
        while self._timers and self._timers[0][0] <= at:
            self._dirty.add(heapq.heappop(self._timers)[1])
        for key in [key for key in self._setup_waiters if key not in self.board.setups]:
            self._dirty |= self._setup_waiters.pop(key)
        for job_id in self._dirty:
            job = self.board.jobs.get(job_id)
            if job is not None and job.counts.queued:
                self._startable.put(self._queued(job, at))
            else:
                self._startable.drop(job_id)
        self._dirty.clear()

    def _queued(self, job: OpenJob, at: float) -> QueuedJob:
        """The job as the planner sees it: how many items may start by the job's own rules, else which rule keeps them."""
        job.wake(at)
        if job.delayed:
            self._look_again(job, job.delayed[0][0])
        options = job.spec.options if job.prepared else (Demand(cpus=lifecycle.PREPARE_CPUS),)
        ready, waiting = self._ready(job, at)
        note = job.notes.get(job.ready[0]) if job.notes and job.ready else None
        avoid = note.avoid if note is not None else frozenset[str]()
        return QueuedJob(job.id, job.spec.priority, job.id, options, ready, waiting, avoid)

    def _ready(self, job: OpenJob, at: float) -> tuple[int, Text | None]:
        spec = job.spec
        if job.held:
            return 0, Text("is held; `anycard release {job}` lets it go", {"job": job.id})
        if job.upstream:
            return 0, Text("waits for job {job} to succeed", {"job": min(job.upstream)})
        if spec.not_before is not None and spec.not_before > at:
            self._look_again(job, spec.not_before)
            return 0, Text("waits for its start time, {time}", {"time": rfc3339(spec.not_before) or ""})
        if not job.prepared:
            return self._prepare_ready(job, at)
        if not job.ready:
            return 0, Text("waits before it tries again")
        if spec.parallel is None:
            return len(job.ready), None
        room = max(0, spec.parallel - job.items_running)
        waiting = Text("runs as many items at once as its file allows ({parallel})", {"parallel": spec.parallel})
        return min(len(job.ready), room), waiting if room < len(job.ready) else None

    def _prepare_ready(self, job: OpenJob, at: float) -> tuple[int, Text | None]:
        if PREPARE in job.running:
            return 0, Text("its setup is running")
        if job.prepare_not_before > at:
            self._look_again(job, job.prepare_not_before)
            return 0, Text("waits before its setup is tried again")
        key = job.prepare_key or ""
        other = self.board.setups.get(key)
        if other is not None:
            self._setup_waiters.setdefault(key, set()).add(job.id)
            return 0, Text("waits for the same setup, which job {job} is running", {"job": other})
        if prepare.already_done(job, self.paths):
            job.prepared = True
            return self._ready(job, at)
        return 1, None

    def _look_again(self, job: OpenJob, utc_s: float) -> None:
        heapq.heappush(self._timers, (utc_s, job.id))

    def _order(self, job: OpenJob, item: int, card_ids: tuple[str, ...]) -> dict[str, Any]:
        """What ``lifecycle.start`` needs beside the placement and the secrets; the same again when a lost start is repeated."""
        by_id = {card.id: card for card in self.machine.cards}
        granted = [by_id[card_id] for card_id in card_ids if card_id in by_id]
        argv = (
            prepare.argv(job, self.paths, self.shell)
            if item == PREPARE
            else environment.argv(job, self.paths, self.shell)
        )
        return {
            "argv": argv,
            "visibility": visibility_env(granted),
            "item_variables": item_variables(job.values(item)),
        }

    def _secrets(self, job: OpenJob) -> dict[str, str]:
        """UnavailableError when they cannot be read."""
        return files.read_secrets(self.paths.job(job.id)) if job.spec.secrets else {}

    # ---- reports and upkeep -----------------------------------------------------------------------------------------------

    async def _follow_reports(self) -> None:
        async with asyncio.TaskGroup() as failures:  # each is read aside: others' ends do not wait for it
            async for status in self.engine.reports():
                attempt = self.board.attempts.get(status.id)
                if status.phase is Phase.RUNNING:
                    self._put(partial(self._running, status), soon=True)
                elif status.phase is Phase.ENDED and status.exit_code != 0 and attempt is not None:
                    failures.create_task(self._failed(status, attempt))
                elif status.phase is Phase.ENDED:
                    self._put(partial(self._ended, status, "", None))

    async def _failed(self, status: AttemptStatus, attempt: Attempt) -> None:
        """Reads its log before its end is recorded: what stands there decides whether it is tried again."""
        tail = await asyncio.to_thread(files.read_tail, Path(f"{attempt.stem}.log"))
        asks = _without_header(tail).strip() and asks_the_log(status, attempt.stop_reason)
        cause = await self.doctor.cause(attempt.stem) if asks else None
        self._put(partial(self._ended, status, tail, cause))

    def _running(self, status: AttemptStatus, turn: Turn) -> None:
        attempt = self.board.attempts.get(status.id)
        if attempt is not None:
            lifecycle.seen_running(turn, self.board.jobs[attempt.job_id], attempt, status)

    def _ended(self, status: AttemptStatus, tail: str, cause: Cause | None, turn: Turn) -> None:
        attempt = self.board.attempts.get(status.id)
        if attempt is None:  # recorded already, the engine had not heard so
            turn.forgets.append(status.id)
            return
        job = self.board.jobs[attempt.job_id]
        outcome = self._classify(attempt, status, tail, cause)
        lifecycle.end(turn, self.board, job, attempt, status, outcome, self.paths)
        if job.spec.sizing is not None:
            cards = {card.id: card for card in self.machine.cards}
            self.grader.ended(job, attempt, cards, status.usage.peak_memory_bytes)
        self.machine.locks.give_back(attempt.allocation.card_ids)

    def _classify(self, attempt: Attempt, status: AttemptStatus, tail: str, cause: Cause | None) -> Outcome:
        return classify(
            status,
            stop_reason=attempt.stop_reason,
            log_tail=_without_header(tail),
            disk_is_full=self.machine.disk_is_low(),
            cards_lost=self.machine.lost_among(attempt.allocation.card_ids),
            is_setup=attempt.item == PREPARE,
            this_boot=attempt.started.boot_id == now().boot_id,
            cause=cause,
        )

    def _upkeep(self, turn: Turn) -> None:
        """Every few seconds, however busy: limits that only the daemon can judge."""
        self._upkeep_due = turn.now.boot_s + HOUSEKEEPING_S
        for attempt, why in self.machine.to_stop(self.board, turn.now):
            lifecycle.stop(turn, self.board.jobs[attempt.job_id], attempt, why)
        for news in self.machine.card_news(self.board, turn.now):
            held_by = self.board.attempts.get(news.attempt or -1)
            holder = None if held_by is None else self.board.jobs[held_by.job_id]
            turn.card_event(news, holder, held_by.item if held_by else None)
        for job in self.machine.past_max_release(self.board, turn.now):
            words = Text("the job held its cards and CPUs as long as `release: max` allows")
            lifecycle.drop_queued(turn, self.board, job, ItemState.FAILED, EndReason.MAX_RELEASED, words)
            lifecycle.settle(turn, self.board, job, self.paths)


def _as_unavailable(error: Exception) -> AnycardError:
    if isinstance(error, AnycardError):
        return error
    return UnavailableError("a file of anycard could not be written: {why}", why=str(error))


def _without_header(tail: str) -> str:
    """The log's tail without our own opening line, so that an empty log shows no last line."""
    if tail.startswith("[anycard] job "):
        return tail.partition("\n")[2]
    return tail
