"""The pages as one application. The daemon lets it answer whatever the API has no route for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from anycard.errors import AnycardError, NotFoundError, UsageError
from anycard.web.guard import Guard
from anycard.web.pages import MODULES, NAV
from anycard.web.render import ASSETS, page
from anycard.web.sessions import Sessions
from anycard.web.shared import Parts
from anycard.web.stream import Hub
from anycard.web.topics import MAKERS
from anycard.web.visit import Services

log = logging.getLogger("anycard.web")


class Pages:
    """``names`` are host names, beside the loopback's, under which the page is reached (a reverse proxy's)."""

    def __init__(self, services: Services, names: Iterable[str] = ()) -> None:
        self.sessions = Sessions(services.paths.home / "page-sessions", time.time)
        self.app = app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        app.state.services = services
        app.state.sessions = self.sessions
        app.state.hub = Hub(services, MAKERS)
        app.state.nav = NAV
        app.state.parts = Parts()
        for module in MODULES:
            app.include_router(module.router)
        app.mount("/assets", StaticFiles(directory=ASSETS))
        app.add_exception_handler(AnycardError, _for_people)
        app.add_exception_handler(RequestValidationError, _bad_address)
        app.add_exception_handler(HTTPException, _no_page)
        app.add_exception_handler(Exception, _ours)

        def refuse(scope: Scope, status: int, why: str) -> Response:
            return page(Request(scope), "refused.html", status=status, why=why)

        app.add_middleware(Guard, sessions=self.sessions, cookie=services.cookie, names=names, refuse=refuse)


async def _for_people(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnycardError)
    return page(request, "error.html", status=error.http_status, error=error)


async def _bad_address(request: Request, error: Exception) -> Response:
    return await _for_people(request, UsageError("{path} is not understood", path=request.url.path))


async def _no_page(request: Request, error: Exception) -> Response:
    """No such page, or a method that it does not know."""
    assert isinstance(error, HTTPException)
    told: AnycardError
    if error.status_code == 404:
        told = NotFoundError("there is nothing at {path}", path=request.url.path)
    elif error.status_code == 405:
        told = UsageError("{path} does not take {method}", path=request.url.path, method=request.method)
    else:
        told = UsageError("the request is not understood: {first}", first=error.detail)
    answer = await _for_people(request, told)
    answer.status_code = error.status_code
    return answer


async def _ours(request: Request, error: Exception) -> Response:
    log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    told = AnycardError("anycard itself failed: {error}", hint="the daemon's log says more", error=type(error).__name__)
    return await _for_people(request, told)
