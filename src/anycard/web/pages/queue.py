"""/queue: when is it whose turn, and why not now."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.i18n import N_
from anycard.web.nav import Entry
from anycard.web.render import page, render
from anycard.web.shared import Parts
from anycard.web.visit import visit

router = APIRouter()
NAV = Entry(N_("Queue"), "/queue", "q")


@router.get("/queue")
async def queue(request: Request, after: int = 0) -> Response:
    return page(request, "queue.html", **await visit(request).jobs.queue(after=after, limit=100))


@router.get("/queue/now")
async def now(request: Request, after: int = 0) -> Response:
    async def made() -> str:
        return render(request, "parts/queue.html", **await visit(request).jobs.queue(after=after, limit=100))

    parts: Parts = request.app.state.parts
    return await parts.answer(request, made)
