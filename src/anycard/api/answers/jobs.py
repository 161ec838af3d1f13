"""Jobs, their items, their events; what a submit is answered with."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anycard.api.answers.base import Answer, Problem


class ModelFit(Answer):
    """Of a job whose file names its model: what it needs a card, beside what it may use at best."""

    fit: str = Field(description="fits, some-cards, tight, unlikely, never or unknown")
    text: str
    msgid: str
    params: dict[str, Any]
    need_bytes: int | None
    low_bytes: int | None
    high_bytes: int | None
    have_bytes: int | None


class SubmittedJob(Answer):
    id: int
    name: str
    n_items: int
    fit: ModelFit | None = Field(description="null: its file names no model")


class Submitted(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.submitted/1"])
    jobs: list[SubmittedJob]
    ignored: list[str] = Field(description="keys of other systems that mean nothing here")
    warnings: list[str]


class Refused(Problem):
    status: int = Field(description="what a single submit would have been answered with")


class SubmittedMany(Answer):
    """An answer for each submission, in their order: what it made, or what was wrong with it."""

    schema_: str = Field(alias="schema", examples=["anycard.submitted-many/1"])
    answers: list[Submitted | Refused]


class Counts(Answer):
    """Items by what became of them."""

    items: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class DemandShape(Answer):
    """What one item asks for; several are alternatives in order."""

    cpus: float
    memory_bytes: int | None
    card_count: int
    card: Any


class Job(Answer):
    """JOB."""

    schema_: str = Field(alias="schema", examples=["anycard.job/1"])
    id: int
    name: str
    tenant: str
    user: str
    kind: str
    state: str = Field(description="queued, running, succeeded, partly-failed, failed, cancelled")
    held: bool
    priority: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    pruned_at: str | None = Field(description="its items, logs and outputs are gone since; null: all there")
    reason: str | None = Field(description="why it waits, or what became of it")
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    position: int | None = Field(description="in the queue, 1 is next")
    sooner: str | None = Field(description="what would start it sooner")
    sooner_msgid: str | None
    sooner_params: dict[str, Any] | None
    counts: Counts
    sizing: dict[str, Any] | None = Field(
        description="what its model needs (anycard.model in its file), in bytes; null when it names none, and in lists of jobs"
    )
    demand: list[DemandShape]
    outputs: str = Field(description="folder of its items' outputs")
    failed_file: str | None


class JobsPage(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.jobs/1"])
    jobs: list[Job]
    next_cursor: str | None


class Progress(Answer):
    done: float
    total: float | None
    message: str | None


class Item(Answer):
    """ITEM: one element of a job; a plain job has one."""

    item: int
    values: dict[str, Any] = Field(description="of foreach: the variables its program sees")
    state: str = Field(description="queued, starting, running, stopping, succeeded, failed, cancelled")
    attempts: int
    reason: str | None
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    end_reason: str | None = Field(description="of the last attempt, out of a closed list")
    cause: str | None = Field(description="what the doctor says was behind it, where its log proves it")
    exit_code: int | None
    started_at: str | None
    ended_at: str | None
    run_s: float | None
    cards: list[str]
    log: str | None = Field(description="file of the last attempt")
    output: str | None = Field(description="folder, when it succeeded and wrote any")
    progress: Progress | None = Field(
        description="of a running item, as its program tells it (anycard.checkpoint.progress)"
    )


class ItemsPage(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.items/1"])
    job: int
    items: list[Item]
    next_cursor: str | None


class Event(Answer):
    seq: int
    at: str
    boot_s: float
    boot_id: str
    kind: str
    tenant: str
    user: str
    job_id: int | None
    item: int | None
    attempt_id: int | None
    data: dict[str, Any]


class EventsPage(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.events/1"])
    job: int
    events: list[Event]
    next_after: int | None


class News(Answer):
    """One line of a watched job."""

    job: Job
    items: list[Item] = Field(description="those that changed since the line before")
