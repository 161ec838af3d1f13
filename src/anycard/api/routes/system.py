"""/v1: the machine's cards, the daemon itself, prune, backup, down."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request

from anycard.api.answers import BackedUp, Cards, Down, PageLink, Problem, Pruned, Status
from anycard.api.bodies import Answer
from anycard.api.caller import Caller
from anycard.api.shapes import BackupRequest, DownRequest, PruneRequest
from anycard.api.system import System
from anycard.errors import ForbiddenError, UnavailableError

router = APIRouter(prefix="/v1", tags=["system"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})


def _parts(request: Request) -> tuple[System, Caller]:
    state = request.app.state
    return state.system, state.gate.caller(request)


@router.get("/cards", responses={200: {"model": Cards}})
async def cards(request: Request) -> Answer:
    """Every card of this host, the CPU among them, with what is seen of it and who holds it."""
    system, _ = _parts(request)
    return Answer(await system.cards())


@router.get("/status", responses={200: {"model": Status}})
async def status(request: Request) -> Answer:
    """The daemon itself."""
    system, _ = _parts(request)
    return Answer(await system.status())


@router.post("/prune", responses={200: {"model": Pruned}})
async def prune(request: Request, body: PruneRequest) -> Answer:
    """Removes logs, outputs and checkpoints of jobs that ended longer ago than asked; never of open ones."""
    system, caller = _parts(request)
    _only_admin(caller)
    return Answer(await system.prune(body.older_than_s, dry_run=body.dry_run))


@router.post("/backup", responses={200: {"model": BackedUp}})
async def backup(request: Request, body: BackupRequest) -> Answer:
    """Writes a consistent copy of the store."""
    system, caller = _parts(request)
    _only_admin(caller)
    return Answer(await system.backup(body.path))


@router.post("/page-link", responses={200: {"model": PageLink}})
async def page_link(request: Request) -> Answer:
    """An address at which the caller may log in to the page: once, within a quarter of an hour."""
    _, caller = _parts(request)
    link = getattr(request.app.state, "page_link", None)
    if link is None:
        raise UnavailableError("this daemon has no page: no port of the loopback could be had")
    return Answer(link(caller))


@router.post("/down", responses={200: {"model": Down}})
async def down(request: Request, body: Annotated[DownRequest, Body(default_factory=DownRequest)]) -> Answer:
    """Ends the daemon. What runs goes on and is found again by the next one, or is stopped first."""
    system, caller = _parts(request)
    _only_admin(caller)
    return Answer(await system.down(stop_attempts=body.attempts == "stop"))


def _only_admin(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only the user that the daemon runs as, or root, may do this")
