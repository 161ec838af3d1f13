"""What every answer is, and what every error is."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Says exactly what is written in its class, nothing more."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ProblemError(Answer):
    code: str = Field(description="usage, not-found, conflict, forbidden, unavailable, internal ...")
    message: str
    hint: str | None
    msgid: str
    hint_msgid: str | None
    params: dict[str, Any]


class Problem(Answer):
    """Every error: ``code`` is stable, ``message`` and ``hint`` are for people, ``faults`` lists all that is wrong in a job file or a
    request."""

    error: ProblemError
    faults: list[dict[str, Any]]
