"""From placement to end: what starting and ending an attempt changes on the board and in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anycard.config import Paths
from anycard.engines.protocol import AttemptSpec, AttemptStatus, Deadline
from anycard.jobs import environment, files, prepare
from anycard.jobs.board import PREPARE, Attempt, Board, OpenJob
from anycard.jobs.outcome import Outcome
from anycard.jobs.retry import next_try
from anycard.jobs.states import OPEN_JOB_STATES, ItemState, JobState
from anycard.jobs.turn import Turn, text_json
from anycard.model.demand import Allocation
from anycard.model.end_reason import EndReason
from anycard.model.instant import rfc3339
from anycard.model.text import Param, Text

PREPARE_CPUS = 1.0
LOST_CARD_GRACE_S = 5.0  # what is on the card cannot be saved any more, and the item should soon run elsewhere


def start(
    turn: Turn,
    board: Board,
    job: OpenJob,
    item: int,
    allocation: Allocation,
    *,
    paths: Paths,
    engine: str,
    argv: tuple[str, ...],
    visibility: Mapping[str, str],
    item_variables: Mapping[str, str],
    secrets: Mapping[str, str],
) -> Attempt:
    """Grants ``allocation`` and starts one attempt of ``item`` (already taken off the ready ones)."""
    now = turn.now
    if item == PREPARE:
        job.prepare_tries += 1
        number = job.prepare_tries
        stem = str(paths.attempt(job.id, "prepare", number, owned=job.uid is not None))
    else:
        note = job.note(item)
        note.attempts += 1
        number = note.attempts
        if note.started_at is None:
            note.started_at = now.utc_s
        stem = str(paths.attempt(job.id, item, number, owned=job.uid is not None))
    attempt = Attempt(board.next_attempt, job.id, item, number, stem, now, allocation, board.next_grant)
    board.next_attempt += 1
    board.next_grant += 1
    board.attempts[attempt.id] = attempt
    job.running[item] = attempt
    owner = owner_of(job)
    if owner is not None:  # else the engine makes its folders
        turn.file(partial(files.job_folder, paths.job(job.id), owner), needed_by=attempt.id)
        if item != PREPARE:
            turn.file(partial(files.owned_folder, paths.checkpoint(job.id, item), owner), needed_by=attempt.id)
    if job.first_granted is None:
        job.first_granted = now
        turn.changes.update(
            "jobs",
            job.id,
            first_granted_at=now.utc_s,
            first_granted_boot_s=now.boot_s,
            first_granted_boot_id=now.boot_id,
        )
    turn.changes.insert(
        "attempts",
        {
            "id": attempt.id,
            "job_id": job.id,
            "item": item,
            "number": number,
            "engine": engine,
            "state": ItemState.STARTING.value,
            "stem": paths.relative(stem),
            "pid": None,
            "started_at": now.utc_s,
            "started_boot_s": now.boot_s,
            "boot_id": now.boot_id,
            "ended_at": None,
            "run_s": None,
            "stop_reason": None,
            "end_reason": None,
            "exit_code": None,
            "detail_json": None,
            "limits": None,
            "cpu_s": None,
            "peak_memory_bytes": None,
        },
    )
    turn.changes.insert(
        "grants",
        {
            "id": attempt.grant_id,
            "attempt_id": attempt.id,
            "job_id": job.id,
            "tenant": job.tenant,
            "user": job.user,
            "cards_json": json.dumps(allocation.card_ids),
            "cpus": allocation.cpus,
            "memory_bytes": allocation.memory_bytes,
            "from_utc": now.utc_s,
            "from_boot_s": now.boot_s,
            "boot_id": now.boot_id,
            "to_utc": None,
            "seconds": None,
        },
    )
    if item == PREPARE:
        for filled in prepare.folders(job, paths):
            turn.file(partial(files.owned_folder, filled, owner), needed_by=attempt.id)
        turn.event("prepare.started", job, attempt=attempt.id, cpus=allocation.cpus)
    else:
        job.counts.queued -= 1
        job.counts.running += 1
        note = job.note(item)
        turn.item(
            job,
            item,
            state=ItemState.STARTING.value,
            attempts=number,
            started_at=note.started_at,
            not_before=None,
            reason_json=None,
        )
        turn.event(
            "item.started",
            job,
            item=item,
            attempt=attempt.id,
            number=number,
            cards=list(allocation.card_ids),
            cpus=allocation.cpus,
            memory_bytes=allocation.memory_bytes,
        )
        board.requeue(job)
    turn.counts(job)
    turn.starts.append(
        spec_of(
            attempt,
            job,
            paths=paths,
            argv=argv,
            visibility=visibility,
            item_variables=item_variables,
            secrets=secrets,
        )
    )
    return attempt


def spec_of(
    attempt: Attempt,
    job: OpenJob,
    *,
    paths: Paths,
    argv: tuple[str, ...],
    visibility: Mapping[str, str],
    item_variables: Mapping[str, str],
    secrets: Mapping[str, str],
) -> AttemptSpec:
    """The engine's order for ``attempt``; the same one again after a restart."""
    spec = job.spec
    item, number, allocation = attempt.item, attempt.number, attempt.allocation
    deadlines = []
    if spec.time_limit_s is not None:
        deadlines.append(Deadline(spec.time_limit_s, EndReason.TIME_LIMIT))
    if spec.release.max_s is not None and job.first_granted is not None and item != PREPARE:
        left = spec.release.max_s - attempt.started.seconds_since(job.first_granted)
        deadlines.append(Deadline(max(0.0, left), EndReason.MAX_RELEASED))
    return AttemptSpec(
        id=attempt.id,
        stem=attempt.stem,
        argv=argv,
        cwd=spec.workdir if item == PREPARE else environment.workdir(job, paths),
        env=environment.build(
            job,
            item,
            number,
            allocation,
            paths=paths,
            stem=attempt.stem,
            visibility=visibility,
            item_variables=item_variables,
            secrets=secrets,
        ),
        cpus=allocation.cpus if spec.cpus_given else None,
        memory_bytes=allocation.memory_bytes,
        stop_grace_s=spec.stop_grace_s,
        deadlines=tuple(deadlines),
        uid=job.uid,
        gid=job.gid,
        umask=spec.umask,
        log_header=environment.log_header(job, item, number, allocation, attempt.started),
        checkpoint=str(paths.checkpoint(job.id, item)) if job.uid is None and item != PREPARE else None,
    )


