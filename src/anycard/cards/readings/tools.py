"""Vendors that are asked through a command-line tool, or by one look at sysfs as ``anycard cards`` takes it.

A tool takes up to a second of processor time (npu-smi, amd-smi), so it is asked every TOOL_PERIOD_S at the most, and more seldom when it
takes longer: never more than a twentieth of the time.
"""

from __future__ import annotations

import importlib
import time

from anycard.cards.readings.shapes import CardUse, Look
from anycard.host.host import Host
from anycard.model.card import Card, Reading
from anycard.model.instant import Instant

TOOL_PERIOD_S = 10.0
_MOST_SHARE = 0.05


class ToolReader:
    """See ``Reader``."""

    def __init__(self, vendor: str, host: Host) -> None:
        self.name = vendor
        self.period_s = TOOL_PERIOD_S
        self._host = host
        self._vendor = importlib.import_module(f"anycard.cards.vendors.{vendor}")

    def look(self, at: Instant) -> Look:
        began = time.monotonic()
        read = getattr(self._vendor, "read", None)
        readings: tuple[Reading, ...] = read(self._host) if read is not None else ()
        cards: tuple[Card, ...] = self._vendor.find(self._host)  # of the same answer: it is kept for some seconds
        self.period_s = max(TOOL_PERIOD_S, (time.monotonic() - began) / _MOST_SHARE)
        uses = tuple(
            CardUse(card.id, process.pid, process.memory_bytes) for card in cards for process in card.processes or ()
        )
        return Look(readings, uses)

    def close(self) -> None:
        """Nothing is open."""
