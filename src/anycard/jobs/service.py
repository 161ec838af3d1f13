"""What anybody may ask about jobs, whoever's face it comes through: one door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from anycard.config import Paths
from anycard.errors import ConflictError, ForbiddenError, NotFoundError, UsageError
from anycard.i18n import N_
from anycard.jobs import actions, views
from anycard.jobs.board import PREPARE, OpenJob
from anycard.jobs.caller import Caller
from anycard.jobs.checking import Request
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.logdoctor import LogDoctor
from anycard.jobs.logs import read_log
from anycard.jobs.reload import reopen
from anycard.jobs.states import OPEN_JOB_STATES, ItemState, JobState
from anycard.jobs.submitting import Submitting
from anycard.jobs.turn import Turn
from anycard.model.card import CPU_VENDOR, Card
from anycard.model.instant import rfc3339
from anycard.scheduling.plan import WaitReason
from anycard.store import queries
from anycard.store.changes import Row
from anycard.store.engine import Store
from anycard.store.ordering import Sort

T = TypeVar("T")

WATCH_QUIET_S = 10.0  # a watched job that is quiet sends a line so often, so that a dead connection is noticed
WATCH_LAST_S = 0.05  # news of the last items may come a moment after the commit that ended the job
WATCH_PACE_S = 0.1  # and at most ten lines a second


@dataclass(frozen=True, slots=True)
class Held:
    """A job's cards by id, ``since`` its first start ``until`` its end (seconds since the epoch; None: not yet)."""

    job: int
    since: float | None
    until: float | None
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LastTry:
    """Of a job's item: the ``job``'s row, the ``item`` as everybody sees it, where its last attempt's files are (those of the job's setup
    when that kept it from starting), and what it held (``queries.grants_of_job``)."""

    job: Mapping[str, Any]
    item: dict[str, Any]
    stem: str
    grants: Sequence[Row]


