"""Who asks something of jobs."""

from __future__ import annotations

from typing import Protocol


class Caller(Protocol):
    """Who asks; ``admin`` may act on everybody's jobs."""

    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def admin(self) -> bool: ...
