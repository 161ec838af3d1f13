"""The states of items and jobs, and how a job's state follows from its items'."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ItemState(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobState(StrEnum):
    QUEUED = "queued"  # open, nothing of it runs
    RUNNING = "running"  # open, something runs
    SUCCEEDED = "succeeded"
    PARTLY_FAILED = "partly-failed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_JOB_STATES = frozenset({JobState.QUEUED, JobState.RUNNING})


@dataclass(slots=True)
class Counts:
    """Items of a job by what they are; ``running`` holds starting, running and stopping."""

    queued: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def open(self) -> int:
        return self.queued + self.running

    @property
    def total(self) -> int:
        return self.open + self.succeeded + self.failed + self.cancelled


def job_state(counts: Counts) -> JobState:
    """Open while any item is open; then succeeded (all), cancelled (any cancelled), failed (none succeeded), partly-failed."""
    if counts.running:
        return JobState.RUNNING
    if counts.queued:
        return JobState.QUEUED
    if counts.cancelled:
        return JobState.CANCELLED
    if not counts.failed:
        return JobState.SUCCEEDED
    return JobState.PARTLY_FAILED if counts.succeeded else JobState.FAILED
