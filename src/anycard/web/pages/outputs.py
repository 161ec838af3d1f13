"""/jobs/JOB/outputs: what succeeded items wrote, to look through and to take."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote_to_bytes

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from anycard.errors import NotFoundError
from anycard.web.render import page
from anycard.web.visit import visit

router = APIRouter()

_CHUNK_BYTES = 256 * 1024
_ITEMS = 200  # of a page


@router.get("/jobs/{ref}/outputs")
async def listing(request: Request, ref: str, item: int | None = None, start: int = 0) -> Response:
    who = visit(request)
    row, numbers = await who.files.with_output(ref, who.caller)
    later = [number for number in numbers if number >= start]
    chosen = item if item is not None else (later[0] if later else None)
    files, more = ([], False) if chosen is None else await who.files.output_files(ref, who.caller, chosen)
    return page(
        request,
        "outputs.html",
        job={"id": row["id"], "name": row["name"]},
        numbers=later[:_ITEMS],
        next_start=later[_ITEMS] if len(later) > _ITEMS else None,
        start=start,
        item=chosen,
        files=[{"path": file.path, "size": file.size, "href": quote(os.fsencode(file.path))} for file in files],
        more=more,
    )


@router.get("/jobs/{ref}/outputs/{item}/{path:path}")
async def download(request: Request, ref: str, item: int, path: str) -> Response:
    """One file, always as an attachment: what a program wrote must not run as a page of ours."""
    who = visit(request)
    raw = request.scope.get("raw_path", b"").split(b"/", 5)  # "", jobs, JOB, outputs, ITEM, the file
    if len(raw) != 6:
        raise NotFoundError("there is no output {path}", path=path)
    descriptor = await who.files.open_output(ref, who.caller, item, unquote_to_bytes(raw[5]))
    name = quote(unquote_to_bytes(raw[5]).rpartition(b"/")[2])
    return StreamingResponse(
        _content(descriptor),
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Length": str(os.fstat(descriptor).st_size),
            "Content-Security-Policy": "default-src 'none'; sandbox",
        },
    )


async def _content(descriptor: int) -> AsyncIterator[bytes]:
    """As many bytes as were there when it began: a file that still grows would break what the header says."""
    left = os.fstat(descriptor).st_size
    try:
        while left > 0 and (chunk := await asyncio.to_thread(os.read, descriptor, min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
    finally:
        os.close(descriptor)
