"""What one turn gathers: rows to write, files to settle before the commit, and what to do once it is durable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anycard.engines.protocol import AttemptSpec
from anycard.jobs.board import OpenJob
from anycard.jobs.cardwatch import CardNews
from anycard.jobs.states import JobState, job_state
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text
from anycard.store.changes import Changes


@dataclass(slots=True)
class Turn:
    """``files`` run in order before the commit; each must be repeatable, and comes with the attempt that cannot start without it (None: the
    daemon's log says when it fails). ``starts``, ``stops`` and ``forgets`` go to the engine after it; ``replies`` are answered last."""

    now: Instant
    changes: Changes = field(default_factory=Changes)
    files: list[tuple[Callable[[], object], int | None]] = field(default_factory=list)
    starts: list[AttemptSpec] = field(default_factory=list)
    stops: list[tuple[int, EndReason, float]] = field(default_factory=list)
    forgets: list[int] = field(default_factory=list)
    unstartable: dict[int, Text] = field(
        default_factory=dict
    )  # attempts granted in this turn that must not run, and why
    replies: list[tuple[asyncio.Future[Any], Any]] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)  # jobs whose chance to start may have changed
    touched: set[tuple[int, int]] = field(default_factory=set)  # (job, item) whose watchers want news; item -1: the job

    def file(self, work: Callable[[], object], *, needed_by: int | None = None) -> None:
        self.files.append((work, needed_by))

    def event(
        self, kind: str, job: OpenJob, *, item: int | None = None, attempt: int | None = None, **data: Any
    ) -> None:
        self._event(kind, job, item, attempt, data)

    def card_event(self, news: CardNews, job: OpenJob | None, item: int | None) -> None:
        """What happened to a card, and to whom: ``job`` and ``item`` are what it was held by, if anything."""
        about = {"card": news.card.id, "model": news.card.model, **news.data}
        self._event(news.kind, job, item, news.attempt, about)

    def _event(
        self, kind: str, job: OpenJob | None, item: int | None, attempt: int | None, data: Mapping[str, Any]
    ) -> None:
        self.changes.event(
            {
                "at": self.now.utc_s,
                "boot_s": self.now.boot_s,
                "boot_id": self.now.boot_id,
                "kind": kind,
                "tenant": job.tenant if job else "default",
                "user": job.user if job else "anycard",
                "job_id": job.id if job else None,
                "item": item,
                "attempt_id": attempt,
                "data_json": json.dumps(data, ensure_ascii=False, separators=(",", ":")) if data else None,
            }
        )

    def item(self, job: OpenJob, item: int, **values: Any) -> None:
        self.changes.update("items", (job.id, item), **values)
        self.touched.add((job.id, item))

    def counts(self, job: OpenJob, **values: Any) -> JobState:
        """Writes the job's counters and state; returns the state."""
        counts = job.counts
        state = JobState.RUNNING if job.running else job_state(counts)  # a prepare attempt counts, too
        self.changes.update(
            "jobs",
            job.id,
            state=state.value,
            n_queued=counts.queued,
            n_running=counts.running,
            n_succeeded=counts.succeeded,
            n_failed=counts.failed,
            n_cancelled=counts.cancelled,
            **values,
        )
        self.touched.add((job.id, -1))
        self.dirty.add(job.id)
        return state

    def reply(self, future: asyncio.Future[Any] | None, value: Any) -> None:
        if future is not None:
            self.replies.append((future, value))


def text_json(text: Text | None) -> str | None:
    """A Text as the store keeps it."""
    if text is None:
        return None
    return json.dumps({"msgid": text.msgid, "params": dict(text.params)}, ensure_ascii=False, separators=(",", ":"))
