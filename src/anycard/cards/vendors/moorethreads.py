"""Moore Threads, by ``mthreads-gmi``: two lines a card, then a third for ECC."""

from __future__ import annotations

import re
from dataclasses import replace

from anycard.cards import drm, pci, smitable
from anycard.cards.seen import Seen, known, number
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading
from anycard.units import MIB

VENDOR = "moorethreads"
PCI_VENDOR = "1ed5"
_CARD = re.compile(
    r"^(?P<index>[0-9]{1,4})[ \t]++(?P<name>[^|\n]*+)\|[ \t]*+(?P<bus>[0-9a-fA-F:.]*+)[ \t]*+\|[ \t]*+(?P<util>\S++)?"
    r"(?:[ \t]++(?P<used>[0-9]{1,9})\s*MiB\s*\(\s*(?P<total>[0-9]{1,9})\s*MiB\))?",
    re.MULTILINE,
)


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    said = ask_tool(host, VENDOR, ("mthreads-gmi",))
    if said is None:
        return ()
    text = said.table
    driver = re.search(r"Driver Version:\s*(\S+)", text)
    cards = [match for match in _CARD.finditer(text) if match["bus"]]
    if not cards and not driver:
        raise said.not_understood()
    running = smitable.programs(text)
    ends = [match.start() for match in cards[1:]] + [len(text)]
    return tuple(
        replace(
            _card(host, match, text[match.end() : end], driver[1] if driver else None),
            processes=None if running is None else running.get(int(match["index"]), ()),
        )
        for match, end in zip(cards, ends, strict=False)
    )


def _card(host: Host, first: re.Match[str], rest: str, driver: str | None) -> Seen:
    percent, temperature = number(first["util"]), re.search(r"\|\s*(-?\d+)C\b", rest)
    return Seen(
        index=int(first["index"]),
        model=known(first["name"]) or "Moore Threads card",
        pci_address=pci.normal_address(first["bus"]),
        memory_bytes=int(first["total"]) * MIB if first["total"] else None,
        memory_used_bytes=int(first["used"]) * MIB if first["used"] else None,
        utilisation=None if percent is None else percent / 100,
        temperature_c=float(temperature[1]) if temperature else None,
        driver=driver,
        device_nodes=(f"/dev/mtgpu.{first['index']}", *drm.nodes(host, pci.normal_address(first["bus"]))),
    )
