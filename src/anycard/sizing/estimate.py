"""What an estimate is: parts that add up, an interval, and the largest buffer that no number of cards shares out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the breakdown. ``runtime``: held outside the framework's allocator, so torch's peak does not show it."""

    name: str
    size_bytes: int
    note: Text | None = None
    runtime: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory of a job on one card (``cards`` of them alike). ``low_bytes`` to ``high_bytes`` is where the truth is expected."""

    parts: tuple[Part, ...]
    low_bytes: int
    high_bytes: int
    largest_buffer_bytes: int
    cards: int = 1
    host_bytes: int = 0  # moved to host memory by offload
    warnings: tuple[Text, ...] = ()

    @property
    def total_bytes(self) -> int:
        """What the card must have."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def allocated_bytes(self) -> int:
        """What the framework's allocator peaks at: the total without the runtime's own context."""
        return sum(part.size_bytes for part in self.parts if not part.runtime)

    def part(self, name: str) -> int:
        """Bytes of the parts called ``name``; 0 if there is none."""
        return sum(part.size_bytes for part in self.parts if part.name == name)

    def with_warning(self, text: Text) -> Estimate:
        return replace(self, warnings=(*self.warnings, text))

    def to_json(self) -> dict[str, Any]:
        return {
            "breakdown": [
                {"name": part.name, "size_bytes": part.size_bytes, "note": str(part.note) if part.note else None}
                for part in self.parts
            ],
            "total_bytes": self.total_bytes,
            "allocated_bytes": self.allocated_bytes,
            "low_bytes": self.low_bytes,
            "high_bytes": self.high_bytes,
            "largest_buffer_bytes": self.largest_buffer_bytes,
            "cards": self.cards,
            "host_bytes": self.host_bytes,
            "warnings": [str(text) for text in self.warnings],
        }