def seen_running(turn: Turn, job: OpenJob, attempt: Attempt, status: AttemptStatus) -> None:
    """The engine confirmed the start, or brought fresh usage."""
    attempt.usage = status.usage
    if attempt.seen_running:
        return
    attempt.seen_running = True
    attempt.pid = status.pid
    if attempt.stop_reason is None:
        turn.changes.update("attempts", attempt.id, state=ItemState.RUNNING.value, pid=status.pid, limits=status.limits)
        if attempt.item != PREPARE:
            turn.item(job, attempt.item, state=ItemState.RUNNING.value)


def stop(turn: Turn, job: OpenJob, attempt: Attempt, why: EndReason) -> None:
    """Asks for the end of ``attempt``; recorded first, so that a crash does not forget why. The first reason stays."""
    if attempt.stop_reason is None:
        attempt.stop_reason = why
        turn.changes.update("attempts", attempt.id, state=ItemState.STOPPING.value, stop_reason=why.value)
        if attempt.item != PREPARE:
            turn.item(job, attempt.item, state=ItemState.STOPPING.value)
        turn.event("attempt.stopping", job, item=attempt.item, attempt=attempt.id, why=why.value)
    grace_s = job.spec.stop_grace_s
    if why is EndReason.CARD_LOST:
        grace_s = min(grace_s, LOST_CARD_GRACE_S)
    turn.stops.append((attempt.id, why, grace_s))


def end(
    turn: Turn, board: Board, job: OpenJob, attempt: Attempt, status: AttemptStatus, outcome: Outcome, paths: Paths
) -> None:
    """Records how ``attempt`` ended, closes its grant, and decides what follows for its item and its job."""
    reason, exit_code = outcome.reason, status.exit_code
    run_s = status.at.seconds_since(attempt.started)
    del board.attempts[attempt.id]
    del job.running[attempt.item]
    turn.forgets.append(attempt.id)
    detail = text_json(outcome.detail)
    turn.changes.update(
        "attempts",
        attempt.id,
        state="ended",
        ended_at=status.at.utc_s,
        run_s=run_s,
        end_reason=reason.value,
        exit_code=exit_code,
        detail_json=detail,
        limits=status.limits,
        cpu_s=status.usage.cpu_s,
        peak_memory_bytes=status.usage.peak_memory_bytes,
    )
    turn.changes.update("grants", attempt.grant_id, to_utc=status.at.utc_s, seconds=run_s)
    detailed = outcome.detail is not None and str(outcome.detail) != reason.value  # "cancelled: cancelled" says nothing
    words = f"{reason.value}: {outcome.detail}" if detailed else reason.value
    if reason is EndReason.DISK_FULL:
        turn.file(partial(files.drop_output, Path(f"{attempt.stem}.output")))
    left = f", {status.left_behind} processes left behind were ended" if status.left_behind else ""
    watched = ", memory was watched, not held by the kernel" if status.limits == "watched" else ""
    line = f"{rfc3339(status.at.utc_s)} {words} (exit code {_shown(exit_code)}, {run_s:.1f} s{left}{watched})"
    turn.file(partial(files.end_log, Path(f"{attempt.stem}.log"), line))
    data: dict[str, Any] = {
        "reason": reason.value,
        "exit_code": exit_code,
        "seconds": round(run_s, 3),
        "left_behind": status.left_behind,
        "limits": status.limits,
        **({"cause": outcome.cause} if outcome.cause is not None else {}),
    }
    if attempt.item == PREPARE:
        turn.event("prepare.ended", job, attempt=attempt.id, **data)
        _after_prepare(turn, board, job, outcome, exit_code, paths)
    else:
        turn.event("item.ended", job, item=attempt.item, attempt=attempt.id, number=attempt.number, **data)
        _after_item(turn, board, job, attempt, outcome, exit_code, run_s, paths)
    settle(turn, board, job, paths)


