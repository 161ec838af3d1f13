"""When a vendor as a whole cannot be asked: that is said about the vendor, not about its cards."""

from __future__ import annotations

from dataclasses import dataclass

from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class Problem:
    """``reason`` is what is wrong with the vendor's driver or library, ``mend`` what to do about it (None: nothing known)."""

    vendor: str
    reason: Text
    mend: Text | None = None


class VendorFault(Exception):
    """Raised by a vendor file's ``find``; carries the Problem to show."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem.reason))
        self.problem = problem
