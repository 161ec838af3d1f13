"""What a page may follow by its stream."""

from __future__ import annotations

import secrets
from typing import Any

from anycard.web.sessions import Session
from anycard.web.stream import Hub, Maker, Topic

_LIFE = secrets.token_hex(3)  # versions count from 0 again in the next daemon's life


class _Queue:
    """``queue``: something about a job or a card changed; the page asks for what it shows."""

    def __init__(self, hub: Hub, mark: str) -> None:
        self._hub = hub
        self.mark = mark or self._now()

    def _now(self) -> str:
        return f"{_LIFE}.{self._hub.version}"

    async def news(self) -> list[dict[str, Any]]:
        now = self._now()
        if now == self.mark:
            return []
        self.mark = now
        return [{"version": self._hub.version}]

    def close(self) -> None:
        """Holds nothing."""


async def _queue(hub: Hub, who: Session, argument: str, mark: str) -> Topic:
    return _Queue(hub, mark)


MAKERS: dict[str, Maker] = {"queue": _queue}
