"""THE boundary to the machine: everything that looks at hardware goes through a Host, live or recorded.

Nothing here raises for what a machine may do: a missing program, an unreadable file and a time limit are values. "Was not looked at" (a
recorded host only) is said apart from "is not there", by the error NOT_RECORDED.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anycard.units import MIB

NOT_RECORDED = "NOT-RECORDED"

Json = Any  # what json.loads gives: dict, list, str, int, float, bool, None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """``exit_code`` is None when it did not run to its end (128 + n: ended by signal n). ``error`` says why it did not start: the name
    of an errno (``"ENOENT"``: no such program), or NOT_RECORDED. ``truncated``: it wrote more than is kept."""

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    error: str | None = None

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class FileRead:
    """``data`` None: ``error`` says why (``"ENOENT"``, ``"EACCES"``, NOT_RECORDED). ``truncated``: the file is longer than the limit."""

    data: bytes | None
    error: str | None = None
    truncated: bool = False

    @property
    def text(self) -> str | None:
        return None if self.data is None else self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class NodeStat:
    """A device node or any path: permission bits and kind as in ``st_mode``, names of owner and group, device numbers."""

    mode: int
    owner: str | None
    group: str | None
    major: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """Who runs a process; a field is None where the system does not tell."""

    pid: int
    user: str | None = None
    command: str | None = None


class Session(Protocol):
    """A library that stays open between two looks. Its calls are made from one thread at a time."""

    def look(self) -> Json:
        """What the library says now, as plain JSON; opens it when it is not open."""

    def close(self) -> None:
        """Lets the library go; a later look opens it again."""


class Host(Protocol):
    """One machine, as far as anycard looks at it. Every call is read-only and may be made from several threads."""

    @property
    def platform(self) -> str:
        """As ``sys.platform``: ``linux``, ``darwin``, ``win32``."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment; of a recorded host only the variables on the allowlist."""

    def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
        """Runs a program (no shell, English messages, no input) and waits at most ``timeout_s`` seconds for it."""

    def read(self, path: str, limit_bytes: int = MIB) -> FileRead:
        """The first ``limit_bytes`` bytes of a file."""

    def list_folder(self, path: str) -> tuple[str, ...] | None:
        """Sorted names in a folder; None when it cannot be listed."""

    def readlink(self, path: str) -> str | None:
        """What a symbolic link says; None when it is none."""

    def exists(self, path: str) -> bool:
        """Whether the path is there."""

    def node(self, path: str) -> NodeStat | None:
        """Owner, mode and device numbers of a path; None when it is not there."""

    def process(self, pid: int) -> ProcessSeen | None:
        """Who runs ``pid``; None when there is no such process."""

    def ask(self, library: str) -> Json:
        """What a library loaded into this process says, as plain JSON: one of the modules in ``host/libraries``. None: not recorded."""

    def session(self, library: str) -> Session:
        """A session with one of the modules in ``host/libraries`` that have ``open_session``."""
