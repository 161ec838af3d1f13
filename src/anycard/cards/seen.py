"""One card as a vendor's tool shows it: who it is and how it is come from the same answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anycard.cards import pci
from anycard.host.host import Host, ProcessSeen
from anycard.model.card import Card, CardProcess, Health, Reading
from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class Seen:
    """Units as in ``Card`` and ``Reading``. ``place`` names a card that has neither UUID nor PCI address, within its vendor.
    ``processes`` are (pid, bytes); None: the tool does not tell. ``part_of`` and ``divided`` as in ``Card``."""

    index: int
    model: str
    uuid: str | None = None
    pci_address: str | None = None
    place: str | None = None
    part_of: str | None = None
    divided: bool = False
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    utilisation: float | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    fan: float | None = None
    architecture: str | None = None
    driver: str | None = None
    runtime: str | None = None
    device_nodes: tuple[str, ...] = ()
    health: Health = Health.OK
    health_reason: Text | None = None
    processes: tuple[tuple[int, int | None], ...] | None = None

    def card_id(self, vendor: str) -> str:
        return f"{vendor}:{self.uuid or self.pci_address or self.place or f'index-{self.index}'}"

    def card(self, host: Host, vendor: str) -> Card:
        return Card(
            id=self.card_id(vendor),
            vendor=vendor,
            model=self.model,
            index=self.index,
            part_of=self.part_of,
            divided=self.divided,
            uuid=self.uuid,
            pci_address=self.pci_address,
            memory_bytes=self.memory_bytes,
            driver=self.driver,
            runtime=self.runtime,
            architecture=self.architecture,
            numa_node=pci.numa_node(host, self.pci_address),
            device_nodes=tuple(node for node in self.device_nodes if host.exists(node)),
            health=self.health,
            health_reason=self.health_reason,
            processes=None if self.processes is None else tuple(_process(host, *one) for one in self.processes),
        )

    def reading(self, vendor: str) -> Reading:
        return Reading(
            card_id=self.card_id(vendor),
            utilisation=self.utilisation,
            memory_used_bytes=self.memory_used_bytes,
            memory_total_bytes=self.memory_bytes,
            temperature_c=self.temperature_c,
            power_w=self.power_w,
            power_limit_w=self.power_limit_w,
            clock_mhz=self.clock_mhz,
            memory_clock_mhz=self.memory_clock_mhz,
            fan=self.fan,
        )


_MOST = 1e18  # a memory of 10^18 bytes is far off


def number(text: object, factor: float = 1.0) -> float | None:
    """The first number in ``text`` (``"54W"``, ``" 0 %"``, ``"-"``, ``"N/A"``, 12), times ``factor``; None where there is none, and
    for one of more digits than anything that is measured has."""
    match = re.match(r"\s*+\(?(-?\d++(?:\.\d+)?)", str(text), re.ASCII)
    value = float(match[1]) if match else None
    return None if value is None or abs(value) > _MOST else value * factor


def whole(text: str) -> int | None:
    """A count or a number of a thing, written in digits alone; None for anything else."""
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


def size(text: object, unit_bytes: int) -> int | None:
    """Bytes; None for what is no number and for 0: no card has no memory."""
    value = number(text, unit_bytes)
    return round(value) if value and value > 0 else None


def known(text: object) -> str | None:
    """``text`` stripped; None for the ways in which tools say "I do not know"."""
    said = str(text if text is not None else "").strip()
    return (
        None if re.fullmatch(r"(?i)|-+|n/?a|\[?n/?a\]?|none|null|unknown|not supported|x{2,}|err!?|0x0", said) else said
    )


def _process(host: Host, pid: int, memory_bytes: int | None) -> CardProcess:
    process = host.process(pid) or ProcessSeen(pid)
    return CardProcess(pid, memory_bytes, process.user, process.command)
