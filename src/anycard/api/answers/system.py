"""The daemon itself: how it is, prune, backup, the page's login, its end."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anycard.api.answers.base import Answer


class Status(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.status/1"])
    version: str
    pid: int
    home: str
    mode: str = Field(description="personal or shared")
    started_at: str
    uptime_s: float
    paused: str | None = Field(description="why nothing starts")
    paused_msgid: str | None
    paused_params: dict[str, Any] | None
    damage: str | None = Field(description="of the store")
    damage_msgid: str | None
    damage_params: dict[str, Any] | None
    jobs: dict[str, int] = Field(description="how many are in each state")
    attempts_running: int
    engine: str
    store: str


class PruneFailure(Answer):
    path: str
    reason: str


class Pruned(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.pruned/1"])
    dry_run: bool
    jobs: list[int]
    freed_bytes: int
    logs_bytes: int
    outputs_bytes: int
    environments_bytes: int
    failed: list[PruneFailure]


class BackedUp(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.backup/1"])
    path: str
    bytes: int


class PageLink(Answer):
    """PAGE_LINK: a login to the page."""

    schema_: str = Field(alias="schema", examples=["anycard.page-link/1"])
    url: str = Field(description="opens the page, once")
    address: str = Field(description="of the page, for those who are logged in")
    expires_in_s: float


class Down(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.down/1"])
    pid: int
    attempts_running: int
