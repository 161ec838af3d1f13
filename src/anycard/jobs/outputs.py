"""The outputs of a job as files to look at and to take: nothing outside of an item's folder can be reached through it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anycard.errors import NotFoundError

MOST_FILES = 2000  # of one item in a listing
_DEPTH = 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class OutputFile:
    """``path`` is below the item's folder, with slashes; bytes that are no text are in it as surrogates."""

    path: str
    size: int


def items_with_output(outputs: Path) -> list[int]:
    """Numbers of the items that have an output folder, in order; ``outputs`` is the job's folder of them."""
    try:
        with os.scandir(outputs) as entries:
            found = [int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def files_of(folder: Path) -> tuple[list[OutputFile], bool]:
    """The plain files of an item, by path, and whether there are more than MOST_FILES. Links are left out."""
    found: list[OutputFile] = []
    try:
        root = os.open(folder, _FOLDER)
    except OSError:
        return [], False
    try:
        for file in _below(root, "", 0):
            if len(found) == MOST_FILES:
                return sorted(found, key=lambda file: file.path), True
            found.append(file)
    finally:
        os.close(root)
    return sorted(found, key=lambda file: file.path), False


def _below(folder: int, prefix: str, depth: int) -> Iterator[OutputFile]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        try:
            if entry.is_file(follow_symlinks=False):
                yield OutputFile(prefix + entry.name, entry.stat(follow_symlinks=False).st_size)
            elif entry.is_dir(follow_symlinks=False) and depth < _DEPTH:
                inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    yield from _below(inner, f"{prefix}{entry.name}/", depth + 1)
                finally:
                    os.close(inner)
        except OSError:
            continue  # it went away, or was swapped for a link, between the list and the look


def open_file(folder: Path, path: bytes) -> int:
    """A descriptor of the plain file at ``path`` below ``folder``. Each step is opened from the one before without following links, so
    neither ``..`` nor a link leads out. NotFoundError for whatever is not such a file."""
    missing = NotFoundError("there is no output {path}", path=path.decode("utf-8", "backslashreplace"))
    *folders, name = path.split(b"/")
    if not name or b"\0" in path or any(step in (b"", b".", b"..") for step in (*folders, name)):
        raise missing
    try:
        at = os.open(folder, _FOLDER)
    except OSError:
        raise missing from None
    try:
        owner = os.fstat(at).st_uid
        for step in folders:
            inner = os.open(step, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        descriptor = os.open(name, _FILE, dir_fd=at)
    except OSError:
        raise missing from None
    finally:
        os.close(at)
    found = os.fstat(descriptor)
    # For a folder that is another user's we read with rights that they do not have: only files of their own.
    if not stat.S_ISREG(found.st_mode) or (owner != os.getuid() and found.st_uid != owner):
        os.close(descriptor)
        raise missing
    return descriptor
