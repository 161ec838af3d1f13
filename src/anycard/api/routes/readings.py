"""/v1/readings: cards over time, the last tick, a job's cards over its time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request

from anycard.api.answers import Problem
from anycard.api.bodies import Answer
from anycard.api.readinganswers import Readings, Tick
from anycard.errors import NotFoundError, UsageError
from anycard.jobs.readings import CardReadings
from anycard.jobs.readingsviews import JSON_COLUMNS, span_json, tick_json
from anycard.jobs.service import Jobs

router = APIRouter(prefix="/v1", tags=["readings"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})

Step = Annotated[float | None, Query(ge=1, le=31 * 86_400, allow_inf_nan=False, description="seconds a row")]
Columns = Annotated[str | None, Query(description="only these, with commas between")]
_MOST_ROWS = 20_000  # of one card in one answer


@router.get("/readings", responses={200: {"model": Readings}})
async def readings(
    request: Request,
    card: Annotated[list[str] | None, Query(description="ids; none: every card")] = None,
    since: Annotated[str | None, Query(description="RFC 3339; none: ten minutes before until")] = None,
    until: Annotated[str | None, Query(description="RFC 3339; none: now")] = None,
    step: Step = None,
    columns: Columns = None,
) -> Answer:
    """Cards over time. A gap has no row; a column in which nothing was seen is null."""
    kept = _readings(request)
    begin, end = _moment(since), _moment(until)
    _check_span(begin, end, step)
    span = await kept.span(cards=card, since=begin, until=end, step_s=step)
    return Answer(span_json(span, _columns(columns)))


@router.get("/readings/live", responses={200: {"model": Tick}})
async def live(request: Request, after: str | None = None) -> Answer:
    """The last tick, at once; with ``after`` (an ``at``) the first one that is later: the next second's."""
    kept = _readings(request)
    moment = _moment(after)
    if moment is not None and (kept.last is None or kept.last.at <= moment + 0.001):
        await kept.next()
    return Answer(tick_json(kept.last, kept.owners))


@router.get("/jobs/{ref}/readings", responses={200: {"model": Readings}})
async def of_job(request: Request, ref: str, step: Step = None, columns: Columns = None) -> Answer:
    """The cards that a job held, from its start to its end (or now), and what its attempts did on them."""
    kept = _readings(request)
    service: Jobs = request.app.state.service
    held = await service.held(ref, request.app.state.gate.caller(request))
    if held.since is None:
        raise NotFoundError("job {job} has not started", job=held.job)
    if held.until is None or held.until >= held.since:  # not so where the clock was set back while it ran
        _check_span(held.since, held.until, step)
    span = await kept.span(cards=held.cards, since=held.since, until=held.until, step_s=step, job=held.job)
    return Answer(span_json(span, _columns(columns), with_uses=True))


def _readings(request: Request) -> CardReadings:
    request.app.state.gate.caller(request)
    kept: CardReadings = request.app.state.readings
    return kept


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            "{given} is no time", hint="times are RFC 3339, like 2026-11-30T17:20:05Z", given=text
        ) from None


def _check_span(since: float | None, until: float | None, step: float | None) -> None:
    if since is not None and until is not None and until < since:
        raise UsageError("until lies before since")
    if since is not None and until is not None and step is not None and (until - since) / step > _MOST_ROWS:
        raise UsageError(
            "that would be more than {count} rows a card",
            hint="ask for a longer step or a shorter time",
            count=_MOST_ROWS,
        )


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in JSON_COLUMNS:
            raise UsageError(
                "{given} is no column", hint="the columns are {known}", given=name, known=", ".join(JSON_COLUMNS)
            )
    return names
