"""A log as a page reads it: a part at a time, from the end, from a place, or around what was searched for; as lines that are safe to show.

A log may have 100 MB, hold control characters and never end a line: nothing here reads more than a part, and a search goes through it in
chunks.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from anycard.i18n.sentences import safe
from anycard.jobs.files import open_log

PART_BYTES = 64 * 1024
HITS = 200
_CHUNK_BYTES = 1024 * 1024
_LINE_CHARACTERS = 4000  # the rest of a longer line is counted, not shown
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"
)  # ECMA-48: CSI, OSC, others
_BAD = re.compile(
    r"\b(?:error|exception|traceback|fatal|panic|segmentation fault|core dumped|out of memory|oom|xid|nan loss|killed|failed)\b"
    r"|\w(?:Error|Exception)\b",
    re.IGNORECASE,
)
_OURS = "[anycard] "


class Kind(IntEnum):
    """What a line is."""

    PLAIN = 0
    BAD = 1  # it looks like an error
    OURS = 2  # written by anycard


@dataclass(frozen=True, slots=True)
class Part:
    """Lines from byte ``start`` to before ``end`` of a log of ``size`` bytes. ``open``: what follows without an end of line."""

    start: int
    end: int
    size: int
    lines: tuple[tuple[str, Kind], ...]
    open: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that holds what was searched, and the byte where it begins."""

    at: int
    text: str


def size_of(log: Path) -> int:
    """Bytes; 0 for a log that is not there."""
    with _opened(log) as descriptor:
        return 0 if descriptor is None else os.fstat(descriptor).st_size


def last_part(log: Path) -> Part:
    """The end of the log."""
    return part_before(log, size_of(log), open_end=True)


def part_before(log: Path, end: int, *, open_end: bool = False) -> Part:
    """The lines that end at or before byte ``end``. ``open_end``: what follows the last end of line goes into ``open``."""
    with _opened(log) as descriptor:
        if descriptor is None:
            return Part(0, 0, 0, ())
        size = os.fstat(descriptor).st_size
        end = max(0, min(end, size))
        start = max(0, end - PART_BYTES)
        data = os.pread(descriptor, end - start, start)
    if start > 0 and (cut := data.find(b"\n") + 1) and cut < len(data):
        start, data = start + cut, data[cut:]
    whole, rest = (data, b"") if not open_end else _whole(data)
    return Part(start, start + len(whole), size, _lines(whole), _shown(_text(rest)))


def part_after(log: Path, start: int) -> Part:
    """The lines from byte ``start`` on; an unfinished last line is in ``open``."""
    with _opened(log) as descriptor:
        if descriptor is None:
            return Part(start, start, 0, ())
        size = os.fstat(descriptor).st_size
        start = max(0, min(start, size))
        data = os.pread(descriptor, PART_BYTES, start)
    whole, rest = _whole(data)
    if not whole and len(data) == PART_BYTES:
        whole, rest = data, b""  # one very long line, a part at a time
    return Part(start, start + len(whole), size, _lines(whole), _shown(_text(rest)))


def find(log: Path, wanted: str, *, most: int = HITS) -> tuple[list[Hit], bool]:
    """The last lines that hold ``wanted`` (letters of either case), newest last, and whether there are more before them."""
    needle = wanted.encode("utf-8", "replace").lower()
    if not needle:
        return [], False
    found: list[tuple[int, bytes]] = []  # newest first
    with _opened(log) as descriptor:
        if descriptor is None:
            return [], False
        # Every line may hold it: which ones is looked up only where the last hits are.
        blocks = ((base, len(data)) for base, data in _blocks(descriptor) if needle in data.lower())
        holding = deque(blocks, most + 1)
        while holding and len(found) <= most:
            base, size = holding.pop()
            found += reversed(list(_hits(os.pread(descriptor, size, base), base, needle)))
    return [Hit(at, _shown(_text(line))) for at, line in reversed(found[:most])], len(found) > most


def _blocks(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """(byte, whole lines from there on), about a chunk at a time. Only the begin of a line of more than a chunk is whole."""
    position, rest = 0, b""
    while chunk := os.pread(descriptor, _CHUNK_BYTES, position):
        data, base = rest + chunk, position - len(rest)
        position += len(chunk)
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) > _CHUNK_BYTES else 0)
        rest = data[end:]
        yield base, data[:end]
    yield position - len(rest), rest


def _hits(data: bytes, base: int, needle: bytes) -> Iterator[tuple[int, bytes]]:
    low = data.lower()
    at = low.find(needle)
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield base + start, data[start : min(end, start + _LINE_CHARACTERS * 4)]
        at = low.find(needle, end)


def _whole(data: bytes) -> tuple[bytes, bytes]:
    cut = data.rfind(b"\n") + 1
    return data[:cut], data[cut:]


def _lines(data: bytes) -> tuple[tuple[str, Kind], ...]:
    text = _text(data)
    if text.endswith("\n"):
        text = text[:-1]
    elif not text:
        return ()
    return tuple((shown := _shown(line), _kind(shown)) for line in text.split("\n"))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _shown(line: str) -> str:
    """As a person would have seen it on a terminal: what a carriage return overwrote is gone, colours too; other control characters are
    written out."""
    if "\r" in line:
        line = next((piece for piece in reversed(line.split("\r")) if piece.strip()), "")
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if len(line) > _LINE_CHARACTERS:
        line = f"{line[:_LINE_CHARACTERS]} … (+{len(line) - _LINE_CHARACTERS})"
    return safe(line) if "\t" not in line else "\t".join(safe(piece) for piece in line.split("\t"))


def _kind(line: str) -> Kind:
    if line.startswith(_OURS):
        return Kind.OURS
    return Kind.BAD if _BAD.search(line) else Kind.PLAIN


@contextmanager
def _opened(log: Path) -> Iterator[int | None]:
    descriptor = open_log(log)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
