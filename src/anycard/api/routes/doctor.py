"""/v1/doctor: why a card does not work, from this host, from evidence that is sent, or from a job's own log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect

from anycard.api.answers import Diagnosis, Problem
from anycard.api.bodies import Answer
from anycard.api.caller import Caller
from anycard.errors import UsageError
from anycard.jobs.evidence import diagnose_evidence, diagnose_host
from anycard.jobs.jobdoctor import job_diagnosis
from anycard.jobs.service import Jobs

router = APIRouter(prefix="/v1", tags=["doctor"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})
_DIAGNOSIS: dict[int | str, dict[str, Any]] = {200: {"model": Diagnosis}}
_EVIDENCE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _parts(request: Request) -> tuple[Jobs, Caller]:
    state = request.app.state
    return state.service, state.gate.caller(request)


@router.get("/doctor", responses=_DIAGNOSIS)
async def host(request: Request) -> Answer:
    """This host, as `anycard doctor` sees it: its cards, what is wrong, how to mend it."""
    _parts(request)
    return Answer(await diagnose_host())


@router.post("/doctor", responses=_DIAGNOSIS, openapi_extra=_EVIDENCE)
async def evidence(request: Request) -> Answer:
    """A log, an archive of logs or a bundle of `anycard capture`, as its bytes. Nothing of it is kept."""
    _parts(request)
    try:
        data = await request.body()
    except ClientDisconnect:
        raise UsageError("the request ended before its body did") from None
    if not data.strip():
        raise UsageError("there is nothing in it", hint="send a log, an archive of logs or a bundle")
    return Answer(await diagnose_evidence(data))


@router.get("/jobs/{ref}/doctor", responses=_DIAGNOSIS)
async def job(request: Request, ref: str, item: Annotated[int | None, Query(ge=0, le=2**53)] = None) -> Answer:
    """Why an item of a job ended as it did, or is slow: its last attempt's log and its cards' readings through the same rules. The first
    that failed, unless told."""
    service, caller = _parts(request)
    return Answer(await job_diagnosis(service, request.app.state.readings, ref, caller, item=item))
