"""Columns of plain text, also for wide (Chinese) characters. Rich does this too, but costs 60 ms to import."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence

_GAP = "  "
_LEAST = 30  # columns in which a reason still says something
# A word, a run of blanks, or one wide character with the closing punctuation that must not begin a line.
_PIECE = r"[\u2e80-\uffef][，。、；：！？）】”]*|[^\s\u2e80-\uffef]+|\s+"


def width(text: str) -> int:
    """Terminal columns that ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, columns: int) -> str:
    """``text`` in at most ``columns``, its end replaced by ``…`` where it does not fit."""
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += width(char)
        if used > columns - 1:
            break
        kept += char
    return kept + "…" if columns > 0 else ""


def pad(text: str, columns: int) -> str:
    return text + " " * max(0, columns - width(text))


def screen_width() -> int | None:
    """Columns of the terminal on stdout, or None where it is no terminal and nothing needs cutting."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, indent: str = "", right: frozenset[int] = frozenset()
) -> list[str]:
    """Lines of a table; columns in ``right`` are aligned to the right. The last column is cut at the terminal's edge; where less than
    ``_LEAST`` columns are left for it, it stands below its row instead, for it is the one that says why."""
    all_rows = [head, *rows]
    columns = [max(width(row[at]) for row in all_rows) for at in range(len(head))]
    edge = screen_width()
    lines = []
    for row in all_rows:
        cells = [
            (" " * (columns[at] - width(cell)) + cell) if at in right else pad(cell, columns[at])
            for at, cell in enumerate(row)
        ]
        text = (indent + _GAP.join(cells)).rstrip()
        before = indent + _GAP.join(cells[:-1])
        if edge is None or width(text) <= edge:
            lines.append(text)
        elif row is head or edge - width(before) - len(_GAP) >= _LEAST:
            lines.append(cut(text, edge))
        else:
            below = indent + "    "
            lines.append(cut(before.rstrip(), edge))
            lines += [below + line for line in wrap(row[-1], max(_LEAST, edge - len(below)))]
    return lines


def wrap(text: str, columns: int) -> list[str]:
    """``text`` in lines of at most ``columns``; breaks between words, and between any two wide characters."""
    if text.isascii() and len(text) <= columns:
        return [text.rstrip()]
    lines, current = [], ""
    for token in re.findall(_PIECE, text):
        if width(current) + width(token.rstrip()) > columns:
            if current.strip():
                lines.append(current.rstrip())
            current = "" if token.isspace() else token
        else:
            current += token
    return [*lines, current.rstrip()] if current.strip() or not lines else lines
