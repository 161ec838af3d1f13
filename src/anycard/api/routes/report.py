"""/v1/jobs/REF/report: what a job made of its cards."""

from __future__ import annotations

from fastapi import APIRouter, Request

from anycard.api.answers import Problem, Report
from anycard.api.bodies import Answer
from anycard.jobs.report.making import job_report

router = APIRouter(prefix="/v1", tags=["jobs"], responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}})


@router.get("/jobs/{ref}/report", responses={200: {"model": Report}})
async def report(request: Request, ref: str) -> Answer:
    """How long its cards idled and why, memory against capacity, throttling, and what to change; of a running job so far."""
    state = request.app.state
    return Answer(await job_report(state.service, state.readings, ref, state.gate.caller(request)))
