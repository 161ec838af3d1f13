"""/doctor: why does it not work. This host, a log that is pasted, a bundle that is dropped, or a job's own log."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from anycard.errors import AnycardError, UsageError
from anycard.i18n import N_
from anycard.jobs.evidence import diagnose_evidence, diagnose_host
from anycard.jobs.jobdoctor import job_diagnosis
from anycard.web.nav import Entry
from anycard.web.render import page
from anycard.web.visit import visit

router = APIRouter()
NAV = Entry(N_("Doctor"), "/doctor", "d")

_EMPTY = UsageError("there is nothing in it", hint="send a log, an archive of logs or a bundle")


@router.get("/doctor")
async def form(request: Request) -> Response:
    return page(request, "doctor.html", given="", seen=None, error=None)


@router.post("/doctor")
async def pasted(request: Request) -> Response:
    """The form again, with the diagnosis of what was pasted into it."""
    given = visit(request).form.get("log", "").replace("\r\n", "\n")
    try:
        seen = await _diagnosed(given.encode("utf-8", "replace"))
    except AnycardError as error:
        return page(request, "doctor.html", status=error.http_status, given=given, seen=None, error=error)
    return page(request, "doctor.html", given=given, seen=seen, error=None)


@router.post("/doctor/evidence")
async def dropped(request: Request) -> Response:
    """A file's bytes as the body: a part of the page."""
    try:
        seen = await _diagnosed(await request.body())
    except ClientDisconnect:
        return Response(status_code=400)  # the visitor stopped it
    except AnycardError as error:
        return page(request, "parts/diagnosis.html", status=error.http_status, seen=None, error=error)
    return page(request, "parts/diagnosis.html", seen=seen, error=None)


@router.get("/doctor/host")
async def host(request: Request) -> Response:
    visit(request)
    try:
        return page(request, "parts/diagnosis.html", seen=await diagnose_host(), error=None)
    except (
        AnycardError
    ) as error:  # in the place of the answer; with another status the browser would leave the place as it is
        return page(request, "parts/diagnosis.html", seen=None, error=error)


@router.get("/doctor/jobs/{ref}")
async def job(request: Request, ref: str, item: int | None = None) -> Response:
    who = visit(request)
    seen = await job_diagnosis(who.jobs, who.services.readings, ref, who.caller, item=item)
    return page(request, "doctor_job.html", seen=seen, error=None)


async def _diagnosed(data: bytes) -> dict[str, Any]:
    if not data.strip():
        raise _EMPTY
    return await diagnose_evidence(data)
