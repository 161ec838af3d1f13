"""Tables in the shape that nvidia-smi made common: mx-smi, ixsmi, cnmon and Kunlunxin's xpu-smi print them, each with its own columns.

    | GPU  Name                     | Bus-Id               | Clock-SM  Clock-Mem  |      the header says what stands in which cell
    | Fan  Temp  Perf  Pwr:Usage/Cap|      Memory-Usage    | GPU-Util  Compute M. |
    |===============================+======================+======================|
    | 0    Iluvatar BI-V100         | 00000000:98:00.0     | 1500MHz   1200MHz    |      and a card has as many lines as the header

Cells are found by the words in the header, never by column offset. What is cut off or missing is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from anycard.cards.pci import normal_address
from anycard.cards.seen import Seen, known, number, size, whole
from anycard.units import MIB

_PAIR = re.compile(r"(\d+(?:\.\d+)?)\s*(?:[MG]iB)?\s*/\s*(\d+(?:\.\d+)?)\s*(?:MiB|MB)?", re.IGNORECASE)
_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*W?\s*/\s*(\d+(?:\.\d+)?)\s*W")


def rows(text: str) -> tuple[Seen, ...]:
    """Every card in the table, in its order, with its programs; () when there is no table of cards in ``text``. One that prints itself
    again and again has each card once, as it was at last."""
    running = programs(text)
    seen = {(one.index, one.pci_address): one for head, body in _blocks(text) if (one := _seen(head, body)) is not None}
    return tuple(
        replace(one, processes=None if running is None else running.get(one.index, ())) for one in seen.values()
    )


def programs(text: str) -> dict[int, tuple[tuple[int, int | None], ...]] | None:
    """Index of a card -> (pid, bytes) of its programs, from the table whose header has the words PID and Process or Command. None where
    there is no such table."""
    found: dict[int, tuple[tuple[int, int | None], ...]] = {}
    place = None
    for line in text.splitlines():
        words = line.strip(" |\t").split()
        if "PID" in words and re.search(r"(?i)process|command", line):
            place = words.index("PID")
        elif place is not None and len(words) > place:
            index, pid = whole(words[0]), whole(words[place])
            if index is None or pid is None:
                continue
            held = re.search(r"\s([0-9]{1,9})\s*(?:MiB|MB)?$", " ".join(words[place:]))
            found[index] = (*found.get(index, ()), (pid, int(held[1]) * MIB if held else None))
    return None if place is None else found


def banner(text: str, label: str) -> str | None:
    """``3.1.1`` of ``| IX-ML: 3.1.1   Driver Version: 3.1.0 |`` for the label ``IX-ML``."""
    match = re.search(rf"{label}\s*:?\s*v?(\d[\w.+-]*)", text)
    return match[1] if match else None


_Cells = tuple[tuple[str, ...], ...]  # lines of cells


def _blocks(text: str) -> Iterator[tuple[_Cells, _Cells]]:
    """(header, card) for each card of the table of cards."""
    head: list[tuple[str, ...]] = []
    body: list[tuple[str, ...]] = []
    in_table = False
    for line in text.splitlines():
        stripped = line.strip()
        if re.match(r"[|+]\s*[=-]{3,}|[=-]{3,}$", stripped) or not stripped:
            if "=" in stripped:
                in_table = bool(head) and any("bus-id" in cell.lower() for row in head for cell in row)
            elif body and in_table:
                yield tuple(head), tuple(body)
            body = []
            in_table = in_table and bool(stripped)  # a blank line ends the table: what follows lists programs
            if not in_table:
                head = []
        elif stripped.startswith("|"):
            cells = tuple(cell for cell in stripped.strip("|").split("|"))
            if in_table:
                if body and re.match(r"\s*\d+\s+\S", cells[0]) and len(body) >= len(head):
                    yield tuple(head), tuple(body)
                    body = []
                body.append(cells)
            else:
                head.append(cells)
    if body and in_table:
        yield tuple(head), tuple(body)


def _seen(head: _Cells, body: _Cells) -> Seen | None:
    first = _cell(head, body, "name")
    index = re.match(r"\s*([0-9]{1,4})\b", first)
    if index is None or len(body[0]) != len(head[0]):
        return None
    memory = _PAIR.search(_cell(head, body, "memory-usage"))
    power = _POWER.search(_cell(head, body, "pwr"))
    return Seen(
        index=int(index[1]),
        model=_word(head, body, "name") or "",
        pci_address=_address(_cell(head, body, "bus-id")),
        memory_bytes=size(memory[2], MIB) if memory else None,
        memory_used_bytes=_used(memory[1]) if memory else None,
        temperature_c=_first(r"(-?\d+)\s*C\b", _cell(head, body, "temp")),
        power_w=number(power[1]) if power else None,
        power_limit_w=(number(power[2]) or None) if power else None,
        utilisation=_ratio(_cell(head, body, "util")),
    )


def _used(text: str) -> int | None:
    value = number(text, MIB)
    return None if value is None else round(value)


def _cell(head: _Cells, body: _Cells, label: str) -> str:
    """The card's cell under the header cell that has ``label`` in it; empty where the table has none or is cut off."""
    for head_line, line in zip(head, body, strict=False):
        for name, cell in zip(head_line, line, strict=False):
            if label in name.lower():
                return cell
    return ""


def _word(head: _Cells, body: _Cells, label: str) -> str | None:
    """The value that stands where ``label`` stands in its header cell; values and labels are two blanks or more apart."""
    for head_line, line in zip(head, body, strict=False):
        for name, cell in zip(head_line, line, strict=False):
            labels, values = _words(name), _words(cell)
            place = next((at for at, one in enumerate(labels) if one.lower().startswith(label)), None)
            if place is not None:
                return known(values[place]) if place < len(values) else None
    return None


def _address(cell: str) -> str | None:
    match = re.search(r"[0-9a-fA-F]{4,8}(:[0-9a-fA-F]{2}){2}\.[0-7]", cell)
    return normal_address(match[0]) if match else None


def _words(cell: str) -> Sequence[str]:
    return re.split(r"\s{2,}", cell.strip())


def _first(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text)
    return float(match[1]) if match else None


def _ratio(text: str) -> float | None:
    percent = _first(r"(\d+(?:\.\d+)?)\s*%", text)
    return None if percent is None else percent / 100
