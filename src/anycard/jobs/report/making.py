"""Gathers what the report of one job is made of: its grants out of the store, readings, cards' names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anycard.host.clock import now
from anycard.jobs.caller import Caller
from anycard.jobs.readings import KEPT_STEP_S, CardReadings, Span
from anycard.jobs.report.figures import figures
from anycard.jobs.report.findings import Finding, findings
from anycard.jobs.report.moments import Hold, Seen, Work
from anycard.jobs.report.views import report_json
from anycard.jobs.service import Jobs
from anycard.model.card import CPU_VENDOR, Card
from anycard.model.text import Text

Row = Mapping[str, Any]


async def job_report(jobs: Jobs, kept: CardReadings, ref: str, caller: Caller) -> dict[str, Any]:
    """Of a job that is over, or of what a running one did so far. Of one that never started it says that. NotFoundError, ForbiddenError."""
    job, grants = await jobs.grants(ref, caller)
    if not grants:
        never = Finding("not-started", Text("job {job} has not started", {"job": job["id"]}))
        return report_json(job, None, [never], {}, until=None, step_s=None)
    moment = now().utc_s
    holds = holds_of(grants, moment)
    began, ended = min(hold.since for hold in holds), max(hold.until for hold in holds)
    cards = sorted({hold.card_id for hold in holds})
    span = await kept.span(
        cards=[*cards, CPU_VENDOR] if CPU_VENDOR not in cards else cards, since=began, until=ended, job=job["id"]
    )
    known = jobs.cards()
    return await asyncio.to_thread(_made, job, holds, span, known, ended)


def _made(job: Row, holds: Sequence[Hold], span: Span, known: Sequence[Card], ended: float) -> dict[str, Any]:
    made = figures(seen_of(holds, span, known))
    names = card_names(known)
    return report_json(job, made, findings(made, names), names, until=ended, step_s=span.step_s)


def seen_of(holds: Sequence[Hold], span: Span, known: Sequence[Card]) -> Seen:
    """``span`` has the cards of ``holds``, the CPU, and what the job's attempts did."""
    series = {one.card_id: one for one in span.cards}
    work = tuple(Work(use.at, use.attempt, use.cpu_cores, use.read_bytes_per_s) for use in span.uses)
    cores = next((card.cores for card in known if card.vendor == CPU_VENDOR), None)
    return Seen(holds, series, span.step_s, work, max(span.step_s, KEPT_STEP_S), series.get(CPU_VENDOR), cores)


def holds_of(grants: Iterable[Row], moment: float) -> list[Hold]:
    """A hold for each card of each grant; ``moment`` ends those that still go on."""
    return [
        Hold(
            card_id,
            row["attempt_id"],
            row["from_utc"],
            max(row["from_utc"], row["to_utc"] or moment),
            row["cpus"],
            row["cpu_s"],
        )
        for row in grants
        for card_id in json.loads(row["cards_json"]) or (CPU_VENDOR,)
    ]


def card_names(cards: Iterable[Card]) -> dict[str, str]:
    """A card's model, with its number where this machine has several of it."""
    accelerators = [card for card in cards if card.is_accelerator]
    models = [card.model for card in accelerators]
    return {
        card.id: card.model if models.count(card.model) == 1 else f"{card.model} #{card.index}" for card in accelerators
    }
