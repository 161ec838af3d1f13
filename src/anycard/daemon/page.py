"""Where the page is reached: a port on the loopback, and names that the configuration adds. Its code is loaded when somebody looks."""

from __future__ import annotations

import functools
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from anycard.api.caller import Caller
from anycard.api.server import listen_loopback
from anycard.api.system import System
from anycard.config import Paths, configuration
from anycard.errors import UnavailableError, UsageError
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.files import write_private
from anycard.jobs.readings import CardReadings
from anycard.jobs.service import Jobs

if TYPE_CHECKING:
    from anycard.web.app import Pages

log = logging.getLogger("anycard.daemon")

PORT = 7411  # unassigned at IANA; another when it is taken, and then the same one at every start of this home
_API = ("v1", "metrics")  # first parts of paths that no page ever answers


def page_settings(configuration: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """``[page]`` of the configuration: (port or None, names). UsageError for what cannot be meant."""
    told = configuration.get("page", {})
    if not isinstance(told, Mapping) or not set(told) <= {"port", "names"}:
        raise UsageError("[page] of the configuration takes port and names")
    port, names = told.get("port"), told.get("names", [])
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise UsageError("[page] port: {given} is no port", given=port)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise UsageError('[page] names: it is a list of host names, like ["gpu.example.com"]')
    return port, tuple(name.lower() for name in names)


def listen_for_page(where: Paths, port: int | None) -> socket.socket | None:
    """A loopback listener: at ``port`` (UnavailableError when that is taken), else where it was before, else at PORT, else anywhere. None
    where there is no loopback; the daemon then does without a page."""
    kept = where.home / "page-port"
    for candidate in (port,) if port is not None else (_kept(kept), PORT, 0):
        if candidate is None:
            continue
        try:
            listener = listen_loopback(candidate)
        except UnavailableError as error:
            if port is not None:
                raise
            log.info("the page: %s", error)
            continue
        found = listener.getsockname()[1]
        if found != candidate or not kept.exists():
            write_private(kept, f"{found}\n".encode())
        return listener
    log.warning("there is no page: no port of the loopback can be had")
    return None


def _kept(file: Path) -> int | None:
    try:
        port = int(file.read_text())
    except (OSError, ValueError):
        return None
    return port if 0 < port < 65536 else None


def open_page(
    where: Paths,
    app: FastAPI,
    jobs: Jobs,
    system: System,
    dispatcher: Dispatcher,
    readings: CardReadings,
    listeners: list[socket.socket],
) -> Page | None:
    """Puts the pages beside the API and adds their listener to ``listeners``, unless the API listens on the loopback already."""
    port, names = page_settings(configuration(where))
    reached = next((listener for listener in listeners if listener.family == socket.AF_INET), None)
    if reached is None:
        reached = listen_for_page(where, port)
        if reached is None:
            return None
        listeners.append(reached)
    page = Page(where, jobs, system, dispatcher, readings, f"http://127.0.0.1:{reached.getsockname()[1]}", names)
    page.beside(app)
    return page


class Page:
    """The pages beside an API: they answer what it has no route for."""

    def __init__(
        self,
        where: Paths,
        jobs: Jobs,
        system: System,
        dispatcher: Dispatcher,
        readings: CardReadings,
        address: str,
        names: tuple[str, ...],
    ) -> None:
        self._where = where
        self._jobs = jobs
        self._system = system
        self._dispatcher = dispatcher
        self._readings = readings
        self._address = address
        self._names = names

    def beside(self, api: FastAPI) -> None:
        nothing = api.router.default

        async def default(scope: Scope, receive: Receive, send: Send) -> None:
            theirs = scope["type"] != "http" or scope["path"].split("/", 2)[1] in _API
            await (nothing if theirs else self._pages.app)(scope, receive, send)

        api.router.default = default
        api.state.page_link = self.link

    def link(self, caller: Caller) -> dict[str, Any]:
        """PAGE_LINK: where ``caller`` may log in, once, within ``expires_in_s`` seconds."""
        from anycard.web.sessions import CODE_S

        code = self._pages.sessions.code(caller)
        return {
            "schema": "anycard.page-link/1",
            "url": f"{self._address}/login?code={code}",
            "address": self._address,
            "expires_in_s": CODE_S,
        }

    def end(self) -> None:
        """Ends what pages follow, before the server stops."""
        if "_pages" in self.__dict__:  # somebody looked
            self._pages.app.state.hub.end()

    @functools.cached_property
    def _pages(self) -> Pages:
        from anycard.jobs.jobfiles import JobFiles
        from anycard.web.app import Pages
        from anycard.web.visit import Services

        files = JobFiles(self._where, self._dispatcher.store, self._jobs)
        cookie = (
            f"anycard_{self._where.socket_name()[:8]}"  # cookies know no ports: each daemon of a host needs its own
        )
        services = Services(self._jobs, self._system, self._dispatcher, self._readings, files, self._where, cookie)
        return Pages(services, self._names)
