"""A moment: UTC for people, boot clock and boot id for lengths, so that a stepped wall clock never changes a bill."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Instant:
    """``utc_s`` seconds since the epoch; ``boot_s`` seconds of CLOCK_BOOTTIME (includes suspend); ``boot_id`` names the boot."""

    utc_s: float
    boot_s: float
    boot_id: str

    @property
    def ahead_s(self) -> float:
        """How far the wall clock is before the boot clock: it changes when the wall clock is set."""
        return self.utc_s - self.boot_s

    def seconds_since(self, earlier: Instant) -> float:
        """Length from ``earlier``: by the boot clock within one boot, else by UTC; never negative."""
        if self.boot_id == earlier.boot_id:
            return max(0.0, self.boot_s - earlier.boot_s)
        return max(0.0, self.utc_s - earlier.utc_s)


def rfc3339(utc_s: float | None) -> str | None:
    """``utc_s`` as RFC 3339 UTC with milliseconds (``2026-11-30T17:20:05.123Z``); None stays None."""
    if utc_s is None:
        return None
    return datetime.fromtimestamp(utc_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
