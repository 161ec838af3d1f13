"""/login: a one-time code becomes a session. /logout: it ends."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.web.render import page, see_other
from anycard.web.sessions import SESSION_S
from anycard.web.visit import visit

router = APIRouter()


@router.get("/login")
async def login(request: Request, code: str = "") -> Response:
    """Answers with a page that goes on by itself, not with a redirect: a browser sends the new SameSite=Strict cookie only with a request
    that our own page began."""
    state = request.app.state
    cookie = state.sessions.redeem(code) if code else None
    if cookie is None:
        if request.scope["state"]["session"] is not None:
            return see_other("/")
        return page(request, "refused.html", status=403, why="code" if code else "session")
    answer = page(request, "welcome.html")
    answer.set_cookie(
        state.services.cookie,
        cookie,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=request.headers.get("x-forwarded-proto") == "https",
    )
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    services = visit(request).services
    request.app.state.sessions.end(request.scope["state"]["cookies"].get(services.cookie, ""))
    answer = see_other("/login")
    answer.delete_cookie(services.cookie, httponly=True, samesite="strict")
    return answer
