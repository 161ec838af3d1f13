"""One pass over the evidence: every line that any rule or fact asks about.

Every match of a regular expression holds one of its literals (plain pieces of text). All literals together become one Aho-Corasick
automaton; only the lines that hold a literal meet its expressions. An alternation of as many expressions in ``re`` needs minutes for 100 MB, this seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from anycard.doctor.literals import literals
from anycard.doctor.shapes import Line, Source

_KEEP = 40  # lines kept per expression and source: the first ones tell the cause
_WINDOW = 1000  # characters kept on each side of a hit in an endless line
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@lru_cache(maxsize=4096)
def compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


def scan(sources: Iterable[Source], expressions: Iterable[str]) -> Mapping[str, list[Line]]:
    """For each expression the lines that match it, in the order of the evidence (at most 40 per source)."""
    from ahocorasick_rs import BytesAhoCorasick

    by_literal: dict[str, list[str]] = {}
    for expression in dict.fromkeys(expressions):
        for piece in literals(expression):
            by_literal.setdefault(piece, []).append(expression)
    groups = list(by_literal.values())
    automaton = BytesAhoCorasick([text.encode() for text in by_literal])
    found: dict[str, list[Line]] = {}
    for rank, source in enumerate(sources):
        number = 1
        counts: dict[str, int] = {}
        for block in source.blocks():
            if b"\x1b[" in block:
                block = _ANSI.sub(b"", block)
            counted = 0
            done: set[tuple[int, int]] = set()
            for index, start, _end in automaton.find_matches_as_indexes(block.lower(), overlapping=True):
                wanted = [e for e in groups[index] if counts.get(e, 0) < _KEEP]
                if not wanted:
                    continue
                begin = block.rfind(b"\n", 0, start) + 1
                if (index, begin) in done:
                    continue
                done.add((index, begin))
                number += block.count(b"\n", counted, begin) if begin > counted else 0
                counted = max(counted, begin)
                text = _line_text(block, begin, start)
                line = Line(source.name, number, text, source.spoken, rank)
                for expression in wanted:
                    if (lines := found.setdefault(expression, [])) and lines[-1] == line:
                        continue  # seen by another of its literals
                    if compiled(expression).search(text):
                        counts[expression] = counts.get(expression, 0) + 1
                        lines.append(line)
            number += block.count(b"\n", counted)
    return found


def _line_text(block: bytes, begin: int, start: int) -> str:
    end = block.find(b"\n", start)
    end = len(block) if end < 0 else end
    begin, end = max(begin, start - _WINDOW), min(end, start + _WINDOW)
    raw = block[begin:end]
    if b"\r" in raw.strip(b"\r"):  # a progress bar: the piece that holds the hit
        offset = start - begin
        raw = raw[raw.rfind(b"\r", 0, offset) + 1 :]
        raw = raw[: raw.find(b"\r", 1)] if b"\r" in raw[1:] else raw
    return raw.decode("utf-8", "replace").strip("\r")
