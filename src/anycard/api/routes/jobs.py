"""/v1/jobs: submit, list, look, follow, act."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response, StreamingResponse

from anycard.api.answers import EventsPage, ItemsPage, Job, JobsPage, News, Problem, Submitted, SubmittedMany
from anycard.api.bodies import Answer, problem_json
from anycard.api.caller import Caller
from anycard.api.shapes import CancelRequest, RetryRequest, SubmitManyRequest, SubmitRequest
from anycard.errors import AnycardError
from anycard.host.clock import now
from anycard.jobs.checking import Request as Submission
from anycard.jobs.service import Jobs
from anycard.store.ordering import ITEM_SORTS, JOB_SORTS, sorting

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})

Limit = Annotated[int, Query(ge=1, le=1000)]
Number = Annotated[int, Query(ge=0, le=2**53)]


class JsonLines(StreamingResponse):
    media_type = "application/x-ndjson"


# Where the answer is no JSON, FastAPI would publish the errors as that, too.
_PROBLEM = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "Client Error", **_PROBLEM},
    "5XX": {"description": "Server Error", **_PROBLEM},
}
_JOB: dict[int | str, dict[str, Any]] = {200: {"model": Job}}


def _parts(request: Request) -> tuple[Jobs, Caller]:
    state = request.app.state
    return state.service, state.gate.caller(request)


@router.post("", status_code=201, responses={201: {"model": Submitted}})
async def submit(request: Request, body: SubmitRequest) -> Answer:
    """Checks the job file or command and queues it. Durable when answered. All faults of a file come at once."""
    service, caller = _parts(request)
    return Answer(await service.submit(_submission(body), caller), status_code=201)


@router.post("/batch", responses={200: {"model": SubmittedMany}})
async def submit_many(request: Request, body: SubmitManyRequest) -> Answer:
    """As many single submits, at a tenth of their cost: each is checked, queued and answered by itself, and one that is wrong keeps no
    other from its place."""
    service, caller = _parts(request)
    turns: list[Awaitable[dict[str, Any]]] = []
    for one in body.submissions:  # checked in their order, which is the queue's; then all wait for the same turn
        try:
            turns.append(await service.check(_submission(one), caller))
        except AnycardError as error:
            turns.append(_refused(error))
    answers = await asyncio.gather(*turns, return_exceptions=True)
    return Answer({"schema": "anycard.submitted-many/1", "answers": [_answer_or_problem(answer) for answer in answers]})


async def _refused(error: AnycardError) -> dict[str, Any]:
    raise error


def _submission(body: SubmitRequest) -> Submission:
    return Submission(**{name: getattr(body, name) for name in SubmitRequest.model_fields})


def _answer_or_problem(answer: dict[str, Any] | BaseException) -> dict[str, Any]:
    if isinstance(answer, AnycardError):
        return {"status": answer.http_status, **problem_json(answer)}
    if isinstance(answer, BaseException):
        raise answer
    return answer


@router.get("", responses={200: {"model": JobsPage}})
async def page(
    request: Request,
    state: str | None = None,
    user: str | None = None,
    name: str | None = None,
    limit: Limit = 100,
    cursor: str | None = None,
    sort: str | None = None,
    order: str | None = None,
) -> Answer:
    """Jobs, newest first, or by what ``sort`` names, ``order`` being asc or desc."""
    service, _ = _parts(request)
    ordered = sorting(sort, order, JOB_SORTS, now().utc_s)
    return Answer(await service.page(state=state, user=user, name=name, limit=limit, cursor=cursor, sort=ordered))


@router.get("/{ref}", responses=_JOB)
async def job(request: Request, ref: str) -> Answer:
    """One job by id, or the latest of a name."""
    service, caller = _parts(request)
    return Answer(await service.job(ref, caller.user))


@router.get("/{ref}/items", responses={200: {"model": ItemsPage}})
async def items(
    request: Request,
    ref: str,
    state: str | None = None,
    limit: Limit = 100,
    cursor: str | None = None,
    sort: str | None = None,
    order: str | None = None,
) -> Answer:
    """Its items by number, or by what ``sort`` names, ``order`` being asc or desc."""
    service, caller = _parts(request)
    ordered = sorting(sort, order, ITEM_SORTS, now().utc_s)
    return Answer(await service.items(ref, caller, state=state, limit=limit, cursor=cursor, sort=ordered))


@router.get("/{ref}/events", responses={200: {"model": EventsPage}})
async def events(request: Request, ref: str, after: Number = 0, limit: Limit = 100) -> Answer:
    """What happened to it, oldest first."""
    service, caller = _parts(request)
    return Answer(await service.events(ref, caller, after=after, limit=limit))


@router.get("/{ref}/watch", response_class=JsonLines, responses={200: {"model": News}, **_PROBLEMS})
async def watch(request: Request, ref: str) -> Response:
    """JSON lines {job, items that changed}, at once and at each change, until the job is over."""
    service, caller = _parts(request)
    news = await service.watch(ref, caller)
    return JsonLines(_lines(news))


@router.get(
    "/{ref}/log",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string", "format": "binary"}}}}, **_PROBLEMS},
)
async def log(
    request: Request,
    ref: str,
    item: Annotated[int, Query(ge=-1, le=2**53)] = 0,
    attempt: Number | None = None,
    follow: bool = False,
    tail: Number | None = None,
) -> Response:
    """A log's bytes as the program wrote them; ``item`` -1 is the job's setup."""
    service, caller = _parts(request)
    chunks = await service.log(ref, caller, item=item, attempt=attempt, follow=follow, tail=tail)
    return StreamingResponse(
        chunks, media_type="text/plain; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"}
    )


@router.post("/{ref}/cancel", responses=_JOB)
async def cancel(
    request: Request, ref: str, body: Annotated[CancelRequest, Body(default_factory=CancelRequest)]
) -> Answer:
    """Ends the job or one item: what waits at once, what runs by the stop signal and its grace."""
    service, caller = _parts(request)
    return Answer(await service.cancel(ref, caller, item=body.item))


@router.post("/{ref}/retry", responses=_JOB)
async def retry(request: Request, ref: str, body: RetryRequest) -> Answer:
    """Queues failed items again, with a fresh retry budget and their checkpoints."""
    service, caller = _parts(request)
    return Answer(await service.retry(ref, caller, items=body.items))


@router.post("/{ref}/hold", responses=_JOB)
async def hold(request: Request, ref: str) -> Answer:
    """Nothing more of it starts; what runs goes on."""
    service, caller = _parts(request)
    return Answer(await service.hold(ref, caller, held=True))


@router.post("/{ref}/release", responses=_JOB)
async def release(request: Request, ref: str) -> Answer:
    """Lets a held job go."""
    service, caller = _parts(request)
    return Answer(await service.hold(ref, caller, held=False))


async def _lines(news: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    try:
        async for line in news:
            yield json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    except asyncio.CancelledError:  # the daemon stops or the client left: the stream just ends
        return
