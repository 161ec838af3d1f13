"""What the doctor speaks in: lines, facts, findings, a diagnosis. Frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from anycard.model.text import Text

SCHEMA = "anycard.doctor/1"
MEASURED = "readings"  # the source of what nobody printed: doctor/measured.py


class Verdict(StrEnum):
    """FAULT: something outside the user's own program must be changed. APPLICATION: the program or how it is used. HEALTHY and EXPECTED:
    nothing is broken. UNDECIDED: the evidence does not settle it."""

    FAULT = "fault"
    APPLICATION = "application"
    HEALTHY = "healthy"
    EXPECTED = "expected"
    UNDECIDED = "undecided"

    @property
    def harmless(self) -> bool:
        return self in (Verdict.HEALTHY, Verdict.EXPECTED)


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of evidence. ``spoken``: a person's words, the lowest rank. ``blocks`` opens it and yields UTF-8 bytes, each block
    ending at a line's end where it can; it may be called once only (standard input)."""

    name: str
    blocks: Callable[[], Iterator[bytes]]
    spoken: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of evidence. ``number`` counts from 1 within its source; ``rank`` orders the sources as they were given. ``measured``: read
    off a card, printed by nobody."""

    source: str
    number: int
    text: str
    spoken: bool = False
    rank: int = 0
    measured: bool = False

    @property
    def place(self) -> tuple[bool, int, int]:
        """Sorts program output before a person's words, then by source and line."""
        return (self.spoken, self.rank, self.number)


@dataclass(frozen=True, slots=True)
class Fact:
    """A typed reading out of one line, e.g. name ``driver``, value ``535.54.03``."""

    name: str
    value: str
    line: Line


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a mend: what to do, the command that does it, and where it applies (empty: everywhere). ``safe``: the command is whole as
    it stands, takes nothing away (no file, package, program or setting that anybody may need) and may be run again, so that ``--fix``
    may offer it."""

    says: Text
    command: str | None = None
    platforms: tuple[str, ...] = ()
    safe: bool = False

    def __str__(self) -> str:
        return f"{self.says}: {self.command}" if self.command else str(self.says)


@dataclass(frozen=True, slots=True)
class Finding:
    """A named cause. ``certainty`` in 0..1; ``explains`` are the causes that this one makes a consequence or a look-alike."""

    cause: str
    family: str
    verdict: Verdict
    certainty: float
    says: Text
    evidence: tuple[Line, ...]
    mend: tuple[Step, ...]
    next_check: str | None
    authority: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``findings`` most likely first; ``contradictions`` say where the evidence disagrees with itself."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...] = ()
    contradictions: tuple[Text, ...] = ()
    next_check: str | None = None
