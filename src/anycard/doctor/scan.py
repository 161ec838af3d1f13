"""One pass over the evidence: every line that any rule or fact asks about.

Every match of a regular expression holds one of its literals (plain pieces of text). All literals together become one Aho-Corasick
automaton; only the lines that hold a literal meet its expressions. An alternation of as many expressions in ``re`` would need an hour for
100 MB, this seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from anycard.doctor.literals import literals
from anycard.doctor.queries import ANSWER_LINES, MARKS, spelled_out
from anycard.doctor.shapes import Line, Source

_KEEP = 40  # lines kept per expression and source: the first ones tell the cause
_FUTILE = (
    3000  # lines that held an expression's literal and did not match: from there on it says nothing about this source
)
_WINDOW = 1000  # characters kept on each side of a hit in an endless line
_SHORT = 16_000  # bytes: a source whose every line is looked at
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@lru_cache(maxsize=4096)
def compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sightings:
    """``matches``: for each expression the lines that match it, in the order of the evidence (at most 40 per source). ``sample``: what
    the evidence speaks of: every line of a short source; of a long one the lines that hold some expression's words."""

    matches: Mapping[str, list[Line]]
    sample: Sequence[Line]


def scan(sources: Iterable[Source], expressions: Iterable[str]) -> Sightings:
    """Reads every source once."""
    every = _filter_of(tuple(dict.fromkeys(expressions)))
    found: dict[str, list[Line]] = {}
    sample: dict[Line, None] = {}
    for rank, source in enumerate(sources):
        _scan_source(source, rank, every, found, sample)
    return Sightings(found, tuple(sample))


class _Filter:
    """The literals of some expressions as an automaton; ``groups[i]`` are the expressions of its i-th literal."""

    def __init__(self, expressions: Iterable[str]) -> None:
        from ahocorasick_rs import BytesAhoCorasick

        self.expressions = list(expressions)
        by_literal: dict[str, list[str]] = {}
        for expression in self.expressions:
            for piece in _literals(expression):
                by_literal.setdefault(piece, []).append(expression)
        self.groups = list(by_literal.values())
        self._automaton = BytesAhoCorasick([text.encode() for text in by_literal])

    def hits(self, block: bytes) -> list[tuple[int, int, int]]:
        return self._automaton.find_matches_as_indexes(block.lower(), overlapping=True)


_literals = lru_cache(maxsize=4096)(literals)


@lru_cache(maxsize=1)
def _filter_of(expressions: tuple[str, ...]) -> _Filter:
    """Made once for all the logs that a process reads by the same rules: half of what a short one costs."""
    return _Filter(expressions)


def _scan_source(
    source: Source, rank: int, every: _Filter, found: dict[str, list[Line]], sample: dict[Line, None]
) -> None:
    number = 1
    matches: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    filter_ = every
    for block in source.blocks():
        if b"\x1b[" in block:
            block = _ANSI.sub(b"", block)
        if number == 1 and len(block) <= _SHORT:
            lines = block.decode("utf-8", "replace").splitlines()
            for at, text in enumerate(lines, 1):
                sample[Line(source.name, at, text[:_WINDOW], source.spoken, rank)] = None
            answers = spelled_out(lines)
        else:
            answers = _answers(block, number)
        for at, text in answers:
            _scan_line(Line(source.name, at, text, source.spoken, rank), every, found)
        counted = 0
        line: Line | None = None
        line_begin, line_tested = -1, set[str]()
        for index, start, _end in filter_.hits(block):
            begin = block.rfind(b"\n", 0, start) + 1
            if begin != line_begin:
                line, line_begin, line_tested = None, begin, set()
            for expression in filter_.groups[index]:
                if expression in line_tested or matches[expression] >= _KEEP or misses[expression] >= _FUTILE:
                    continue
                line_tested.add(expression)
                if line is None:
                    number += block.count(b"\n", counted, begin) if begin > counted else 0
                    counted = max(counted, begin)
                    line = Line(source.name, number, _line_text(block, begin, start), source.spoken, rank)
                if compiled(expression).search(line.text):
                    matches[expression] += 1
                    found.setdefault(expression, []).append(line)
                    sample[line] = None
                else:
                    misses[expression] += 1
                    if misses[expression] == 1:
                        sample[line] = None
        number += block.count(b"\n", counted)
        done = {
            expression
            for expression in filter_.expressions
            if matches[expression] >= _KEEP or misses[expression] >= _FUTILE
        }
        if done:  # a long source: search the rest of it for what can still tell something
            filter_ = _Filter(expression for expression in filter_.expressions if expression not in done)


def _answers(block: bytes, number: int) -> Iterator[tuple[int, str]]:
    """Of a long log: the answers near what looks like a question. ``number`` is that of the block's first line."""
    asked = set[int]()
    for mark in MARKS:
        place = block.find(mark)
        while place >= 0 and len(asked) < _KEEP:
            asked.add(block.rfind(b"\n", 0, place) + 1)
            place = block.find(mark, place + len(mark))
    for begin in sorted(asked):
        lines = block[begin : begin + _SHORT].split(b"\n", ANSWER_LINES)[:ANSWER_LINES]
        first = number + block.count(b"\n", 0, begin)
        for at, text in spelled_out([line[:_WINDOW].decode("utf-8", "replace") for line in lines]):
            yield first + at - 1, text


def _scan_line(line: Line, every: _Filter, found: dict[str, list[Line]]) -> None:
    for expression in {e for index, _start, _end in every.hits(line.text.encode()) for e in every.groups[index]}:
        if compiled(expression).search(line.text):
            found.setdefault(expression, []).append(line)


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
