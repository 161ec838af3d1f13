"""Parts of pages that everybody sees alike: when something changes, all who look ask for them at once, and they are made once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import HTMLResponse

from anycard import i18n

KEPT_S = 1.0  # what a part says of durations and readings is at most so old
_MANY = 64  # addresses and languages; the oldest goes first


@dataclass(frozen=True, slots=True)
class _Made:
    mark: str
    at: float
    html: asyncio.Future[str]


class Parts:
    """Of one application, in ``app.state.parts``."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], _Made] = {}

    async def answer(self, request: Request, make: Callable[[], Awaitable[str]]) -> HTMLResponse:
        """What ``make`` renders for this address and language, unless it was made a moment ago and nothing changed since. Only for what
        depends on neither the visitor nor their session."""
        key = (f"{request.url.path}?{request.url.query}", i18n.language())
        mark, at = request.app.state.hub.mark, asyncio.get_running_loop().time()
        made = self._made.get(key)
        if made is None or made.mark != mark or at - made.at > KEPT_S:
            made = self._made[key] = _Made(mark, at, asyncio.ensure_future(make()))
            while len(self._made) > _MANY:
                del self._made[next(iter(self._made))]
        return HTMLResponse(await asyncio.shield(made.html))
