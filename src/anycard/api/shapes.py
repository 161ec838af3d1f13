"""What the API is asked, as the published OpenAPI document shows it. Sizes in bytes, lengths in seconds. Unknown fields are errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _only_text(cls, value: Any) -> Any:
        """JSON can spell half a surrogate pair and NUL: no program, file system or database takes those."""
        _check_text(value)
        return value


def _check_text(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("text must not hold the character NUL")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("text must be Unicode; it holds half a surrogate pair") from error
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_text(key)
            _check_text(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_text(inner)


class SubmitRequest(_Request):
    """A job file's text, or a command; where the submitter stands; what the command line adds. Exactly one of file and command."""

    file: str | None = Field(None, max_length=16 * 2**20, description="the job file's text")
    file_name: str | None = Field(None, description="its name, for fault messages and relative paths")
    command: list[str] | None = Field(None, min_length=1)
    name: str | None = None
    cwd: str = Field(description="absolute folder in which the submitter stands")
    env: dict[str, str] = Field(default_factory=dict)
    umask: int = Field(0o022, ge=0, le=0o777)
    options: dict[str, Any] = Field(
        default_factory=dict, description="cpus, memory, accelerators, priority, held, time_limit ..."
    )
    given: dict[str, str] = Field(default_factory=dict, description="values for envs that the file leaves open")
    submit_key: str = Field(
        min_length=8, max_length=128, pattern="^[A-Za-z0-9_-]+$", description="the same key again is the same job"
    )


class SubmitManyRequest(_Request):
    """Several submissions in one request: what a sweep or a client with many jobs sends."""

    submissions: list[SubmitRequest] = Field(min_length=1, max_length=200)


class CancelRequest(_Request):
    item: int | None = Field(None, ge=0)


class RetryRequest(_Request):
    """``failed``: all that failed or were cancelled; or these ``items``."""

    failed: bool = False
    items: list[int] | None = Field(None, min_length=1, max_length=1_000_000)


class PruneRequest(_Request):
    older_than_s: float = Field(ge=0, allow_inf_nan=False)
    dry_run: bool = False


class BackupRequest(_Request):
    path: str = Field(min_length=1, description="absolute path on the daemon's host")


class DownRequest(_Request):
    attempts: str = Field(
        "leave", pattern="^(leave|stop)$", description="leave: they go on and are found again; stop: ended first"
    )
