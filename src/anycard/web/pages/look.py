"""/look: language and colours, remembered by the browser."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.web.guard import LANGUAGE_COOKIE, THEME_COOKIE
from anycard.web.render import see_other

router = APIRouter()

_YEAR_S = 365 * 86_400


@router.get("/look/language/{chosen}")
async def language(request: Request, chosen: Literal["en", "zh"], back: str = "/") -> Response:
    return _remembered(LANGUAGE_COOKIE, chosen, back)


@router.get("/look/theme/{chosen}")
async def theme(request: Request, chosen: Literal["light", "dark", "auto"], back: str = "/") -> Response:
    return _remembered(THEME_COOKIE, "" if chosen == "auto" else chosen, back)


def _remembered(cookie: str, value: str, back: str) -> Response:
    """``back`` must stay on this host: a browser reads // and /\\ as the begin of another."""
    here = back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
    answer = see_other(here)
    answer.set_cookie(cookie, value, max_age=_YEAR_S, samesite="lax", httponly=True)
    return answer
