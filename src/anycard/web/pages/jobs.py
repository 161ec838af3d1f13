"""/jobs: every job there was, found by state, name and user, in any order; all of it in the address, so that a view can be sent on."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.i18n import N_
from anycard.store.ordering import JOB_SORTS
from anycard.web.nav import Entry
from anycard.web.render import page, render
from anycard.web.shared import Parts
from anycard.web.tables import sorted_table
from anycard.web.visit import Visit, visit

router = APIRouter()
NAV = Entry(N_("Jobs"), "/jobs", "j")
_ROWS = 50


@router.get("/jobs")
async def jobs(request: Request) -> Response:
    return page(request, "jobs.html", **await _found(visit(request)))


@router.get("/jobs/now")
async def now(request: Request) -> Response:
    async def made() -> str:
        return render(request, "parts/jobs.html", **await _found(visit(request)))

    parts: Parts = request.app.state.parts
    return await parts.answer(request, made)


async def _found(who: Visit) -> dict[str, Any]:
    asked = {name: who.query(name).strip() for name in ("state", "name", "user", "cursor")}
    kept = {name: asked[name] for name in ("state", "name", "user")}
    table = sorted_table(who, JOB_SORTS, path="/jobs", usual="id", down=True, kept=kept)
    found = await who.jobs.page(
        state=asked["state"] or None,
        user=asked["user"] or None,
        name=asked["name"] or None,
        cursor=asked["cursor"] or None,
        limit=_ROWS,
        sort=table.asked,
    )
    return {"asked": asked, "table": table, **found}
