"""The board rebuilt from the store: after a start, after a failed commit, and one ended job at a time for `retry`."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anycard.config import Paths
from anycard.engines.protocol import OpenAttempt
from anycard.errors import UnavailableError
from anycard.jobs.board import PREPARE, Attempt, Board, ItemNote, OpenJob
from anycard.jobs.lifecycle import spec_of
from anycard.jobs.spec import JobSpec
from anycard.jobs.states import Counts, ItemState
from anycard.model.demand import Allocation
from anycard.model.end_reason import CONSEQUENCES, EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text
from anycard.store import queries
from anycard.store.changes import Row
from anycard.store.engine import Store

_RECENT_KEYS = 2000
Orders = Callable[[OpenJob, int, tuple[str, ...]], Mapping[str, Any]]


def load_board(store: Store) -> Board:
    """Everything that is open, as the last commit left it."""
    ids = store.next_ids()
    with store.read() as connection:
        state = queries.load_open(connection)
        recent = queries.recent_submits(connection, _RECENT_KEYS)
    board = Board(next_job=ids.job, next_attempt=ids.attempt, next_grant=ids.grant, submit_keys=recent)
    tries = _by_item(state.attempts, store.paths)
    grants = {row["attempt_id"]: row for row in state.grants}
    items = defaultdict(list)
    for row in state.items:
        items[row["job_id"]].append(row)
    for row in state.jobs:
        job = _job(row, items[row["id"]], tries.get(row["id"], {}))
        board.jobs[job.id] = job
        for attempt_row in tries.get(job.id, {}).values():
            for attempt in (_attempt(one, grants[one["id"]]) for one in attempt_row if one["state"] != "ended"):
                board.attempts[attempt.id] = attempt
                job.running[attempt.item] = attempt
        if PREPARE in job.running and job.prepare_key is not None:
            board.setups[job.prepare_key] = job.id
    for job in board.jobs.values():
        job.upstream = {ref for ref in job.spec.after_ids if ref in board.jobs}
        for ref in job.upstream:
            board.dependants.setdefault(ref, set()).add(job.id)
        board.requeue(job)
    return board


def resume_orders(
    board: Board, order: Orders, secrets_of: Callable[[OpenJob], Mapping[str, str]], paths: Paths
) -> list[OpenAttempt]:
    """What the engine must find again. One that was granted but never seen running comes with its spec: it is started if it was not, unless
    its secrets cannot be read."""
    found = []
    for attempt in board.attempts.values():
        job = board.jobs[attempt.job_id]
        never_seen = not attempt.seen_running and attempt.stop_reason is None
        spec = None
        if never_seen:
            with contextlib.suppress(UnavailableError):
                more = order(job, attempt.item, attempt.allocation.card_ids)
                spec = spec_of(attempt, job, paths=paths, secrets=secrets_of(job), **more)
        found.append(OpenAttempt(attempt.id, attempt.stem, spec))
    return found


def reopen(store: Store, job_id: int) -> OpenJob | None:
    """An ended job as it would stand on the board; None when it is open."""
    with store.read() as connection:
        row = queries.job(connection, job_id)
        if row["state"] not in queries.ENDED_JOB_STATES:
            return None
        items = queries.unsuccessful_items(connection, job_id)
        tries = _by_item(queries.attempts_of_job(connection, job_id), store.paths).get(job_id, {})
    job = _job(row, items, tries)
    job.upstream = set()
    return job


def _job(row: Row, items: Sequence[Row], tries: Mapping[int, list[Row]]) -> OpenJob:
    spec = JobSpec(**json.loads(row["spec_json"]))
    prepares = tries.get(PREPARE, [])
    prepare_key = row["prepare_key"]
    job = OpenJob(
        id=row["id"],
        spec=spec,
        tenant=row["tenant"],
        user=row["user"],
        uid=row["uid"],
        gid=row["gid"],
        submitted_at=row["submitted_at"],
        n_items=row["n_items"],
        item_values={one["item"]: json.loads(one["values_json"]) for one in items if one["values_json"]},
        held=row["held"],
        counts=Counts(row["n_queued"], row["n_running"], row["n_succeeded"], row["n_failed"], row["n_cancelled"]),
        first_granted=_instant(row),
        prepare_key=prepare_key,
        prepared=prepare_key is None or any(one["end_reason"] == EndReason.SUCCEEDED for one in prepares),
        prepare_tries=max((one["number"] for one in prepares), default=0),
        prepare_used=sum(one["state"] == "ended" for one in prepares),
    )
    for item in items:
        number = item["item"]
        if item["attempts"]:
            job.notes[number] = _note(item, tries.get(number, []))
        if item["state"] == ItemState.QUEUED:
            if item["not_before"]:
                job.delay(number, item["not_before"])
            else:
                job.ready.append(number)
        elif item["state"] == ItemState.CANCELLED:
            job.cancelled.add(number)
        elif item["state"] == ItemState.FAILED:
            if item["reason_json"]:
                job.failed_why[number] = Text.from_json(json.loads(item["reason_json"]))
            job.failed[number] = _failed(job, item, tries.get(number, []))
    return job


def _note(item: Row, tries: Sequence[Row]) -> ItemNote:
    """Ended tries used up their retries: those that are nobody's fault none of the budget."""
    note = ItemNote(attempts=item["attempts"], run_s=item["run_s"] or 0.0, started_at=item["started_at"])
    for one in tries:
        if one["state"] != "ended" or one["end_reason"] is None or one["number"] <= (item["fresh_from"] or 0):
            continue
        if CONSEQUENCES[EndReason(one["end_reason"])].retry == "free":
            note.free_used += 1
        else:
            note.budget_used += 1
    return note


def _failed(job: OpenJob, item: Row, tries: Sequence[Row]) -> dict[str, Any]:
    reason = job.failed_why.get(item["item"])
    return {
        "item": item["item"],
        "values": job.values(item["item"]),
        "end_reason": item["end_reason"],
        "reason": str(reason) if reason else None,
        "exit_code": item["exit_code"],
        "attempts": item["attempts"],
        "log": f"{tries[-1]['stem']}.log" if tries else None,
    }


def _attempt(row: Row, grant: Row) -> Attempt:
    return Attempt(
        id=row["id"],
        job_id=row["job_id"],
        item=row["item"],
        number=row["number"],
        stem=row["stem"],
        started=Instant(row["started_at"], row["started_boot_s"], row["boot_id"]),
        allocation=Allocation(grant["cpus"], grant["memory_bytes"], tuple(json.loads(grant["cards_json"]))),
        grant_id=grant["id"],
        seen_running=row["pid"] is not None,
        stop_reason=EndReason(row["stop_reason"]) if row["stop_reason"] else None,
        pid=row["pid"],
    )


def _instant(row: Row) -> Instant | None:
    if row["first_granted_at"] is None:
        return None
    return Instant(row["first_granted_at"], row["first_granted_boot_s"], row["first_granted_boot_id"])


def _by_item(rows: Sequence[Row], paths: Paths) -> dict[int, dict[int, list[Row]]]:
    found: dict[int, dict[int, list[Row]]] = {}
    for row in rows:
        here = {**row, "stem": paths.absolute(row["stem"])}
        found.setdefault(row["job_id"], {}).setdefault(row["item"], []).append(here)
    return found
