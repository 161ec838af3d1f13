"""Answers and bodies as they go over the wire: JSON in ASCII, and no body larger than any honest request."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anycard.errors import AnycardError

MAX_BODY_BYTES = 40 * 2**20  # a job file of 16 MiB, each character of it escaped


class Answer(JSONResponse):
    """ASCII: names of files may hold bytes that are no text, and travel as escaped lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def problem_json(error: AnycardError) -> dict[str, Any]:
    """The one form of every error."""
    faults = getattr(error, "faults_json", None)
    return {"error": error.to_json(), "faults": faults() if faults is not None else []}


class LimitBodies:
    """Refuses a body larger than MAX_BODY_BYTES (413): by what its header says, or as soon as more has come."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = b"0"
        if scope["type"] == "http":
            told = next((value for name, value in scope["headers"] if name == b"content-length"), told)
        left = MAX_BODY_BYTES

        async def limited() -> Message:
            nonlocal left
            if int(told) > MAX_BODY_BYTES:
                raise _TOO_LARGE
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _TOO_LARGE
            return message

        await self._app(scope, limited, send)


_TOO_LARGE = HTTPException(413, f"its body is larger than {MAX_BODY_BYTES} bytes", headers={"Connection": "close"})
