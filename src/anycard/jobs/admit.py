"""Submission: a checked spec becomes a job on the board, or a refusal in words."""

from __future__ import annotations

import json
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticSerializationError

from anycard.config import Paths
from anycard.errors import ConflictError, UnavailableError
from anycard.jobs.board import Board, OpenJob
from anycard.jobs.spec import JobSpec
from anycard.jobs.states import Counts, JobState
from anycard.jobs.turn import Turn

KEPT_SUBMIT_KEYS = 20_000  # repeated submits are recognised among the latest so many


class EndedMeanwhileError(ConflictError):
    """A job that is waited for ended between its look-up and the turn: to be looked up again."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """``staged``: the folder holding its files, to become the job's; ``prepare_key`` None when nothing must be prepared. ``ended``: the
    states of the jobs it names in `after` that had ended when looked up, by id."""

    spec: JobSpec
    staged: Path | None
    prepare_key: str | None
    upstream: tuple[int, ...]
    ended: Mapping[int, JobState]


@dataclass(frozen=True, slots=True)
class Submission:
    """One file or command from one user; several jobs form a pipeline, each after the one before."""

    jobs: tuple[NewJob, ...]
    submit_key: str
    tenant: str
    user: str
    uid: int | None
    gid: int | None
    held: bool = False


Admitted = list[tuple[int, str, int]]  # (id, name, items) of each job


def admit(turn: Turn, board: Board, submission: Submission, paths: Paths) -> Admitted:
    """Puts the jobs on the board. A repeated submit key answers with what the first one made. ConflictError when a job waited for ended
    otherwise than well, or is gone."""
    known = board.submit_keys.get(submission.submit_key)
    if known is not None:
        return known
    for new in submission.jobs:
        _check_upstream(board, new)
    _adopt_folders(submission.jobs, board.next_job, paths)
    admitted: Admitted = []
    previous: OpenJob | None = None
    for position, new in enumerate(submission.jobs):
        job = _open(board, submission, new, turn.now.utc_s)
        job.upstream = {ref for ref in new.upstream if ref in board.jobs}
        if previous is not None:
            job.upstream.add(previous.id)
        for upstream in job.upstream:
            board.dependants.setdefault(upstream, set()).add(job.id)
        board.jobs[job.id] = job
        turn.dirty.add(job.id)
        board.requeue(job)
        _record(turn, submission, job, position)
        admitted.append((job.id, job.spec.name, job.n_items))
        previous = job
    board.submit_keys[submission.submit_key] = admitted
    while len(board.submit_keys) > KEPT_SUBMIT_KEYS:
        del board.submit_keys[next(iter(board.submit_keys))]
    return admitted


def _check_upstream(board: Board, new: NewJob) -> None:
    for ref in new.upstream:
        if ref in board.jobs:
            continue
        state = new.ended.get(ref)
        if state is None:
            raise EndedMeanwhileError("job {job}, named in `after`, ended a moment ago", hint="submit again", job=ref)
        if state is not JobState.SUCCEEDED:
            raise ConflictError(
                "job {job}, named in `after`, ended as {state}: this job would never start",
                hint="mend and retry that job first, or leave it out of `after`",
                job=ref,
                state=state.value,
            )


def _open(board: Board, submission: Submission, new: NewJob, now: float) -> OpenJob:
    items = new.spec.items
    job = OpenJob(
        id=board.next_job,
        spec=new.spec.model_copy(update={"items": None}),
        tenant=submission.tenant,
        user=submission.user,
        uid=submission.uid,
        gid=submission.gid,
        submitted_at=now,
        n_items=new.spec.n_items,
        item_values=dict(enumerate(items)) if items is not None else {},
        held=submission.held,
        counts=Counts(queued=new.spec.n_items),
        ready=deque(range(new.spec.n_items)),
        prepare_key=new.prepare_key,
        prepared=new.prepare_key is None,
    )
    board.next_job += 1
    return job


def _record(turn: Turn, submission: Submission, job: OpenJob, position: int) -> None:
    spec = job.spec.model_copy(update={"after_ids": tuple(sorted(job.upstream))})
    job.spec = spec
    turn.changes.insert(
        "jobs",
        {
            "id": job.id,
            "submit_key": submission.submit_key if position == 0 else f"{submission.submit_key}#{position}",
            "pipeline": submission.submit_key if len(submission.jobs) > 1 else None,
            "name": spec.name,
            "tenant": job.tenant,
            "user": job.user,
            "uid": job.uid,
            "gid": job.gid,
            "prepare_key": job.prepare_key,
            "kind": "batch",
            "state": JobState.QUEUED.value,
            "held": job.held,
            "priority": spec.priority,
            "spec_json": spec_json(spec),
            "submitted_at": job.submitted_at,
            "first_granted_at": None,
            "first_granted_boot_s": None,
            "first_granted_boot_id": None,
            "ended_at": None,
            "reason_json": None,
            "n_items": job.n_items,
            "n_queued": job.n_items,
            "n_running": 0,
            "n_succeeded": 0,
            "n_failed": 0,
            "n_cancelled": 0,
            "pruned_at": None,
        },
    )
    for item in range(job.n_items):
        values = job.values(item)
        turn.changes.insert(
            "items",
            {
                "job_id": job.id,
                "item": item,
                "state": "queued",
                "values_json": json.dumps(values) if values else None,
                "attempts": 0,
                "not_before": None,
                "reason_json": None,
                "end_reason": None,
                "exit_code": None,
                "started_at": None,
                "ended_at": None,
                "run_s": None,
                "fresh_from": None,
            },
        )
    turn.touched.add((job.id, -1))  # pages that show the queue, also of a job that only waits
    turn.event("job.submitted", job, name=spec.name, items=job.n_items, held=job.held, priority=spec.priority)


def spec_json(spec: JobSpec) -> str:
    """Item values are not in it: they stand in the items' own rows."""
    try:
        return spec.model_dump_json()
    except PydanticSerializationError:  # a file's name that is not UTF-8: as escaped lone surrogates
        return json.dumps(spec.model_dump(), separators=(",", ":"))


def _adopt_folders(jobs: Sequence[NewJob], first_id: int, paths: Paths) -> None:
    """The staged files become the jobs' own at once, a rename each: what starts in this very turn reads its script and secrets there."""
    try:
        for job_id, new in enumerate(jobs, start=first_id):
            if new.staged is not None:
                paths.jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
                target = paths.job(job_id)
                if target.exists():  # of a job that was never recorded: the daemon was killed just before
                    shutil.rmtree(target)
                new.staged.rename(target)
    except OSError as error:
        raise UnavailableError("a file of anycard could not be written: {why}", why=str(error)) from error
