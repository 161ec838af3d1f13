"""What stands on the PCI bus, by sysfs. Identities are read once per address: they change only when a card is swapped."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from anycard.host.host import Host

DEVICES = "/sys/bus/pci/devices"
# Base classes and sub-classes that cards have: 03 display, 12 processing accelerator, 0b40 co-processor (PCI code and ID assignment).
_CLASSES = ("03", "12", "0b40")
_KUNLUN = (
    "1d22",
    "0780",
)  # K200 and R200 call themselves communication controllers (lspci in Paddle Lite's and PaddleX's guides)


@dataclass(frozen=True, slots=True)
class PciDevice:
    """Numbers in lower-case hexadecimal digits, ``kind`` the class code (``0302``). ``driver`` None: no kernel driver is bound."""

    address: str
    vendor: str
    device: str
    kind: str
    driver: str | None = None


def scan(host: Host) -> tuple[PciDevice, ...] | None:
    """Display controllers and accelerators, virtual functions of a card listed here left out. None: this system shows no bus."""
    names = host.list_folder(DEVICES)
    if names is None:
        return None
    with _lock:
        known = _identities.setdefault(host, {})
        for gone in set(known) - set(names):
            del known[gone]
    found = []
    for name in names:
        if name not in known:
            known[name] = _identity(host, name)
        if (identity := known.get(name)) is not None:  # another thread may have seen meanwhile that it is gone
            found.append(PciDevice(name, *identity, driver=driver(host, name)))
    return tuple(found)


def may_have(host: Host, vendor_id: str, nodes: Iterable[str] = ()) -> bool:
    """False when there is a bus and neither a card of ``vendor_id`` on it nor one of ``nodes``: its tools need not be run."""
    on_bus = scan(host)
    return on_bus is None or any(seen.vendor == vendor_id for seen in on_bus) or any(map(host.exists, nodes))


def driver(host: Host, address: str) -> str | None:
    return _last(host.readlink(f"{DEVICES}/{address}/driver"))


def numa_node(host: Host, address: str | None) -> int | None:
    text = (host.read(f"{DEVICES}/{address}/numa_node").text or "").strip() if address else ""
    return int(text) if text.isdigit() else None  # -1: the firmware does not tell


def normal_address(text: str | None) -> str | None:
    """``00000000:65:00.0``, ``65:00.0`` and ``0000:65:00.0`` -> ``0000:65:00.0``; None for what is no address."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])", (text or "").strip())
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower() if match else None


def of_location(domain: int, location: int) -> str:
    """The address that KFD writes as two numbers."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _identity(host: Host, name: str) -> tuple[str, str, str] | None:
    """(vendor, device, class), or None where it is no card."""
    kind = _number(host, name, "class")[:4]
    if not kind.startswith((*_CLASSES, _KUNLUN[1])) or host.readlink(f"{DEVICES}/{name}/physfn") is not None:
        return None
    vendor, device = _number(host, name, "vendor"), _number(host, name, "device")
    if not kind.startswith(_CLASSES) and (vendor, kind) != _KUNLUN:
        return None  # a modem
    return (vendor, device, kind) if vendor and device else None


def _number(host: Host, name: str, file: str) -> str:
    return (host.read(f"{DEVICES}/{name}/{file}").text or "").strip().lower().removeprefix("0x")


def _last(path: str | None) -> str | None:
    return path.rpartition("/")[2] or None if path else None


_identities: WeakKeyDictionary[Host, dict[str, tuple[str, str, str] | None]] = WeakKeyDictionary()
_lock = threading.Lock()
