"""``resources.accelerators`` in all its spellings.

``A100``  ``A100:8``  ``{A100: 8}``  ``[A100:1, V100:2]`` and ``{A100: 1, V100: 2}`` (alternatives, in the order written)
``2`` (any accelerators)  ``any``  ``any:2`` (any accelerator, else the CPU)  ``cpu`` (no accelerator)  ``24GB+``
``nvidia:24GB+:2`` (by card memory)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, is_null, written
from anycard.units import parse_bytes

MAX_CARDS = 1024  # of one item; far above any one machine
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()/-]{0,63}")
_COUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_BARE_COUNT = re.compile(r"[0-9]{1,2}")  # three and four digits are names: 970, 4090
_BY_MEMORY = re.compile(
    r"(?:([A-Za-z][A-Za-z-]{0,31}):)?([0-9]{1,6}(?:\.[0-9]{1,3})?[GMTgmt][Ii]?[Bb])\+?(?::(.*))?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class CardAsk:
    """``count`` cards called ``name`` (None: any) with at least ``memory_bytes`` each; 0 cards is the CPU. ``else_cpu``: and the CPU
    when no such card will do."""

    count: int
    name: str | None = None
    memory_bytes: int | None = None
    else_cpu: bool = False


CPU_ONLY = CardAsk(0)


def read_accelerators(node: Node, key: str, faults: Faults) -> tuple[CardAsk, ...]:
    """The alternatives in the order written; empty after a fault."""
    if is_null(node):
        return (CPU_ONLY,)
    asks: list[CardAsk | None] = []
    if isinstance(node, Scalar):
        asks.append(_read_one(node.text, None, node.place, key, faults))
    elif isinstance(node, MapNode):
        for name, count in node.entries:
            if isinstance(count, Scalar):
                asks.append(_read_one(name.text, None if count.is_null else count.text, name.place, key, faults))
            else:
                faults.add(count.place, "{key}: a count is a whole number, not {value}", key=key, value=written(count))
    else:
        for item in node.items:
            if isinstance(item, ListNode):
                faults.add(item.place, "{key}: a list holds NAME or NAME:COUNT, not another list", key=key)
            else:
                asks.extend(read_accelerators(item, key, faults))
    if not isinstance(node, Scalar) and not (node.items if isinstance(node, ListNode) else node.entries):
        faults.add(node.place, "{key} is empty: write NAME, NAME:COUNT, or leave it out", key=key)
    return tuple(ask for ask in asks if ask is not None)


def _read_one(text: str, count_text: str | None, place: Place, key: str, faults: Faults) -> CardAsk | None:
    by_memory = _BY_MEMORY.fullmatch(text)
    if by_memory:
        vendor, size, inner_count = by_memory.groups()
        count = _read_count(inner_count if count_text is None else count_text, text, place, key, faults)
        return None if count is None else CardAsk(count, vendor, parse_bytes(size))
    if count_text is None and _BARE_COUNT.fullmatch(text):
        count = _read_count(text, text, place, key, faults)
        return None if count is None else CardAsk(count)
    name, colon, inner_count = text.partition(":")
    name = name.strip()
    if not _NAME.fullmatch(name) or (colon and count_text is not None):
        faults.add(
            place,
            "{key}: {value} is no accelerator; write NAME, NAME:COUNT (A100:8), any, cpu, or a card memory (24GB+)",
            key=key,
            value=text,
        )
        return None
    count = _read_count(inner_count if colon else count_text, text, place, key, faults)
    if count is None:
        return None
    if name.lower() == "cpu":
        if count != 1:
            faults.add(place, "{key}: the CPU is given by cores, write cpus: {count}", key=key, count=count, value=text)
            return None
        return CPU_ONLY
    if name.lower() == "any":
        return CardAsk(count, None, else_cpu=True)
    return CardAsk(count, name)


def _read_count(text: str | None, written_as: str, place: Place, key: str, faults: Faults) -> int | None:
    if text is None:
        return 1
    text = text.strip()
    if _COUNT.fullmatch(text):
        number = float(text)
        if number.is_integer() and 1 <= number <= MAX_CARDS:
            return int(number)
        if number.is_integer():
            faults.add(
                place,
                "{key}: a count is from 1 to {most}, not {value} (cpu means none)",
                key=key,
                most=MAX_CARDS,
                value=text,
            )
            return None
        faults.add(
            place,
            "{key}: {value} asks for a part of a card; slices are not here yet, ask for whole cards",
            key=key,
            value=written_as,
        )
        return None
    faults.add(place, "{key}: a count is a whole number, not {value}", key=key, value=text)
    return None
