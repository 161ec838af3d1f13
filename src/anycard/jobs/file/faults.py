"""What is wrong with a job file: every fault with its place, said all at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anycard.errors import UsageError
from anycard.model.text import Param, Text

MAX_FAULTS = 100  # of one file; more would bury the first ones
_SHOWN = 80  # characters of a wrong value that are shown back


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: line and column count from 1. A command line option has ``file`` ``--name`` and line 0."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. ``value`` is what was written (``***`` for a secret), ``nearest`` the right spelling it resembles."""

    file: str
    line: int
    column: int
    value: str
    message: Text
    nearest: str | None = None

    def __str__(self) -> str:
        place = Place(self.file, self.line, self.column)
        return f"{place}: {self.message}" + (f" (did you mean {self.nearest}?)" if self.nearest else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "value": self.value,
            "message": str(self.message),
            "msgid": self.message.msgid,
            "params": dict(self.message.params),
            "nearest": self.nearest,
        }


class JobFileError(UsageError):
    """A job file, or the options of a command line, with at least one fault. Nothing of it was submitted."""

    code = "job-file"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        one, several = (
            Text("Nothing was submitted. {first}"),
            Text("Nothing was submitted: {count} faults. The first: {first}"),
        )
        headline = one if len(self.faults) == 1 else several
        super().__init__(headline.msgid, count=len(self.faults), first=str(self.faults[0]))

    def faults_json(self) -> list[dict[str, Any]]:
        """The API's ``faults`` list."""
        return [fault.to_json() for fault in self.faults]


class Faults:
    """Gathers faults while a file is read, so that reading goes on after the first."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, place: Place, msgid: str, *, value: str = "", nearest: str | None = None, **params: Param) -> None:
        """Notes that what stands at ``place`` is wrong; ``params`` fill the fields of ``msgid``, ``value`` is one of them."""
        shown = shorten(value)
        message = Text(msgid, {**params, "value": shown} if "{value}" in msgid else params)
        fault = Fault(place.file, place.line, place.column, shown, message, nearest)
        if len(self._found) < MAX_FAULTS and fault not in self._found:
            self._found.append(fault)

    def raise_if_any(self) -> None:
        """Raises JobFileError with everything found, in the order of the file."""
        if self._found:
            raise JobFileError(sorted(self._found, key=lambda fault: (fault.line, fault.column)))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` was most likely meant to be; None when nothing resembles it."""
    if not 3 <= len(word) <= 64:
        return None
    spellings = {name.lower().replace("-", "_"): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), spellings, n=1, cutoff=0.65)
    return spellings[found[0]] if found else None


def shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
