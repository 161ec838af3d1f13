"""What the sampler gives: a tick a second."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from anycard.model.card import Reading
from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class CardUse:
    """One program on one card: its share of the card's memory (bytes) and of its time (0..1). ``jobs/attribution.py`` says whose it is."""

    card_id: str
    pid: int
    memory_bytes: int | None = None
    utilisation: float | None = None


class MarkKind(StrEnum):
    """What can happen to a card, or to the looking itself."""

    XID = "xid"  # NVIDIA's driver reported an error by its number
    ECC = "ecc"  # memory errors
    HEALTH = "health"  # the driver's word about the card changed
    KERNEL = "kernel"  # a line of the kernel log about a card
    SILENT = "silent"  # a reader does not answer
    ANSWERS = "answers"  # it answers again
    CLOCK = "clock"  # the wall clock jumped


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment worth a line across the chart. ``at`` seconds since the epoch; ``card_id`` None: of no card in particular."""

    at: float
    card_id: str | None
    kind: MarkKind
    text: Text


@dataclass(frozen=True, slots=True)
class Look:
    """What one reader saw at once."""

    readings: tuple[Reading, ...] = ()
    uses: tuple[CardUse, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Silent:
    """A reader that does not answer, since when (seconds since the epoch), and why where it says."""

    reader: str
    since: float
    why: Text | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """All cards at one moment. ``at`` seconds since the epoch, ``boot_s`` seconds of the boot clock: lengths come from that one. The cards
    of a silent reader are missing in ``readings``: unknown, not zero."""

    at: float
    boot_s: float
    readings: tuple[Reading, ...] = ()
    uses: tuple[CardUse, ...] = ()
    silent: tuple[Silent, ...] = ()
    marks: tuple[Mark, ...] = ()
