"""/jobs/JOB: is it well, when is it done, what did it leave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from anycard.errors import ForbiddenError, UsageError
from anycard.host.clock import now
from anycard.i18n import words
from anycard.jobs.readingsviews import span_json
from anycard.jobs.report.making import job_report
from anycard.model.instant import rfc3339
from anycard.web.pages.cards import CHART_COLUMNS
from anycard.web.render import page, see_other
from anycard.web.visit import Visit, visit

router = APIRouter()

GRID_ITEMS = 1000  # squares on one page
_FAILED_ROWS = 20
_EVENT_ROWS = 100
_ENOUGH = 5  # items that are over, before their pace says anything


@router.get("/jobs/{ref}")
async def job(request: Request, ref: str, item: int | None = None, attempt: int | None = None) -> Response:
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    if str(found["id"]) != ref:
        return see_other(f"/jobs/{found['id']}")
    mine = await _mine(who, found["id"])
    context: dict[str, Any] = {
        "job": found,
        "end": expected_end(found, now().utc_s),
        "mine": mine,
        "item": None,
        "shown": None,
        "attempt": attempt,
    }
    if mine:
        context |= await _items(who, found) | await _failed(who, found)
        chosen = item if item is not None else _first(found, context)
        if chosen is not None:
            context["item"] = chosen
            context["shown"] = await _one(who, found["id"], chosen)
        _, context["with_output"] = await who.files.with_output(ref, who.caller)
    return page(request, "job.html", **context)


@router.get("/jobs/{ref}/head")
async def head(request: Request, ref: str) -> Response:
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    return page(
        request,
        "parts/job_head.html",
        job=found,
        end=expected_end(found, now().utc_s),
        mine=await _mine(who, found["id"]),
    )


@router.get("/jobs/{ref}/items")
async def items(request: Request, ref: str) -> Response:
    """The grid of squares: ``state`` and ``cursor`` as the API has them."""
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    return page(request, "parts/items.html", job=found, item=None, **await _items(who, found))


@router.get("/jobs/{ref}/failed")
async def failed(request: Request, ref: str) -> Response:
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    return page(request, "parts/failed.html", job=found, **await _failed(who, found))


@router.get("/jobs/{ref}/shown")
async def shown(
    request: Request,
    ref: str,
    item: Annotated[int, Query(ge=-1, le=2**53)],
    attempt: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    """The line above the log: how the item is by now."""
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    await who.jobs.own(found["id"], who.caller)
    one = await _one(who, found["id"], item)
    return page(request, "parts/shown.html", job=found, item=item, attempt=attempt, shown=one)


@router.get("/jobs/{ref}/outputs/now")
async def outputs(request: Request, ref: str) -> Response:
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    _, with_output = await who.files.with_output(ref, who.caller)
    return page(request, "parts/job_outputs.html", job=found, with_output=with_output)


@router.get("/jobs/{ref}/events")
async def events(
    request: Request, ref: str, after: Annotated[int, Query(ge=0, le=2**53)] = 0, full: bool = False
) -> Response:
    """``full``: the visitor's page of them is full and asks only because there is news; none of it belongs there."""
    who = visit(request)
    if full and not after:
        return Response(status_code=204)
    found = await who.jobs.events(ref, who.caller, after=after, limit=_EVENT_ROWS)
    return page(request, "parts/events.html", **found)


@router.get("/jobs/{ref}/readings")
async def readings(request: Request, ref: str) -> Response:
    """What the plots show: the answer of GET /v1/jobs/REF/readings; of a job that waits no card, as its page asks again and again."""
    who = visit(request)
    held = await who.jobs.held(ref, who.caller)
    if held.since is None:
        return JSONResponse({"cards": []})
    span = await who.services.readings.span(cards=held.cards, since=held.since, until=held.until, job=held.job)
    return JSONResponse(span_json(span, CHART_COLUMNS))


@router.get("/jobs/{ref}/report")
async def report(request: Request, ref: str) -> Response:
    who = visit(request)
    told = await job_report(who.jobs, who.services.readings, ref, who.caller)
    return page(request, "parts/report.html", report=told)


@router.post("/jobs/{ref}/cancel")
async def cancel(request: Request, ref: str) -> Response:
    who = visit(request)
    await who.jobs.cancel(ref, who.caller, item=_number(who.form.get("item")))
    return see_other(f"/jobs/{ref}")


@router.post("/jobs/{ref}/hold")
async def hold(request: Request, ref: str) -> Response:
    who = visit(request)
    await who.jobs.hold(ref, who.caller, held=True)
    return see_other(f"/jobs/{ref}")


@router.post("/jobs/{ref}/release")
async def release(request: Request, ref: str) -> Response:
    who = visit(request)
    await who.jobs.hold(ref, who.caller, held=False)
    return see_other(f"/jobs/{ref}")


@router.post("/jobs/{ref}/retry")
async def retry(request: Request, ref: str) -> Response:
    """All that failed, or one ``item``."""
    who = visit(request)
    item = _number(who.form.get("item"))
    await who.jobs.retry(ref, who.caller, items=None if item is None else [item])
    return see_other(f"/jobs/{ref}" + ("" if item is None else f"?item={item}"))


async def _mine(who: Visit, job_id: int) -> bool:
    try:
        await who.jobs.own(job_id, who.caller)
    except ForbiddenError:
        return False
    return True


async def _items(who: Visit, job: dict[str, Any]) -> dict[str, Any]:
    state, cursor = who.query("state"), who.query("cursor")
    found = await who.jobs.items(
        str(job["id"]), who.caller, state=state or None, limit=GRID_ITEMS, cursor=cursor or None
    )
    return {"items": found["items"], "items_next": found["next_cursor"], "items_state": state, "items_cursor": cursor}


async def _failed(who: Visit, job: dict[str, Any]) -> dict[str, Any]:
    cursor = who.query("failed_cursor")
    found = await who.jobs.items(str(job["id"]), who.caller, state="failed", limit=_FAILED_ROWS, cursor=cursor or None)
    return {"failed": found["items"], "failed_next": found["next_cursor"]}


def _first(job: dict[str, Any], context: dict[str, Any]) -> int | None:
    """The item whose log is shown when nobody chose: the only one, else one that failed, else one that runs, else the first."""
    listed = context["items"]
    if not listed:
        return None
    if context["failed"]:
        return int(context["failed"][0]["item"])
    running = [item for item in listed if item["state"] in ("running", "stopping")]
    return int((running or listed)[0]["item"])


async def _one(who: Visit, job_id: int, item: int) -> dict[str, Any] | None:
    if item < 0:
        return None  # the job's setup: it is no item
    found = await who.jobs.items(str(job_id), who.caller, state=None, limit=1, cursor=str(item - 1) if item else None)
    return found["items"][0] if found["items"] and found["items"][0]["item"] == item else None


def expected_end(job: Mapping[str, Any], at: float) -> str | None:
    """When a batch is over if it goes on as it went so far (RFC 3339): so many items in so much time. None before _ENOUGH items are."""
    done = words.done(job["counts"])
    left = job["counts"]["queued"] + job["counts"]["running"]
    if job["state"] != "running" or job["held"] or done < _ENOUGH or not left:
        return None
    began = datetime.fromisoformat(job["started_at"]).timestamp()
    return rfc3339(at + (at - began) / done * left)


def _number(given: str | None) -> int | None:
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise UsageError("{given} is no item", given=given)
    return int(given)