def _after_item(
    turn: Turn,
    board: Board,
    job: OpenJob,
    attempt: Attempt,
    outcome: Outcome,
    exit_code: int | None,
    run_s: float,
    paths: Paths,
) -> None:
    reason, detail = outcome.reason, outcome.detail
    item = attempt.item
    note = job.note(item)
    note.run_s += run_s
    job.counts.running -= 1
    values = {"end_reason": reason.value, "exit_code": exit_code, "run_s": note.run_s}
    if reason is EndReason.SUCCEEDED:
        job.counts.succeeded += 1
        output = paths.output(job.id, item)
        turn.file(partial(files.promote_output, Path(f"{attempt.stem}.output"), output, owner_of(job)))
        turn.item(job, item, state=ItemState.SUCCEEDED.value, ended_at=turn.now.utc_s, reason_json=None, **values)
        job.notes.pop(item, None)
        job.item_values.pop(item, None)
        return
    again = next_try(
        reason,
        exit_code,
        job.spec.retry,
        budget_used=note.budget_used,
        free_used=note.free_used,
        cause=outcome.cause,
    )
    if again is not None:
        if again.on_budget:
            note.budget_used += 1
        else:
            note.free_used += 1
        if again.other_card:
            note.avoid |= frozenset(attempt.allocation.card_ids)
        not_before = turn.now.utc_s + again.wait_s
        why = Text("tries again after {reason}", {"reason": reason.value})
        queue_again(turn, board, job, item, not_before, why)
        turn.item(job, item, **values)
        turn.event("item.requeued", job, item=item, reason=reason.value, wait_s=again.wait_s, on_budget=again.on_budget)
        return
    final = ItemState.CANCELLED if reason is EndReason.CANCELLED else ItemState.FAILED
    finish_item(
        turn, job, item, final, reason, detail, exit_code=exit_code, run_s=note.run_s, log=f"{attempt.stem}.log"
    )
    if reason is EndReason.MAX_RELEASED and detail is not None:  # the job's time is over: for those that wait, too
        drop_queued(turn, board, job, ItemState.FAILED, reason, detail)
    if final is ItemState.FAILED and job.spec.stop_on_item_error:
        why = Text("item {item} failed and the job file says `on_item_error: stop`", {"item": item})
        drop_queued(turn, board, job, ItemState.CANCELLED, EndReason.CANCELLED, why)
        for other in list(job.running.values()):
            stop(turn, job, other, EndReason.CANCELLED)


def queue_again(turn: Turn, board: Board, job: OpenJob, item: int, not_before: float, why: Text | None) -> None:
    job.counts.queued += 1
    if not_before <= turn.now.utc_s:
        job.ready.append(item)
    else:
        job.delay(item, not_before)
    turn.item(job, item, state=ItemState.QUEUED.value, not_before=not_before, reason_json=text_json(why), ended_at=None)
    board.requeue(job)


def finish_item(
    turn: Turn,
    job: OpenJob,
    item: int,
    state: ItemState,
    reason: EndReason,
    detail: Text | None,
    *,
    exit_code: int | None = None,
    run_s: float | None = None,
    log: str | None = None,
) -> None:
    """An item's last word, when it did not succeed. Its place in the counts (queued or running) was already given back."""
    if state is ItemState.CANCELLED:
        job.counts.cancelled += 1
        job.cancelled.add(item)
    else:
        job.counts.failed += 1
        if detail is not None:
            job.failed_why[item] = detail
        job.failed[item] = {
            "item": item,
            "values": job.values(item),
            "end_reason": reason.value,
            "reason": str(detail) if detail else None,
            "cause": detail.params.get("cause") if detail else None,
            "exit_code": exit_code,
            "attempts": job.note(item).attempts,
            "log": log,
        }
    turn.item(
        job,
        item,
        state=state.value,
        end_reason=reason.value,
        reason_json=text_json(detail),
        exit_code=exit_code,
        run_s=run_s,
        ended_at=turn.now.utc_s,
        not_before=None,
    )


