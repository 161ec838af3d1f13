"""What the doctor says."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anycard.api.answers.base import Answer
from anycard.api.answers.cards import CardsProblem


class DoctorPlace(Answer):
    source: str
    line: int


class DoctorStep(Answer):
    """``safe``: whole as it stands, takes nothing away, may be run again."""

    says: str
    says_msgid: str
    command: str | None
    safe: bool


class DoctorFinding(Answer):
    """A named cause with its proof."""

    cause: str = Field(description="a slug that `anycard doctor --explain` knows")
    family: str
    verdict: str
    certainty: float = Field(description="0 to 1; from 0.65 it stands alone, below 0.45 it is a hint")
    says: str
    says_msgid: str
    evidence: list[str] = Field(description="lines that it rests on")
    evidence_places: list[DoctorPlace]
    mend: list[str]
    steps: list[DoctorStep] = Field(description="the mend again, step by step")
    next_check: str | None
    authority: str


class DoctorFact(Answer):
    name: str
    value: str
    source: str
    line: int


class DoctorNote(Answer):
    msgid: str
    params: dict[str, Any]
    text: str


class DoctorAttempt(Answer):
    """Of a job's item: what anycard itself knows of its end."""

    job: int
    name: str
    items: int = Field(description="of the job")
    item: int
    state: str
    attempts: int
    reason: str | None
    reason_msgid: str | None
    reason_params: dict[str, Any] | None
    end_reason: str | None
    cause: str | None
    exit_code: int | None
    log: str


class Diagnosis(Answer):
    """What the doctor says, most likely first. ``cards`` and ``problems`` only of this host, ``attempt`` only of a job's item."""

    schema_: str = Field(alias="schema", examples=["anycard.doctor/1"])
    verdict: str = Field(description="fault, application, healthy, expected or undecided")
    next_check: str | None = Field(description="the one command that would settle it")
    findings: list[DoctorFinding]
    facts: list[DoctorFact]
    contradictions: list[DoctorNote] = Field(description="where the evidence disagrees with itself")
    cards: list[dict[str, Any]] | None = None
    problems: list[CardsProblem] | None = None
    attempt: DoctorAttempt | None = None
