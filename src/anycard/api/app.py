"""The HTTP contract: FastAPI with a published OpenAPI document, one file a resource in routes/."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

import anycard
from anycard.api.caller import Gate
from anycard.api.routes import jobs, system
from anycard.api.system import System
from anycard.errors import AnycardError
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
    app.add_exception_handler(Exception, _ours)
    app.include_router(jobs.router)
    app.include_router(system.router)
    return app


async def _for_people(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AnycardError)
    faults = getattr(error, "faults_json", None)
    body = {"error": error.to_json(), "faults": faults() if faults is not None else []}
    return JSONResponse(body, status_code=error.http_status)


async def _bad_request(request: Request, error: Exception) -> JSONResponse:
    """A body or query of the wrong shape: what pydantic found, in the shape of every other error."""
    assert isinstance(error, RequestValidationError)
    faults = [{"where": ".".join(map(str, found["loc"])), "message": found["msg"]} for found in error.errors()]
    first = f"{faults[0]['where']}: {faults[0]['message']}" if faults else "?"
    message = {"code": "usage", "message": f"the request is not understood: {first}", "hint": None}
    return JSONResponse({"error": message, "faults": faults}, status_code=422)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    message = {"code": "internal", "message": f"anycard itself failed: {error!r}", "hint": "the daemon's log says more"}
    return JSONResponse({"error": message, "faults": []}, status_code=500)
