"""Whatever happens in whatever order, the board keeps its books and the rows written say the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from anycard.config import Paths
from anycard.engines.protocol import AttemptStatus, Phase
from anycard.errors import ConflictError
from anycard.jobs import actions, lifecycle
from anycard.jobs.admit import NewJob, Submission, admit
from anycard.jobs.board import PREPARE, Board, OpenJob
from anycard.jobs.outcome import Outcome
from anycard.jobs.spec import JobSpec, RetryRule
from anycard.jobs.states import JobState
from anycard.jobs.turn import Turn
from anycard.model.demand import Allocation
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant

PATHS = Paths(Path("/nowhere"))
SUBMITTABLE = st.builds(
    lambda count, times, stop, setup: JobSpec(
        name="j",
        command=("true",),
        workdir="/",
        items=None if count == 1 else tuple({"n": str(n)} for n in range(count)),
        retry=RetryRule(times=times, wait_s=1.0),
        stop_on_item_error=stop,
        setup="true" if setup else None,
    ),
    st.integers(1, 5),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)


class Books(RuleBasedStateMachine):
    """The rules are what people, the planner and the engine may do; the rows are kept as a plain dict, as the store would."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Board()
        self.rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self.clock = 1000.0
        self.submits = 0
        self.reopenable: dict[int, OpenJob] = {}

    def turn(self) -> Turn:
        self.clock += 1.0
        return Turn(Instant(self.clock, self.clock, "boot"))

    def commit(self, turn: Turn) -> None:
        for table, inserts in turn.changes.inserts.items():
            for key, row in inserts.items():
                assert key not in self.rows.setdefault(table, {}), f"{table} {key} inserted twice"
                self.rows[table][key] = dict(row)
        for table, updates in turn.changes.updates.items():
            for key, values in updates.items():
                self.rows[table][key].update(values)
        self.events += turn.changes.events

    def pick(self, data: st.DataObject, jobs: list[OpenJob]) -> OpenJob:
        return data.draw(st.sampled_from(sorted(jobs, key=lambda job: job.id)))

    @rule(spec=SUBMITTABLE, after=st.booleans())
    def submit(self, spec: JobSpec, after: bool) -> None:
        self.submits += 1
        upstream = (min(self.board.jobs),) if after and self.board.jobs else ()
        new = NewJob(spec, None, f"key{self.submits}" if spec.setup else None, upstream, {})
        turn = self.turn()
        submission = Submission((new,), f"submit{self.submits}", "default", "ana", None, None)
        first = admit(turn, self.board, submission, PATHS)
        assert admit(turn, self.board, submission, PATHS) == first, "the same key again is the same job"
        self.commit(turn)

    @precondition(lambda self: self.startable())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        job = self.pick(data, self.startable())
        job.wake(self.clock)
        item = PREPARE if not job.prepared else job.ready.popleft()
        turn = self.turn()
        lifecycle.start(
            turn,
            self.board,
            job,
            item,
            Allocation(1.0, None, ("nvidia:a",)),
            paths=PATHS,
            engine="local",
            argv=("true",),
            visibility={},
            item_variables={},
            secrets={},
        )
        self.commit(turn)

    def startable(self) -> list[OpenJob]:
        found = []
        for job in self.board.jobs.values():
            job.wake(self.clock)
            if job.held or job.upstream:
                continue
            if (not job.prepared and PREPARE not in job.running and job.counts.queued) or (job.prepared and job.ready):
                found.append(job)
        return found

    @precondition(lambda self: self.board.attempts)
    @rule(data=st.data(), reason=st.sampled_from(list(EndReason)))
    def end(self, data: st.DataObject, reason: EndReason) -> None:
        attempt = self.board.attempts[data.draw(st.sampled_from(sorted(self.board.attempts)))]
        job = self.board.jobs[attempt.job_id]
        turn = self.turn()
        code = 0 if reason is EndReason.SUCCEEDED else 1
        status = AttemptStatus(attempt.id, Phase.ENDED, turn.now, exit_code=code)
        lifecycle.end(turn, self.board, job, attempt, status, Outcome(reason, None), PATHS)
        self.note_ended(job)
        self.commit(turn)

    @precondition(lambda self: self.board.jobs)
    @rule(data=st.data(), item=st.none() | st.integers(0, 4))
    def cancel(self, data: st.DataObject, item: int | None) -> None:
        job = self.pick(data, list(self.board.jobs.values()))
        turn = self.turn()
        try:
            actions.cancel(turn, self.board, job, item, "ana", PATHS)
        except ConflictError:
            assert item is not None and item not in job.running and item not in job.ready
            return
        self.note_ended(job)
        self.commit(turn)

    @precondition(lambda self: self.board.jobs)
    @rule(data=st.data(), held=st.booleans())
    def hold(self, data: st.DataObject, held: bool) -> None:
        turn = self.turn()
        actions.hold(turn, self.pick(data, list(self.board.jobs.values())), held, "ana")
        self.commit(turn)

    @precondition(lambda self: any(job.failed or job.cancelled for job in self.board.jobs.values()))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job = self.pick(data, [job for job in self.board.jobs.values() if job.failed or job.cancelled])
        turn = self.turn()
        asked = sorted({*job.failed, *job.cancelled})
        actions.retry(turn, self.board, job, asked, "ana")
        with pytest.raises(ConflictError):  # asked twice at once counts once
            actions.retry(turn, self.board, job, asked, "ana")
        self.commit(turn)

    def note_ended(self, job: OpenJob) -> None:
        if job.id not in self.board.jobs:
            self.reopenable[job.id] = job

    @invariant()
    def every_item_is_in_one_place(self) -> None:
        for job in self.board.jobs.values():
            waiting = [*job.ready, *(item for _, item in job.delayed)]
            running = [item for item in job.running if item != PREPARE]
            assert len(set(waiting)) == len(waiting) and not set(waiting) & set(running)
            assert (len(waiting), len(running)) == (job.counts.queued, job.counts.running)
            assert job.counts.total == job.n_items
            assert (len(job.failed), len(job.cancelled)) == (job.counts.failed, job.counts.cancelled)
            assert job.counts.open or job.running, "a job without open items has ended"

    @invariant()
    def rows_say_what_the_board_says(self) -> None:
        by_job: dict[int, Counter[str]] = {}
        for (job_id, _), row in self.rows.get("items", {}).items():
            by_job.setdefault(job_id, Counter())[row["state"]] += 1
        for (job_id,), row in self.rows.get("jobs", {}).items():
            states = by_job[job_id]
            assert row["n_queued"] == states["queued"]
            assert row["n_running"] == states["starting"] + states["running"] + states["stopping"]
            assert row["n_succeeded"] == states["succeeded"] and row["n_failed"] == states["failed"]
            assert row["n_cancelled"] == states["cancelled"]
            assert (row["ended_at"] is None) == (job_id in self.board.jobs)
            assert (row["state"] in ("queued", "running")) == (job_id in self.board.jobs)

    @invariant()
    def grants_are_closed_once_with_their_attempt(self) -> None:
        open_attempts = {key[0] for key, row in self.rows.get("attempts", {}).items() if row["state"] != "ended"}
        assert open_attempts == set(self.board.attempts)
        open_grants = {row["attempt_id"] for row in self.rows.get("grants", {}).values() if row["to_utc"] is None}
        assert open_grants == open_attempts

    @invariant()
    def queue_is_sorted_and_whole(self) -> None:
        assert self.board.queue == sorted(self.board.queue)
        assert {job_id for _, job_id in self.board.queue} == {
            job.id for job in self.board.jobs.values() if job.counts.queued
        }

    @invariant()
    def events_tell_each_start_and_end_once(self) -> None:
        seen = Counter((event["kind"], event["attempt_id"]) for event in self.events if event["attempt_id"])
        for kind in ("item.started", "item.ended", "prepare.started", "prepare.ended"):
            assert all(count == 1 for (what, _), count in seen.items() if what == kind)
        ended = [event["job_id"] for event in self.events if event["kind"] == "job.ended"]
        assert len(ended) == len(set(ended)), "no job of this run is reopened after its end"


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBooks = Books.TestCase


def test_upstream_that_failed_ends_the_job_that_waits() -> None:
    books = Books()
    spec = JobSpec(name="a", command=("true",), workdir="/")
    turn = books.turn()
    first = NewJob(spec, None, None, (), {})
    admit(turn, books.board, Submission((first, first), "key", "default", "ana", None, None), PATHS)
    upstream, waiting = books.board.jobs[1], books.board.jobs[2]
    assert waiting.upstream == {1}
    actions.cancel(turn, books.board, upstream, None, "ana", PATHS)
    books.commit(turn)
    assert not books.board.jobs
    assert books.rows["items"][(2, 0)]["end_reason"] == EndReason.UPSTREAM_FAILED
    assert books.rows["jobs"][(2,)]["state"] == JobState.FAILED
