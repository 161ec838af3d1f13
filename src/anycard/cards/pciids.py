"""What cards are called by their PCI numbers: a shipped table (tools/pci_names.py says where from), else the machine's own pci.ids."""

from __future__ import annotations

import csv
import functools
import re
from importlib import resources
from weakref import WeakKeyDictionary

from anycard.cards.pci import PciDevice
from anycard.host.host import Host
from anycard.units import MIB

_LISTS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


def name_of(host: Host, device: PciDevice) -> str | None:
    """The market name, or None where nobody knows it."""
    return shipped_name(device.vendor, device.device) or _listed_name(host, device)


def shipped_name(vendor: str, device: str) -> str | None:
    return _shipped().get((vendor, device))


def named_by_numbers(text: str) -> str | None:
    """The name for ``10de:2330``; None for what is no such pair, or one that the shipped table does not have."""
    match = re.fullmatch(r"\s*(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})\s*", text.lower())
    return shipped_name(match[1], match[2]) if match else None


@functools.cache
def _shipped() -> dict[tuple[str, str], str]:
    text = resources.files("anycard.cards").joinpath("data/pci.csv").read_text("utf-8")
    return {(row["vendor"], row["device"]): row["name"] for row in csv.DictReader(text.splitlines())}


def _listed_name(host: Host, device: PciDevice) -> str | None:
    known = _looked_up.setdefault(host, {})
    key = device.vendor, device.device
    if key not in known:
        known[key] = _look_up(host, device)
    return known[key]


def _look_up(host: Host, device: PciDevice) -> str | None:
    for path in _LISTS:
        text = host.read(path, 4 * MIB).text
        section = re.search(rf"^{device.vendor}  .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE) if text else None
        if section and (entry := re.search(rf"^\t{device.device}  (.+)$", section[1], re.MULTILINE)):
            sold = re.search(r"\[(.+)\]", entry[1])
            return (sold[1] if sold else entry[1]).strip()
    return None


_looked_up: WeakKeyDictionary[Host, dict[tuple[str, str], str | None]] = WeakKeyDictionary()  # the list has 1.4 MB
