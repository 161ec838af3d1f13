"""What one item of a job asks for, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """One way in which an item could run; a job holds one or several, tried in order.

    ``card`` names what is wanted (``"A100"``, ``"nvidia"``, ``"A100-80GB"``) or is None for any accelerator; it means nothing
    when ``card_count`` is 0. ``card_memory_bytes`` is the least memory each card must have. ``memory_bytes`` None: host memory is
    not reserved, only watched.
    """

    cpus: float = 1.0
    memory_bytes: int | None = None
    card_count: int = 0
    card: str | None = None
    card_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a placement hands an attempt: whole cards by id, CPUs (fractions allowed), host memory in bytes or None."""

    cpus: float
    memory_bytes: int | None
    card_ids: tuple[str, ...] = ()