class Jobs:
    """``shared``: files are read and programs run as the submitting user."""

    def __init__(self, paths: Paths, store: Store, dispatcher: Dispatcher, *, shared: bool) -> None:
        self._paths = paths
        self._store = store
        self._dispatcher = dispatcher
        self._submitting = Submitting(paths, dispatcher, self._row, shared=shared)

    # ---- submit -----------------------------------------------------------------------------------------------------------

    async def submit(self, request: Request, caller: Caller) -> dict[str, Any]:
        """{jobs, ignored, warnings}; JobFileError with every fault, UsageError when no machine here could ever run it."""
        return await (await self.check(request, caller))

    async def check(self, request: Request, caller: Caller) -> Awaitable[dict[str, Any]]:
        """The first half of ``submit``: what is left to be awaited is only its turn. So of many, each in its order, all may share one."""
        return await self._submitting.check(request, caller)

    # ---- look -------------------------------------------------------------------------------------------------------------

    async def page(
        self,
        *,
        state: str | None,
        user: str | None,
        name: str | None,
        limit: int,
        cursor: str | None,
        sort: Sort | None = None,
    ) -> dict[str, Any]:
        """``state`` may be one, several with commas, "open", "ended" or "held" (open, and kept from starting). Newest first without
        ``sort``."""
        states = _states(state, {*JobState, "open", "ended", "held"})
        page = await asyncio.to_thread(
            self._read,
            queries.jobs_page,
            states=states,
            user=user,
            name=name,
            limit=limit,
            cursor=cursor,
            sort=sort,
        )
        reasons = await self._dispatcher.reasons()
        return {
            "schema": "anycard.jobs/1",
            "jobs": [self._job_view(row, reasons) for row in page.rows],
            "next_cursor": page.next_cursor,
        }

    async def queue(self, *, after: int, limit: int) -> dict[str, Any]:
        """{running: [JOB], waiting: [JOB in the queue's order, those behind place ``after``], total, after, next_after}. Of the running
        ones the latest ``limit``."""
        board = self._dispatcher.board
        places = board.queue[after : after + limit]
        running = [job_id for job_id, job in board.jobs.items() if job.running][-limit:]
        rows = await asyncio.to_thread(self._read, queries.jobs_by_id, {job_id for _, job_id in places} | {*running})
        reasons = await self._dispatcher.reasons()
        views_by_id = {job_id: self._job_view(row, reasons) for job_id, row in rows.items()}
        waiting = [views_by_id[job_id] for _, job_id in places if job_id in views_by_id]
        total = len(board.queue)
        return {
            "running": [views_by_id[job_id] for job_id in reversed(running) if job_id in views_by_id],
            "waiting": [job for job in waiting if job["position"] is not None],
            "total": total,
            "after": after,
            "next_after": after + limit if after + limit < total else None,
        }

    async def job(self, ref: str | int, user: str | None = None) -> dict[str, Any]:
        return self._job_view(await self._row(ref, user), await self._dispatcher.reasons())

    async def items(
        self,
        ref: str,
        caller: Caller,
        *,
        state: str | None,
        limit: int,
        cursor: str | None,
        sort: Sort | None = None,
    ) -> dict[str, Any]:
        row = await self._own(ref, caller)
        states = _states(state, set(ItemState))
        page = await asyncio.to_thread(
            self._read,
            queries.items_page,
            row["id"],
            states=states,
            limit=limit,
            cursor=cursor,
            sort=sort,
        )
        return {
            "schema": "anycard.items/1",
            "job": row["id"],
            "items": [views.item_json(item, self._paths) for item in page.rows],
            "next_cursor": page.next_cursor,
        }

    async def events(self, ref: str, caller: Caller, *, after: int, limit: int) -> dict[str, Any]:
        row = await self._own(ref, caller)
        found = await asyncio.to_thread(self._read, queries.events_after, after, job_id=row["id"], limit=limit)
        return {
            "schema": "anycard.events/1",
            "job": row["id"],
            "events": [views.event_json(event) for event in found],
            "next_after": found[-1]["seq"] if len(found) == limit else None,
        }

    async def held(self, ref: str, caller: Caller) -> Held:
        """Which cards its attempts held, the CPU last, and from when to when."""
        row = await self._own(ref, caller)
        cards = await asyncio.to_thread(self._read, queries.cards_of_job, row["id"])
        return Held(row["id"], row["first_granted_at"], row["ended_at"], (*sorted(cards), CPU_VENDOR))

    async def grants(self, ref: str, caller: Caller) -> tuple[Mapping[str, Any], list[Row]]:
        """The job's row, and what its attempts held, oldest first."""
        row = await self._own(ref, caller)
        return row, await asyncio.to_thread(self._read, queries.grants_of_job, row["id"])

    def cards(self) -> Sequence[Card]:
        """This machine's cards as they were last seen, the CPU among them."""
        return self._dispatcher.machine.cards

    async def watch(self, ref: str, caller: Caller) -> AsyncIterator[dict[str, Any]]:
        """Lines {job, items}: at once, at each change (paced), and now and then when quiet; ends with the job."""
        row = await self._own(ref, caller)
        return self._watch(row["id"])

    async def _watch(self, job_id: int) -> AsyncIterator[dict[str, Any]]:
        watcher = self._dispatcher.watch(job_id)
        try:
            changed: set[int] = set()
            while True:
                row, items = await asyncio.to_thread(self._job_and_items, job_id, changed)
                job = self._job_view(row, await self._dispatcher.reasons())
                yield {"job": job, "items": [views.item_json(item, self._paths) for item in items]}
                over = job["state"] not in OPEN_JOB_STATES
                if over and not (changed := await watcher.next(WATCH_LAST_S)):
                    return
                if not over:
                    await asyncio.sleep(WATCH_PACE_S)
                    changed = await watcher.next(WATCH_QUIET_S)
        finally:
            watcher.close()

    async def log(
        self, ref: str, caller: Caller, *, item: int, attempt: int | None, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """A log's bytes; NotFoundError when there is no such item, or it was never started (and ``follow`` is not asked)."""
        row = await self._own(ref, caller)
        self._refuse_unread(row, item)
        return await read_log(self._dispatcher, self._store, row["id"], item, attempt=attempt, follow=follow, tail=tail)

    async def last_try(self, ref: str, caller: Caller, *, item: int | None) -> LastTry:
        """Of ``item`` (the first that failed, unless told). NotFoundError when nothing of it was ever started."""
        row = await self._own(ref, caller)
        if item is None:
            failed = await asyncio.to_thread(self._read, queries.items_page, row["id"], states=["failed"], limit=1)
            item = failed.rows[0]["item"] if failed.rows else 0
        self._refuse_unread(row, item)
        return await asyncio.to_thread(self._last_try, row, item)

    @property
    def doctor(self) -> LogDoctor:
        return self._dispatcher.doctor

    def _last_try(self, job: Mapping[str, Any], item: int) -> LastTry:
        with self._store.read() as connection:
            found = queries.items_by_number(connection, job["id"], [item])[0]
            stem = found["stem"] or queries.attempt_stem(connection, job["id"], PREPARE, None)
            attempt = found["attempt_id"]
            grants = queries.grants_of_job(connection, job["id"], attempt) if attempt is not None else []
        if stem is None:
            raise NotFoundError(
                "item {item} of job {job} has not started: there is no log yet", item=item, job=job["id"]
            )
        return LastTry(job, views.item_json(found, self._paths), self._paths.absolute(stem), grants)

    async def sizing(self, limit: int) -> dict[str, Any]:
        """How far off predictions of what models need were here, and what that teaches; the latest ``limit`` runs."""
        grader = self._dispatcher.grader
        graded = await grader.graded()
        return {
            "schema": "anycard.sizing/1",
            "learnt": [one.to_json() for one in await grader.learnt()],
            "runs": [{**one.to_json(), "at": rfc3339(one.at)} for one in reversed(graded[-limit:])],
        }

    async def item_states(self, job_id: int, numbers: set[int]) -> list[tuple[int, str]]:
        """The states of these items; of numbers that are no item's (its setup) nothing."""
        _, rows = await asyncio.to_thread(self._job_and_items, job_id, numbers)
        return [(row["item"], row["state"]) for row in rows]

    async def own(self, ref: str | int, caller: Caller) -> Mapping[str, Any]:
        """The job's row, for whoever may look into it. ForbiddenError when it is someone else's."""
        return await self._own(ref, caller)

    # ---- act --------------------------------------------------------------------------------------------------------------

    async def cancel(self, ref: str, caller: Caller, *, item: int | None) -> dict[str, Any]:
        job_id = (await self._own(ref, caller))["id"]

        def apply(turn: Turn) -> None:
            job = self._open(job_id, N_("job {job} has ended and cannot be cancelled"))
            actions.cancel(turn, self._dispatcher.board, job, item, caller.user, self._paths)

        await self._dispatcher.ask(apply)
        return await self.job(job_id)

    async def hold(self, ref: str, caller: Caller, *, held: bool) -> dict[str, Any]:
        job_id = (await self._own(ref, caller))["id"]
        refusal = N_("job {job} has ended and cannot be held")
        if not held:
            refusal = N_("job {job} has ended and cannot be released")

        def apply(turn: Turn) -> None:
            actions.hold(turn, self._open(job_id, refusal), held, caller.user)

        await self._dispatcher.ask(apply)
        return await self.job(job_id)

    async def retry(self, ref: str, caller: Caller, *, items: list[int] | None) -> dict[str, Any]:
        """Queues ended items that did not succeed again: all of them, or ``items``."""
        row = await self._own(ref, caller)
        job_id = row["id"]
        if row["pruned_at"] is not None:
            raise ConflictError(
                "job {job} was pruned: what its items were is no longer known", hint="submit it again", job=job_id
            )
        chosen = await asyncio.to_thread(self._retryable, job_id, items)
        closed = await asyncio.to_thread(reopen, self._store, job_id)

        def apply(turn: Turn) -> None:
            board = self._dispatcher.board
            job = board.jobs.get(job_id)
            if job is None:
                if closed is None:
                    raise ConflictError("job {job} ended a moment ago", hint="try again", job=job_id)
                job = board.jobs[job_id] = closed
            actions.retry(turn, board, job, chosen, caller.user)

        await self._dispatcher.ask(apply)
        return await self.job(job_id)

    # ---- helpers ----------------------------------------------------------------------------------------------------------

    def _refuse_unread(self, row: Mapping[str, Any], item: int) -> None:
        """NotFoundError where there is no such item (-1 is the setup), or its logs are gone."""
        if not -1 <= item < row["n_items"]:
            raise NotFoundError(
                "job {job} has no item {item}; it has {count}, counted from 0",
                job=row["id"],
                item=item,
                count=row["n_items"],
            )
        if row["pruned_at"] is not None:
            raise NotFoundError(
                "job {job} was pruned on {when}: its logs are gone", job=row["id"], when=rfc3339(row["pruned_at"])
            )

    def _open(self, job_id: int, refusal: str) -> OpenJob:
        job = self._dispatcher.board.jobs.get(job_id)
        if job is None:
            raise ConflictError(refusal, job=job_id)
        return job

    async def _row(self, ref: str | int, user: str | None = None) -> Mapping[str, Any]:
        """By id, or the latest of a name: the user's own first."""
        return await asyncio.to_thread(self._read, queries.job, ref, user)

    async def _own(self, ref: str | int, caller: Caller) -> Mapping[str, Any]:
        """As ``_row``; ForbiddenError when it is someone else's."""
        row = await self._row(ref, caller.user)
        if not caller.admin and row["uid"] != caller.uid:
            raise ForbiddenError("job {ref} belongs to {user}", ref=ref, user=row["user"])
        return row

    def _job_view(self, row: Mapping[str, Any], reasons: Mapping[int, WaitReason]) -> dict[str, Any]:
        reason = reasons.get(row["id"])
        position = self._dispatcher.board.position(row["id"])
        if position is None or reason is None:
            return views.job_json(row, self._paths, position=position)
        return views.job_json(row, self._paths, position=position, why=reason.why, sooner=reason.sooner)

    def _job_and_items(self, job_id: int, numbers: set[int]) -> tuple[Mapping[str, Any], list[Row]]:
        """Both of the same moment, so that counts and items agree."""
        wanted = sorted(number for number in numbers if number >= 0)
        with self._store.read() as connection:
            return queries.job(connection, job_id), queries.items_by_number(
                connection, job_id, wanted
            ) if wanted else []

    def _read(self, query: Callable[..., T], *args: Any, **more: Any) -> T:
        """Runs a query of store/queries.py on a reader's connection; in a worker thread."""
        with self._store.read() as connection:
            return query(connection, *args, **more)

    def _retryable(self, job_id: int, items: list[int] | None) -> list[int]:
        ended = [row["item"] for row in self._read(queries.unsuccessful_items, job_id)]
        if items is None:
            if not ended:
                raise ConflictError("no item of job {job} has failed", job=job_id)
            return ended
        wrong = sorted(set(items) - set(ended))
        if wrong:
            raise ConflictError("item {item} of job {job} has not failed", item=wrong[0], job=job_id)
        return sorted(set(items))


def _states(asked: str | None, known: set[str]) -> list[str]:
    states = [state for state in (asked or "").split(",") if state]
    for state in states:
        if state not in known:
            raise UsageError(
                "{given} is no state", hint="the states are {known}", given=state, known=", ".join(sorted(known))
            )
    return states
