"""What a job made of its cards."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anycard.api.answers.base import Answer


class IdleStretch(Answer):
    since: str
    until: str
    cause: str = Field(description="what the CPU did: cpu-bound, storage-bound, waiting, unknown")


class ReportCard(Answer):
    """A card while the job held it. Shares are of the time that was seen."""

    card: str
    name: str | None
    holds: int = Field(description="attempts that held it")
    held_s: float
    seen_s: float
    utilisation: float | None
    idle_s: float
    idle_share: float | None
    idle_before_s: float = Field(description="of idle_s: before a hold's first use of the card")
    idle_after_s: float = Field(description="of idle_s: after its last")
    idle_between_s: dict[str, float] = Field(description="the rest of idle_s, by cause")
    idle_stretches: list[IdleStretch] = Field(description="the longest")
    memory_peak_bytes: int | None
    memory_total_bytes: int | None
    near_cap_s: float
    near_cap_share: float | None = Field(description="at 95 % of the memory or more")
    throttled_s: float
    throttled_share: float | None
    throttle_reasons_s: dict[str, float]
    temperature_peak_c: float | None
    power_w: float | None = Field(description="the mean")


class ReportFinding(Answer):
    """Something worth knowing, in words, and what to change."""

    kind: str
    text: str
    msgid: str
    params: dict[str, Any]
    advice: str | None
    advice_msgid: str | None
    advice_params: dict[str, Any] | None
    share: float | None = Field(description="of the time, on the first of its cards")
    cards: list[str] = Field(description="of which it is true, the worst first; none: of the CPU")


class Report(Answer):
    """What a job made of its cards, so far or in all."""

    schema_: str = Field(alias="schema", examples=["anycard.report/1"])
    job: int
    name: str
    state: str
    since: str | None
    until: str | None
    step_s: float | None = Field(description="what one reading stands for")
    cards: list[ReportCard]
    cpus: float | None = Field(description="granted, the mean over its time")
    cpu_cores: float | None = Field(description="kept busy, the mean")
    findings: list[ReportFinding]
