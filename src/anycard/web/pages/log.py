"""/jobs/JOB/log/ITEM: a log a part at a time, searched, and as it is."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from anycard.jobs import logparts
from anycard.jobs.jobfiles import attempt_of, part
from anycard.web.visit import visit

router = APIRouter()

_searching = asyncio.Semaphore(
    2
)  # a log may have gigabytes: searches must not take all the threads that commits need, too

Byte = Annotated[int | None, Query(ge=0, le=2**53)]


@router.get("/jobs/{ref}/log/{item}")
async def lines(
    request: Request, ref: str, item: int, attempt: Byte = None, before: Byte = None, after: Byte = None
) -> Response:
    """LOG_PART (jobs/jobfiles.py): the end of the log, what stands before a byte, or after one."""
    who = visit(request)
    log = await who.files.log(ref, who.caller, item=item, attempt=attempt)
    found = await part(log, before=before, after=after)
    return JSONResponse({**found, "attempt": None if log is None else attempt_of(log)})


@router.get("/jobs/{ref}/log/{item}/find")
async def find(request: Request, ref: str, item: int, q: str = "", attempt: Byte = None) -> Response:
    """{hits: [[byte, text]], more}: the last lines that hold ``q``."""
    who = visit(request)
    log = await who.files.log(ref, who.caller, item=item, attempt=attempt)
    async with _searching:
        if log is None or await request.is_disconnected():
            return JSONResponse({"hits": [], "more": False})
        hits, more = await asyncio.to_thread(logparts.find, log, q[:200])
    return JSONResponse({"hits": [[hit.at, hit.text] for hit in hits], "more": more})


@router.get("/jobs/{ref}/log/{item}/raw")
async def raw(request: Request, ref: str, item: int, attempt: Byte = None) -> Response:
    """The bytes, to keep."""
    who = visit(request)
    chunks = await who.jobs.log(ref, who.caller, item=item, attempt=attempt, follow=False, tail=None)
    name = f"job-{ref}-{item}.log" if ref.isdigit() else "job.log"
    return StreamingResponse(
        chunks,
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
