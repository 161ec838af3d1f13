"""``anycard doctor --job``: why an item ended as it did, or is slow, from its last attempt's log and the readings of its cards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anycard.host.clock import now
from anycard.jobs.caller import Caller
from anycard.jobs.diagnosis import about_item
from anycard.jobs.measuring import mark_lines, measured
from anycard.jobs.readings import KEPT_STEP_S, CardReadings
from anycard.jobs.report.making import holds_of, seen_of
from anycard.jobs.report.moments import Hold
from anycard.jobs.service import Jobs, LastTry
from anycard.model.card import CPU_VENDOR
from anycard.model.end_reason import EndReason
from anycard.model.series import Series

_MARKS_S = 10.0  # after its end: what a card's driver says of it comes late
_BEFORE_S, _MONTH_S = 600.0, 31 * 86_400.0
_RUNS = frozenset({"starting", "running", "stopping"})
_STOPPED = frozenset(
    {
        EndReason.TIME_LIMIT,
        EndReason.MAX_RELEASED,
        EndReason.IDLE_RELEASED,
        EndReason.CANCELLED,
        EndReason.PREEMPTED,
        EndReason.SPOT_RECLAIMED,
    }
)


async def job_diagnosis(
    jobs: Jobs, kept: CardReadings, ref: str, caller: Caller, *, item: int | None
) -> dict[str, Any]:
    """The doctor's document about ``item`` (the first that failed, unless told), with the key ``attempt``. NotFoundError when nothing of
    it was ever started; ForbiddenError; UnavailableError when the doctor does not answer in time."""
    tried = await jobs.last_try(ref, caller, item=item)
    holds = [hold for hold in holds_of(tried.grants, now().utc_s) if hold.card_id != CPU_VENDOR]
    marks, told = await _looked_at(jobs, kept, tried, holds) if holds else ("", None)
    seen = await jobs.doctor.whole(tried.stem, marks, told)
    return about_item(tried.job, tried.item, f"{tried.stem}.log", seen)


async def _looked_at(
    jobs: Jobs, kept: CardReadings, tried: LastTry, holds: Sequence[Hold]
) -> tuple[str, Mapping[str, Any]]:
    """What was said of the attempt's cards, and what was measured of them."""
    cards = [hold.card_id for hold in holds]
    began, ended = min(hold.since for hold in holds), max(hold.until for hold in holds)
    span = await kept.span(cards=[*cards, CPU_VENDOR], since=began, until=ended, job=tried.job["id"])
    late = await kept.span(cards=cards, since=began, until=ended + _MARKS_S, step_s=_MONTH_S)
    month = await kept.span(cards=cards, since=began - _MONTH_S, until=began, step_s=_MONTH_S)
    before = await kept.span(cards=cards, since=began - _BEFORE_S, until=began, step_s=KEPT_STEP_S)
    earlier: dict[str, list[Series]] = {}
    for series in (*month.cards, *before.cards):
        earlier.setdefault(series.card_id, []).append(series)
    runs, end = tried.item["state"] in _RUNS, tried.item["end_reason"]
    failed = not runs and end != EndReason.SUCCEEDED and end not in _STOPPED
    told = await asyncio.to_thread(
        measured,
        seen_of(holds, span, jobs.cards()),
        span.uses,
        earlier,
        runs=runs,
        failed=failed,
        waits=tried.job["kind"] != "batch",
    )
    return mark_lines(late.marks, holds, failed=failed), asdict(told)
