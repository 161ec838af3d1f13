"""What happens to cards and belongs in the event log: lost and back, idle though a job holds it, too hot. Told once a stretch.

Pure: what is seen comes in, news come out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anycard.model.card import Card, Reading

HOT_MARGIN_C = 5.0  # a card must cool so far below the limit before it can be too hot again
HOT_LOOKS = 2  # one look may be a misreading
THERMAL = "thermal"  # in the name of a throttle reason: the card itself says that it is too hot


@dataclass(frozen=True, slots=True)
class Limits:
    """``idle_s``: a granted card that does nothing for so long is told. ``hot_c``: degrees Celsius; cards of today slow down
    between 83 (consumer) and 95 (data centre)."""

    idle_s: float = 600.0
    hot_c: float = 90.0
    idle_utilisation: float = 0.01


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class CardNews:
    """One event: ``kind`` as in the event log, ``attempt`` the id of the one that holds the card."""

    kind: str
    card: Card
    attempt: int | None
    data: Mapping[str, Any]


@dataclass(slots=True)
class _Seen:
    lost: bool = False
    attempt: int | None = None
    idle_since: float | None = None  # boot seconds
    idle_told: bool = False
    hot_looks: int = 0
    hot_told: bool = False


@dataclass(slots=True)
class CardWatch:
    limits: Limits = DEFAULT_LIMITS
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def look(
        self,
        boot_s: float,
        cards: Sequence[Card],
        *,
        lost: Collection[str],
        readings: Mapping[str, Reading],
        held: Mapping[str, int],
    ) -> Iterator[CardNews]:
        """``lost``: ids of cards proved lost; ``held``: the attempt on each granted card."""
        for card in cards:
            if not card.is_accelerator:
                continue
            seen = self._seen.setdefault(card.id, _Seen())
            attempt = held.get(card.id)
            yield from _lost(seen, card, attempt, card.id in lost)
            reading = readings.get(card.id)
            yield from _idle(seen, card, attempt, reading, boot_s, self.limits)
            yield from _hot(seen, card, attempt, reading, self.limits)


def _lost(seen: _Seen, card: Card, attempt: int | None, lost: bool) -> Iterator[CardNews]:
    if lost and not seen.lost:
        seen.lost = True
        yield CardNews("card.lost", card, attempt, {})
    elif seen.lost and card.health == "ok":
        seen.lost = False
        yield CardNews("card.returned", card, attempt, {})


def _idle(
    seen: _Seen, card: Card, attempt: int | None, reading: Reading | None, boot_s: float, limits: Limits
) -> Iterator[CardNews]:
    """A value that is not there counts as work: nobody is told a thing that was not seen."""
    if attempt != seen.attempt:
        seen.attempt, seen.idle_since, seen.idle_told = attempt, None, False
    utilisation = None if reading is None else reading.utilisation
    if attempt is None or utilisation is None or utilisation > limits.idle_utilisation:
        seen.idle_since, seen.idle_told = None, False
        return
    if seen.idle_since is None:
        seen.idle_since = boot_s
    idle_s = boot_s - seen.idle_since
    if idle_s >= limits.idle_s and not seen.idle_told:
        seen.idle_told = True
        yield CardNews("card.idle", card, attempt, {"idle_s": round(idle_s, 1)})


def _hot(seen: _Seen, card: Card, attempt: int | None, reading: Reading | None, limits: Limits) -> Iterator[CardNews]:
    if reading is None:
        return
    temperature = reading.temperature_c
    throttled = any(THERMAL in reason for reason in reading.throttle_reasons or ())
    if throttled or (temperature is not None and temperature >= limits.hot_c):
        seen.hot_looks += 1
        if seen.hot_looks >= HOT_LOOKS and not seen.hot_told:
            seen.hot_told = True
            yield CardNews(
                "card.hot",
                card,
                attempt,
                {"temperature_c": temperature, "limit_c": limits.hot_c, "throttled": throttled},
            )
        return
    seen.hot_looks = 0
    if temperature is None or temperature < limits.hot_c - HOT_MARGIN_C:
        seen.hot_told = False
