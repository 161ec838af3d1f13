"""What was predicted of models, beside the truth."""

from __future__ import annotations

from pydantic import Field

from anycard.api.answers.base import Answer


class SizedPart(Answer):
    predicted_bytes: int
    measured_bytes: int


class SizedRun(Answer):
    """One run of a job whose file names its model: what was predicted, and the truth."""

    job: int
    at: str
    model: str
    task: str
    server: str | None
    device: str = Field(description="the cards' vendor, or cpu")
    card: str
    cards: int
    source: str = Field(description="printed (the server's own lines), card (the driver), or host (on the CPU)")
    predicted_bytes: int
    rest_bytes: int = Field(description="of it, what does not follow from the model alone: buffers, activations")
    low_bytes: int
    high_bytes: int
    measured_bytes: int
    error: float = Field(description="predicted over measured, less 1: below zero it was too small")
    inside: bool = Field(description="the truth lay between low and high")
    parts: dict[str, SizedPart]
    predicted_tokens_per_s: float | None
    measured_tokens_per_s: float | None


class LearntKind(Answer):
    """All runs of one kind on this host."""

    task: str
    server: str | None
    device: str
    runs: int
    mean_error: float = Field(description="of sizes, without sign")
    inside: float = Field(description="share of runs within the interval")
    factor: float = Field(description="median of truth over prediction of buffers and activations")
    used: bool = Field(description="predictions of this kind are corrected by it")
    rate_factor: float | None


class Sizing(Answer):
    schema_: str = Field(alias="schema", examples=["anycard.sizing/1"])
    learnt: list[LearntKind]
    runs: list[SizedRun] = Field(description="newest first")
