"""What the kernel's log says about cards: NVIDIA's Xid errors, resets and hangs of AMD and Intel, bus errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from anycard.cards import pci
from anycard.cards.readings.shapes import Look, Mark, MarkKind
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Card
from anycard.model.instant import Instant
from anycard.model.text import Text

NAME = "kernel"
_LONGEST = 300  # characters of a line that are shown

_XID_LINE = N_("Xid {number}: {line}")
_LINE = N_("The kernel says: {line}")
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<number>\d+)(?:, )?(?P<rest>.*)")
# Words of the drivers' own messages that mean that something happened to a card. Each needs the card's address in the same line.
_TROUBLE = re.compile(
    r"GPU reset|ring \S+ timeout|GPU HANG|GPU hang|VRAM is lost|fallen off the bus|AER:|PCIe Bus Error|uncorrectable|"
    r"wedged|Engine reset|device lost|Link Down|can't change power state",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")


class KernelReader:
    """See ``Reader``. ``cards`` gives those of now: a line speaks of a card by its PCI address."""

    name = NAME
    period_s = 1.0

    def __init__(self, host: Host, cards: Callable[[], Sequence[Card]]) -> None:
        self._session = host.session("kernel_log")
        self._cards = cards

    def look(self, at: Instant) -> Look:
        seen = self._session.look()
        if not seen or not seen["lines"]:
            return Look()
        by_address = {card.pci_address: card.id for card in self._cards() if card.pci_address is not None}
        return Look(marks=tuple(_marks((line["text"] for line in seen["lines"]), by_address, at)))

    def close(self) -> None:
        self._session.close()


def _marks(lines: Iterator[str], by_address: dict[str, str], at: Instant) -> Iterator[Mark]:
    for line in lines:
        if xid := _XID.search(line):
            address = pci.normal_address(xid["address"] if "." in xid["address"] else f"{xid['address']}.0")
            text = Text(_XID_LINE, {"number": int(xid["number"]), "line": xid["rest"][:_LONGEST]})
            yield Mark(at.utc_s, by_address.get(address or ""), MarkKind.XID, text)
            continue
        if not _TROUBLE.search(line):
            continue
        for named in _ADDRESS.findall(line):
            card_id = by_address.get(pci.normal_address(named) or "")
            if card_id is not None:
                yield Mark(at.utc_s, card_id, MarkKind.KERNEL, Text(_LINE, {"line": line[:_LONGEST]}))
                break
