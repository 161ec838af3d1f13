"""/sizing: how much a model needs, where to run it, what that costs, and how right such predictions were here. The form is the address."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.errors import AnycardError
from anycard.i18n import N_
from anycard.model.card import Health
from anycard.web.nav import Entry
from anycard.web.render import page
from anycard.web.visit import visit

router = APIRouter()
NAV = Entry(N_("Sizing"), "/sizing", "z")

_FIELDS = (
    "model",
    "task",
    "context",
    "batch",
    "quant",
    "server",
    "cache",
    "card",
    "cards",
    "tokens",
    "buy",
    "watts",
    "kwh",
    "currency",
    "download_gb",
    "storage_gb",
    "kept",
    "out_gb",
)
_RUNS = 20


@router.get("/sizing")
async def sizing(request: Request) -> Response:
    from anycard.web.sizinganswer import answer_of, choices  # sizing and offers: not before somebody asks

    who = visit(request)
    given = {name: who.query(name) for name in _FIELDS}
    common = {"given": given, "learnt": await who.jobs.sizing(_RUNS), **choices()}
    if not given["model"].strip():
        return page(request, "sizing.html", answer=None, error=None, **common)
    host = [card for card in who.services.dispatcher.machine.cards if card.health is Health.OK]
    try:
        answer = await asyncio.to_thread(answer_of, given, host, who)
    except AnycardError as error:
        return page(request, "sizing.html", status=error.http_status, answer=None, error=error, **common)
    return page(request, "sizing.html", answer=answer, error=None, **common)
