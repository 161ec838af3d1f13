"""The JSON shapes of the API, as the published OpenAPI document shows them. Sizes in bytes, lengths in seconds, times RFC 3339 UTC."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class SubmitRequest(BaseModel):
    """A job file's text, or a command; where the submitter stands; what the command line adds. Exactly one of file and command."""

    model_config = ConfigDict(extra="forbid")

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


class SubmittedJob(BaseModel):
    id: int
    name: str
    n_items: int


class Submitted(BaseModel):
    schema_: str = Field("anycard.submitted/1", alias="schema")
    jobs: list[SubmittedJob]
    ignored: list[str]
    warnings: list[str]


class CancelRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    item: int | None = Field(None, ge=0)


class RetryRequest(BaseModel):
    """``failed``: all that failed or were cancelled; or these ``items``."""

    model_config = ConfigDict(extra="forbid")
    failed: bool = False
    items: list[int] | None = Field(None, min_length=1, max_length=1_000_000)


class PruneRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    older_than_s: float = Field(ge=0)
    dry_run: bool = False


class BackupRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str = Field(min_length=1, description="absolute path on the daemon's host")


class DownRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    attempts: str = Field(
        "leave", pattern="^(leave|stop)$", description="leave: they go on and are found again; stop: ended first"
    )


class Problem(BaseModel):
    """Every error: ``code`` is stable, ``message`` and ``hint`` are for people, ``faults`` lists all that is wrong in a job file."""

    error: dict[str, Any]
    faults: list[dict[str, Any]] = []