def drop_queued(turn: Turn, board: Board, job: OpenJob, state: ItemState, reason: EndReason, why: Text) -> None:
    """Ends every item that waits."""
    waiting = [*job.ready, *(item for _, item in job.delayed)]
    job.ready.clear()
    job.delayed.clear()
    for item in waiting:
        job.counts.queued -= 1
        finish_item(turn, job, item, state, reason, why, run_s=job.note(item).run_s or None)
    if waiting:
        turn.event("items.dropped", job, count=len(waiting), reason=reason.value)
    board.requeue(job)


def _after_prepare(
    turn: Turn, board: Board, job: OpenJob, outcome: Outcome, exit_code: int | None, paths: Paths
) -> None:
    reason, detail = outcome.reason, outcome.detail
    if job.prepare_key is not None:
        board.setups.pop(job.prepare_key, None)
    if reason is EndReason.SUCCEEDED:
        job.prepared = True
        if job.prepare_key is not None:
            turn.file(partial(prepare.note_done, paths, job.prepare_key))
            for other in board.jobs.values() if prepare.is_shared(job.prepare_key) else ():
                if other.prepare_key == job.prepare_key:  # the mark above is not there before this turn has settled
                    other.prepared = True
                    turn.dirty.add(other.id)
        return
    rule = job.spec.retry
    tries = job.prepare_tries
    used = job.prepare_used
    again = next_try(reason, exit_code, rule, budget_used=used, free_used=used, cause=outcome.cause)
    if again is not None:
        job.prepare_used += 1
        job.prepare_not_before = turn.now.utc_s + again.wait_s
        return
    if reason is EndReason.CANCELLED:
        drop_queued(turn, board, job, ItemState.CANCELLED, reason, detail or Text("cancelled"))
        return
    log = f"{paths.attempt(job.id, 'prepare', tries, owned=job.uid is not None)}.log"
    why = Text("setup did not succeed ({why}), see {log}", {"why": str(detail or reason.value), "log": log})
    drop_queued(turn, board, job, ItemState.FAILED, reason, why)


def settle(turn: Turn, board: Board, job: OpenJob, paths: Paths) -> None:
    """Writes the job's counters; ends the job when its last item ended, and tells those that waited for it."""
    state = turn.counts(job)
    if state in OPEN_JOB_STATES:
        return
    failed = [job.failed[item] for item in sorted(job.failed)]
    if failed or job.reopened:
        turn.file(partial(files.write_failed, paths.job(job.id), failed, owner_of(job)))
    turn.counts(job, ended_at=turn.now.utc_s, reason_json=text_json(_why_it_ended(job)))
    counts = job.counts
    turn.event(
        "job.ended",
        job,
        state=state.value,
        succeeded=counts.succeeded,
        failed=counts.failed,
        cancelled=counts.cancelled,
    )
    board.requeue(job)
    del board.jobs[job.id]
    for waiting_id in sorted(board.dependants.pop(job.id, ())):
        waiting = board.jobs.get(waiting_id)
        if waiting is not None:
            upstream_ended(turn, board, waiting, job.id, state, paths)


def _why_it_ended(job: OpenJob) -> Text | None:
    """The job's reason once it is over: of a plain job its item's, of a batch the first failed one's; None when nothing failed."""
    first = job.failed[min(job.failed)] if job.failed else None
    if first is None:
        return None
    if job.n_items == 1:
        return job.failed_why.get(first["item"])
    why = first["reason"] or first["end_reason"]
    params: dict[str, Param] = {"failed": len(job.failed), "items": job.n_items, "item": first["item"], "why": why}
    detail = job.failed_why.get(first["item"])
    if detail is not None:  # the faces translate it too
        params |= {"why_msgid": detail.msgid, **{f"why_{name}": value for name, value in detail.params.items()}}
    return Text("{failed} of {items} items failed, the first of them item {item}: {why}", params)


def upstream_ended(turn: Turn, board: Board, job: OpenJob, upstream: int, state: JobState, paths: Paths) -> None:
    """A job that ``job`` waits for ended: one wait less, or the end of it when that one did not succeed."""
    job.upstream.discard(upstream)
    turn.dirty.add(job.id)
    if state is JobState.SUCCEEDED:
        return
    why = Text("job {job}, which it waits for, ended as {state}", {"job": upstream, "state": state.value})
    drop_queued(turn, board, job, ItemState.FAILED, EndReason.UPSTREAM_FAILED, why)
    settle(turn, board, job, paths)


def owner_of(job: OpenJob) -> files.Owner | None:
    """Whose the job's files are in shared mode; None: the daemon's own user's."""
    return None if job.uid is None or job.gid is None else (job.uid, job.gid)


def _shown(code: int | None) -> str:
    return "?" if code is None else str(code)
