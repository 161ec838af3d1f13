"""Why an attempt ended: a closed list, and what follows from each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EndReason(StrEnum):
    SUCCEEDED = "succeeded"
    PROGRAM_ERROR = "program-error"
    BAD_INPUT = "bad-input"  # said by the program: exit 65 or anycard.bad_input(...); never guessed
    OUT_OF_MEMORY = "out-of-memory"
    TIME_LIMIT = "time-limit"
    MAX_RELEASED = "max-released"
    IDLE_RELEASED = "idle-released"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    CARD_LOST = "card-lost"
    HOST_LOST = "host-lost"
    SPOT_RECLAIMED = "spot-reclaimed"
    SETUP_FAILED = "setup-failed"
    START_FAILED = "start-failed"
    UPSTREAM_FAILED = "upstream-failed"
    DISK_FULL = "disk-full"
    OUTCOME_UNKNOWN = "outcome-unknown"


@dataclass(frozen=True, slots=True)
class Consequence:
    """``retry``: "never", "asked" (only if the job file's retry rule names it, or names nothing and ``default_retry``), or "free"
    (always, not on the user's budget). ``other_card``: the next attempt avoids the cards of this one. ``billed``: the grant is metered
    to the user."""

    retry: str
    default_retry: bool = False
    other_card: bool = False
    billed: bool = True


CONSEQUENCES: dict[EndReason, Consequence] = {
    EndReason.SUCCEEDED: Consequence("never"),
    EndReason.PROGRAM_ERROR: Consequence("asked", default_retry=True),
    EndReason.BAD_INPUT: Consequence("never"),
    EndReason.OUT_OF_MEMORY: Consequence("asked", default_retry=True),
    EndReason.TIME_LIMIT: Consequence("asked"),
    EndReason.MAX_RELEASED: Consequence("never"),
    EndReason.IDLE_RELEASED: Consequence("never"),
    EndReason.CANCELLED: Consequence("never"),
    EndReason.PREEMPTED: Consequence("free", billed=True),
    EndReason.CARD_LOST: Consequence("free", other_card=True, billed=False),
    EndReason.HOST_LOST: Consequence("free", billed=False),
    EndReason.SPOT_RECLAIMED: Consequence("free", billed=True),
    EndReason.SETUP_FAILED: Consequence("asked"),
    EndReason.START_FAILED: Consequence("asked", billed=False),
    EndReason.UPSTREAM_FAILED: Consequence("never", billed=False),
    EndReason.DISK_FULL: Consequence("free", billed=False),
    EndReason.OUTCOME_UNKNOWN: Consequence("asked", billed=True),
}
