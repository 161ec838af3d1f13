"""/jobs/JOB: is it well, when is it done, what did it leave."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from anycard.errors import ConflictError, ForbiddenError, UsageError
from anycard.host.clock import now
from anycard.i18n import N_, words
from anycard.jobs.readingsviews import span_json
from anycard.jobs.report.making import job_report
from anycard.model.instant import rfc3339
from anycard.store.ordering import ITEM_SORTS
from anycard.web.pages.cards import CHART_COLUMNS
from anycard.web.render import page, see_other
from anycard.web.tables import Sorted, sorted_table
from anycard.web.visit import Visit, visit

router = APIRouter()

GRID_ITEMS = 1000  # squares on one page
_TABLE_ROWS = 100
_FAILED_ROWS = 20
_EVENT_ROWS = 100
_ENOUGH = 5  # items that are over, before their pace says anything

_SAID = {
    "cancelled": N_("It is cancelled; what still runs is told to end."),
    "held": N_("It is held: nothing more of it starts."),
    "released": N_("It is released: it starts when its turn comes."),
    "retried": N_("Queued again."),
    "already": N_("Nothing was done: this was done before, or has ended meanwhile. Below is how it is now."),
}


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
        "said": _SAID.get(who.query("said")),
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
    request: Request, ref: str, after: Annotated[int, Query(ge=0, le=2**53)] = 0, full: bool = False, one: bool = False
) -> Response:
    """``full``: the visitor's page of them is full and asks only because there is news; none of it belongs there. ``one``: the job has
    one item, which goes without its number."""
    who = visit(request)
    if full and not after:
        return Response(status_code=204)
    found = await who.jobs.events(ref, who.caller, after=after, limit=_EVENT_ROWS)
    return page(request, "parts/events.html", one=one, **found)


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
    item = _number(who.form.get("item"))
    return await _once(ref, "cancelled", who.jobs.cancel(ref, who.caller, item=item))


@router.post("/jobs/{ref}/hold")
async def hold(request: Request, ref: str) -> Response:
    who = visit(request)
    return await _once(ref, "held", who.jobs.hold(ref, who.caller, held=True))


@router.post("/jobs/{ref}/release")
async def release(request: Request, ref: str) -> Response:
    who = visit(request)
    return await _once(ref, "released", who.jobs.hold(ref, who.caller, held=False))


@router.post("/jobs/{ref}/retry")
async def retry(request: Request, ref: str) -> Response:
    """All that failed, or one ``item``. ``seen``: the end that the form was about; where something ended since, it was retried already."""
    who = visit(request)
    found = await who.jobs.job(ref, who.caller.user)
    item, seen = _number(who.form.get("item")), who.form.get("seen")
    if item is not None:
        await who.jobs.own(found["id"], who.caller)
    of = found if item is None else await _one(who, found["id"], item)
    if seen and of is not None and of["ended_at"] != seen:
        return see_other(f"/jobs/{ref}?said=already")
    return await _once(ref, "retried", who.jobs.retry(ref, who.caller, items=None if item is None else [item]), item)


async def _once(ref: str, said: str, act: Awaitable[object], item: int | None = None) -> Response:
    """To the job's page, which tells what was done. A double click, a second tab or a page from before find it done already: no fault."""
    try:
        await act
    except ConflictError:
        return see_other(f"/jobs/{ref}?said=already")
    return see_other(f"/jobs/{ref}?said={said}" + ("" if item is None else f"&item={item}"))


async def _mine(who: Visit, job_id: int) -> bool:
    try:
        await who.jobs.own(job_id, who.caller)
    except ForbiddenError:
        return False
    return True


async def _items(who: Visit, job: dict[str, Any]) -> dict[str, Any]:
    """Squares, or with ``as=table`` rows, which can be sorted."""
    state, cursor, rows = who.query("state"), who.query("cursor"), who.query("as") == "table"
    table = _table(who, job["id"])
    found = await who.jobs.items(
        str(job["id"]),
        who.caller,
        state=state or None,
        limit=_TABLE_ROWS if rows else GRID_ITEMS,
        cursor=cursor or None,
        sort=table.asked if rows else None,
    )
    return {
        "items": found["items"],
        "items_next": found["next_cursor"],
        "items_state": state,
        "items_cursor": cursor,
        "as_table": rows,
        "table": table,
    }


async def _failed(who: Visit, job: dict[str, Any]) -> dict[str, Any]:
    cursor, table = who.query("failed_cursor"), _table(who, job["id"])
    found = await who.jobs.items(
        str(job["id"]), who.caller, state="failed", limit=_FAILED_ROWS, cursor=cursor or None, sort=table.asked
    )
    return {"failed": found["items"], "failed_next": found["next_cursor"], "failed_cursor": cursor, "table": table}


def _table(who: Visit, job_id: int) -> Sorted:
    """The order of the job's tables of items: one for both."""
    kept = {name: who.query(name) for name in ("state", "as")}
    return sorted_table(who, ITEM_SORTS, path=f"/jobs/{job_id}", usual="item", down=False, kept=kept)


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
