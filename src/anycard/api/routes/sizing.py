"""/v1/sizing: how well predictions of what models need held on this host."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from anycard.api.answers import Problem, Sizing
from anycard.api.bodies import Answer
from anycard.jobs.service import Jobs

router = APIRouter(prefix="/v1", tags=["sizing"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})


@router.get("/sizing", responses={200: {"model": Sizing}})
async def sizing(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Answer:
    """Predictions beside the truth of runs whose job file names its model, and what they teach."""
    request.app.state.gate.caller(request)
    service: Jobs = request.app.state.service
    return Answer(await service.sizing(limit))
