"""/page/stream: what a page follows; /page/session: whether it still may."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from anycard.web.visit import visit

router = APIRouter()


@router.get("/page/stream")
async def stream(request: Request, topics: str = "", last: str = "") -> Response:
    who = visit(request)
    marks = request.headers.get("last-event-id") or last
    events = await request.app.state.hub.stream(who.caller, [name for name in topics.split(",") if name], marks)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.get("/page/session")
async def session(request: Request) -> Response:
    return Response(status_code=204)
