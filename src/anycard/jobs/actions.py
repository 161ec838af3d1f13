"""What a person may ask of a job: cancel, hold, release, retry."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from anycard.config import Paths
from anycard.errors import ConflictError
from anycard.jobs import lifecycle
from anycard.jobs.board import PREPARE, Board, OpenJob
from anycard.jobs.states import ItemState
from anycard.jobs.turn import Turn
from anycard.model.end_reason import EndReason
from anycard.model.text import Text

_CANCELLED = Text("cancelled")


def cancel(turn: Turn, board: Board, job: OpenJob, item: int | None, by: str, paths: Paths) -> None:
    """Ends the whole job, or one item of it: what waits at once, what runs by the stop signal with its grace."""
    turn.event("job.cancel", job, item=item, by=by)
    if item is None:
        lifecycle.drop_queued(turn, board, job, ItemState.CANCELLED, EndReason.CANCELLED, _CANCELLED)
        for attempt in list(job.running.values()):
            lifecycle.stop(turn, job, attempt, EndReason.CANCELLED)
    elif item in job.running:
        lifecycle.stop(turn, job, job.running[item], EndReason.CANCELLED)
    elif _take_out(job, item):
        job.counts.queued -= 1
        lifecycle.finish_item(turn, job, item, ItemState.CANCELLED, EndReason.CANCELLED, _CANCELLED)
        board.requeue(job)
    else:
        raise ConflictError("item {item} of job {job} has already ended", item=item, job=job.id)
    lifecycle.settle(turn, board, job, paths)


def hold(turn: Turn, job: OpenJob, held: bool, by: str) -> None:
    """A held job starts nothing more; what runs goes on."""
    if job.held == held:
        return
    job.held = held
    turn.event("job.held" if held else "job.released", job, by=by)
    turn.counts(job, held=held)


def retry(turn: Turn, board: Board, job: OpenJob, items: Sequence[int], by: str) -> None:
    """Queues ended items again with a fresh retry budget. ``job`` may have been reopened for it (reload.py). ConflictError when none of
    them has failed."""
    if not any(
        item in job.failed or item in job.cancelled for item in items
    ):  # somebody else was quicker with them all
        raise ConflictError("no item of job {job} has failed", job=job.id)
    for item in items:
        if item in job.failed:
            del job.failed[item]
            job.failed_why.pop(item, None)
            job.counts.failed -= 1
        elif item in job.cancelled:
            job.cancelled.remove(item)
            job.counts.cancelled -= 1
        else:
            continue  # somebody else was quicker
        note = job.note(item)
        note.budget_used = note.free_used = 0
        lifecycle.queue_again(turn, board, job, item, turn.now.utc_s, None)
        turn.item(job, item, end_reason=None, exit_code=None, fresh_from=note.attempts)
    job.reopened = True
    job.prepare_used = 0
    turn.event("job.retried", job, items=list(items[:1000]), count=len(items), by=by)
    turn.counts(job, ended_at=None, reason_json=None)
    board.requeue(job)


def _take_out(job: OpenJob, item: int) -> bool:
    """Removes a waiting item; False when it does not wait."""
    if item == PREPARE:
        return False
    if item in job.ready:
        job.ready.remove(item)
        return True
    for entry in job.delayed:
        if entry[1] == item:
            job.delayed.remove(entry)
            heapq.heapify(job.delayed)
            return True
    return False
