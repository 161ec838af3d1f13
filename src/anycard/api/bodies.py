"""Answers and bodies as they go over the wire: JSON in ASCII, and no body larger than any honest request."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anycard.api.caller import Gate
from anycard.errors import AnycardError, ForbiddenError

MAX_BODY_BYTES = 40 * 2**20  # a job file of 16 MiB, each character of it escaped
STRANGERS_BODY_BYTES = 64 * 1024  # of whoever the gate will turn away: bodies are read before it is asked


class Answer(JSONResponse):
    """ASCII: names of files may hold bytes that are no text, and travel as escaped lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def problem_json(error: AnycardError) -> dict[str, Any]:
    """The one form of every error."""
    faults = getattr(error, "faults_json", None)
    return {"error": error.to_json(), "faults": faults() if faults is not None else []}


class LimitBodies:
    """Refuses a body larger than MAX_BODY_BYTES (413): by what its header says, or as soon as more has come. ``gate`` raises ForbiddenError
    for who may not call the API; of them it takes STRANGERS_BODY_BYTES."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = b"0"
        if scope["type"] == "http":
            told = next((value for name, value in scope["headers"] if name == b"content-length"), told)
        most = left = self._most(scope)

        async def limited() -> Message:
            nonlocal left
            if int(told) > most:
                raise _too_large(most)
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _too_large(most)
            return message

        await self._app(scope, limited, send)

    def _most(self, scope: Scope) -> int:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            try:
                self._gate.caller(Request(scope))
            except ForbiddenError:
                return STRANGERS_BODY_BYTES
        return MAX_BODY_BYTES


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"its body is larger than {most} bytes", headers={"Connection": "close"})
