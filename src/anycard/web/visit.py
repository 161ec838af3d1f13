"""One request of somebody who is logged in: what a page's code may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from anycard.api.system import System
from anycard.config import Paths
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.jobfiles import JobFiles
from anycard.jobs.readings import CardReadings
from anycard.jobs.service import Jobs
from anycard.web.sessions import Session


@dataclass(frozen=True, slots=True)
class Services:
    """What pages show and do: the very services that answer the API. ``cookie`` is the name of this daemon's session cookie."""

    jobs: Jobs
    system: System
    dispatcher: Dispatcher
    readings: CardReadings
    files: JobFiles
    paths: Paths
    cookie: str


@dataclass(frozen=True, slots=True)
class Visit:
    """``caller`` has what the services want of one: uid, gid, user, admin."""

    request: Request
    caller: Session
    services: Services

    @property
    def jobs(self) -> Jobs:
        return self.services.jobs

    @property
    def system(self) -> System:
        return self.services.system

    @property
    def files(self) -> JobFiles:
        return self.services.files

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of the form that was sent; its token was checked already."""
        fields: Mapping[str, str] = self.request.scope["state"].get("form", {})
        return fields

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)


def visit(request: Request) -> Visit:
    """Only for addresses behind the guard: there is a session."""
    session: Any = request.scope["state"]["session"]
    return Visit(request, session, request.app.state.services)
