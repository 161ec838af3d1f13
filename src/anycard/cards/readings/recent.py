"""The last ten minutes of every card, a second apart, in memory. Kept as arrays of numbers: 90 KiB a card."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator

from anycard.cards.readings.shapes import Tick
from anycard.model.series import COLUMNS, Series, Values, values_of

KEPT_TICKS = 600
_NAN = math.nan


class Recent:
    """Written by the sampler's thread, read by any."""

    def __init__(self, kept: int = KEPT_TICKS) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._count = 0  # of ticks ever; the next goes to this number's place in the ring
        self._at = array("d", [_NAN]) * kept
        self._cards: dict[str, array[float]] = {}  # a row of COLUMNS a tick; a row without a single value is a gap
        self._last_seen: dict[str, int] = {}

    def add(self, tick: Tick) -> None:
        width = len(COLUMNS)
        with self._lock:
            place = self._count % self._kept
            self._at[place] = tick.at
            for card_id in self._cards.keys() - {reading.card_id for reading in tick.readings}:
                if self._count - self._last_seen[card_id] >= self._kept:
                    del self._cards[card_id], self._last_seen[card_id]
                else:
                    self._cards[card_id][place * width : (place + 1) * width] = array("d", [_NAN]) * width
            for reading in tick.readings:
                ring = self._cards.get(reading.card_id)
                if ring is None:
                    ring = self._cards[reading.card_id] = array("d", [_NAN]) * (self._kept * width)
                values = values_of(reading)
                ring[place * width : (place + 1) * width] = array(
                    "d", [_NAN if value is None else value for value in values]
                )
                self._last_seen[reading.card_id] = self._count
            self._count += 1

    @property
    def since(self) -> float | None:
        """The oldest moment that is kept (seconds since the epoch); None: nothing is."""
        with self._lock:
            return self._at[max(0, self._count - self._kept) % self._kept] if self._count else None

    def cards(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._cards)

    def series(self, card_id: str, since: float, until: float) -> Series:
        """What is kept of a card from ``since`` to before ``until`` (seconds since the epoch), a row a tick."""
        with self._lock:
            found = [(at, row) for at, row in self._rows(card_id) if since <= at < until]
        found.sort(key=lambda one: one[0])  # the wall clock may have been set back meanwhile
        return Series(card_id, tuple(at for at, _ in found), tuple(row for _, row in found))

    def _rows(self, card_id: str) -> Iterator[tuple[float, Values]]:
        ring = self._cards.get(card_id)
        if ring is None:
            return
        width = len(COLUMNS)
        for number in range(max(0, self._count - self._kept), self._count):
            place = number % self._kept
            raw = ring[place * width : (place + 1) * width]
            if any(value == value for value in raw):
                yield self._at[place], tuple(None if value != value else value for value in raw)
