"""/metrics, where Prometheus looks for it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.api.metrics import CONTENT_TYPE

_PROBLEM = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
router = APIRouter(tags=["system"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        "4XX": {"description": "Client Error", **_PROBLEM},
        "5XX": {"description": "Server Error", **_PROBLEM},
    },
)
async def metrics(request: Request) -> Response:
    """Cards, the queue and the daemon for Prometheus, in its text format."""
    state = request.app.state
    state.gate.caller(request)
    return Response(await state.system.metrics(state.readings), media_type=CONTENT_TYPE)
