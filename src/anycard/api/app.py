"""The HTTP contract: FastAPI with a published OpenAPI document, one file a resource in routes/."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import anycard
from anycard.api.bodies import Answer, LimitBodies, problem_json
from anycard.api.caller import Gate
from anycard.api.routes import doctor, jobs, metrics, readings, report, sizing, system
from anycard.api.system import System
from anycard.errors import AnycardError, NotFoundError, UsageError
from anycard.jobs.service import Jobs

log = logging.getLogger("anycard.api")


def create_app(service: Jobs, machine: System, gate: Gate) -> FastAPI:
    app = FastAPI(
        title="anycard",
        version=anycard.__version__,
        description="One task, any card. Errors are {error, faults}; money is a string; times are RFC 3339 UTC.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service = service
    app.state.system = machine
    app.state.gate = gate
    app.add_exception_handler(AnycardError, _for_people)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _ours)
    app.include_router(jobs.router)
    app.include_router(doctor.router)
    app.include_router(sizing.router)
    app.include_router(readings.router)
    app.include_router(report.router)
    app.include_router(metrics.router)
    app.include_router(system.router)
    app.add_middleware(LimitBodies, gate=gate)
    return app


async def _for_people(request: Request, error: Exception) -> Answer:
    assert isinstance(error, AnycardError)
    return Answer(problem_json(error), status_code=error.http_status)


async def _bad_request(request: Request, error: Exception) -> Answer:
    """A body or query of the wrong shape: what pydantic found, in the shape of every other error."""
    assert isinstance(error, RequestValidationError)
    faults = [{"where": ".".join(map(str, found["loc"])), "message": found["msg"]} for found in error.errors()]
    first = f"{faults[0]['where']}: {faults[0]['message']}" if faults else "?"
    return _problem(UsageError("the request is not understood: {first}", first=first), 422, faults)


async def _no_route(request: Request, error: Exception) -> Answer:
    """No such address, a method it does not know, or a body that is no JSON."""
    assert isinstance(error, HTTPException)
    told: AnycardError
    if error.status_code == NotFoundError.http_status:
        told = NotFoundError("there is nothing at {path}", path=request.url.path)
    elif error.status_code == 405:
        told = UsageError("{path} does not take {method}", path=request.url.path, method=request.method)
    else:
        told = UsageError("the request is not understood: {first}", first=error.detail)
    return _problem(told, error.status_code, [], error.headers)


async def _ours(request: Request, error: Exception) -> Answer:
    log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    told = AnycardError("anycard itself failed: {error}", hint="the daemon's log says more", error=repr(error))
    return _problem(told, 500, [])


def _problem(
    error: AnycardError, status: int, faults: list[dict[str, object]], headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer({"error": error.to_json(), "faults": faults}, status_code=status, headers=headers)
