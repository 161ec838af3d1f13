"""/v1: the machine's cards, the daemon itself, prune, backup, down."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse

from anycard.api.caller import Caller
from anycard.api.shapes import BackupRequest, DownRequest, Problem, PruneRequest
from anycard.api.system import System
from anycard.errors import ForbiddenError

router = APIRouter(prefix="/v1", tags=["system"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})


def _parts(request: Request) -> tuple[System, Caller]:
    state = request.app.state
    return state.system, state.gate.caller(request)


@router.get("/cards")
async def cards(request: Request) -> JSONResponse:
    """Every card of this host, the CPU among them, with what is seen of it and who holds it."""
    system, _ = _parts(request)
    return JSONResponse(await system.cards())


@router.get("/status")
async def status(request: Request) -> JSONResponse:
    """The daemon itself."""
    system, _ = _parts(request)
    return JSONResponse(await system.status())


@router.post("/prune")
async def prune(request: Request, body: PruneRequest) -> JSONResponse:
    """Removes logs, outputs and checkpoints of jobs that ended longer ago than asked; never of open ones."""
    system, caller = _parts(request)
    _only_admin(caller)
    return JSONResponse(await system.prune(body.older_than_s, dry_run=body.dry_run))


@router.post("/backup")
async def backup(request: Request, body: BackupRequest) -> JSONResponse:
    """Writes a consistent copy of the store."""
    system, caller = _parts(request)
    _only_admin(caller)
    return JSONResponse(await system.backup(body.path))


@router.post("/down")
async def down(request: Request, body: Annotated[DownRequest, Body(default_factory=DownRequest)]) -> JSONResponse:
    """Ends the daemon. What runs goes on and is found again by the next one, or is stopped first."""
    system, caller = _parts(request)
    _only_admin(caller)
    return JSONResponse(await system.down(stop_attempts=body.attempts == "stop"))


def _only_admin(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only the user that the daemon runs as, or root, may do this")
