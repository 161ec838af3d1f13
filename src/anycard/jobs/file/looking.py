"""Looking for the files that a job file names, within bounds: it is somebody's text, and a look must come to an end."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from anycard.model.text import Text

MAX_LOOKED_AT = 2_000_000  # files and folders, for all patterns of all jobs of a file
MAX_SECONDS = 20.0
NOT_PLAIN = Text("{value} is not a plain file")
_MAGIC = re.compile(r"[*?[]")


class NotPlainError(OSError):
    """It is a pipe, a socket, a device or a folder."""


class TooMuchError(Exception):
    """A pattern leads through more files than are looked at."""


def read_plain(path: Path, most: int) -> bytes:
    """The first ``most`` bytes of a plain file. NotPlainError for anything else: opening or reading a pipe may take for ever. OSError."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening alone makes some devices do something
        raise NotPlainError
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was exchanged meanwhile
            raise NotPlainError
        return file.read(most) or b""


@dataclass(slots=True)
class Budget:
    """How much may still be looked at; ``spend`` raises TooMuchError at the end of it."""

    left: int = MAX_LOOKED_AT
    until: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0 or (self.left % 256 == 0 and time.monotonic() > self.until):
            raise TooMuchError


def matches(pattern: str, folder: Path, budget: Budget) -> Iterator[str]:
    """Paths that match ``pattern``, relative to ``folder`` unless it is absolute, in no order, perhaps twice. As in ``glob``: ``**``
    crosses folders, wildcards leave hidden names out; a trailing slash means folders, without it only what is no folder is found."""
    folders = pattern.endswith("/")
    parts: list[str] = []
    for part in pattern.split("/"):
        if part and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    if not parts:
        return
    stack = [("/" if pattern.startswith("/") else "", 0)]  # a folder, and the part that its entries are held against
    while stack:
        prefix, at = stack.pop()
        budget.spend()
        part, last = parts[at], at == len(parts) - 1
        if part == "**":
            if not last:
                stack.append((prefix, at + 1))
            elif folders and prefix:
                yield prefix
            for name, is_folder in _entries(folder, prefix, budget):
                if name.startswith("."):
                    continue
                if is_folder:
                    stack.append((f"{prefix}{name}/", at))
                elif last and not folders:
                    yield prefix + name
            continue
        for name, is_folder in _named(part, folder, prefix, budget):
            if not last and is_folder:
                stack.append((f"{prefix}{name}/", at + 1))
            elif last and is_folder == folders:
                yield f"{prefix}{name}/" if folders else prefix + name


def _named(part: str, folder: Path, prefix: str, budget: Budget) -> Iterator[tuple[str, bool]]:
    """The entries of ``prefix`` that one part of a pattern means, each with whether it is a folder."""
    if not _MAGIC.search(part):
        path = folder / f"{prefix}{part}"
        if os.path.lexists(path):
            yield part, os.path.isdir(path)  # noqa: PTH112  Path.is_dir raises where a folder is closed to us
        return
    match = re.compile(fnmatch.translate(part)).match
    for name, is_folder in _entries(folder, prefix, budget):
        if match(name) and (part.startswith(".") or not name.startswith(".")):
            yield name, is_folder


def _entries(folder: Path, prefix: str, budget: Budget) -> Iterator[tuple[str, bool]]:
    """Nothing where the folder is not there, is none, or is closed to us."""
    try:
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                budget.spend()
                yield entry.name, _is_folder(entry)
    except OSError:
        return


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of symbolic links
        return False
