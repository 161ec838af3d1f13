"""/: the cards of this machine, now and over time."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.i18n import N_
from anycard.web.nav import Entry
from anycard.web.render import page, see_other
from anycard.web.visit import visit

router = APIRouter()
NAV = Entry(N_("Cards"), "/cards", "c")


@router.get("/")
async def home(request: Request) -> Response:
    return see_other("/cards")


@router.get("/cards")
async def cards(request: Request) -> Response:
    return page(request, "cards.html", seen=await visit(request).system.cards())


@router.get("/cards/now")
async def now(request: Request) -> Response:
    return page(request, "parts/cards.html", seen=await visit(request).system.cards())
