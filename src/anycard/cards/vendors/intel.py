"""Intel: integrated graphics and Arc, Flex, Max cards by sysfs (i915, xe); names and memory from ``xpu-smi`` where it is there.

The xe driver has no file for the card's memory, integrated graphics have no sensors: that is normal and stays unknown. Utilisation needs
two looks at counters that only root may read, and is unknown here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from anycard.cards import drm, pci
from anycard.cards.pciids import name_of, shipped_name
from anycard.cards.problem import VendorFault
from anycard.cards.seen import Seen, known, number, size
from anycard.cards.tools import MAX_AGE_S, STATIC_AGE_S, ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "intel"
PCI_VENDOR = "8086"
_DRIVERS = ("i915", "xe")


def find(host: Host) -> tuple[Card, ...]:
    """In bus order, which is that of Level Zero under ZE_ENABLE_PCI_ID_DEVICE_ORDER=1. A tool that hangs takes no card away."""
    seen_devices = devices(host)
    if not seen_devices:
        listed = _told(host) if pci.may_have(host, PCI_VENDOR) else []
        return tuple(_of_tool(at, values).card(host, VENDOR) for at, values in enumerate(listed))
    try:
        told = {_address(values): values for values in _told(host, STATIC_AGE_S)}
    except VendorFault:
        told = {}
    return tuple(
        of_sysfs(host, at, device, told.get(device.address, {})).card(host, VENDOR)
        for at, device in enumerate(seen_devices)
    )


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(of_sysfs(host, at, device, {}).reading(VENDOR) for at, device in enumerate(devices(host)))


def devices(host: Host) -> list[pci.PciDevice]:
    return [
        seen
        for seen in pci.scan(host) or ()
        if seen.vendor == PCI_VENDOR and seen.kind.startswith("03") and seen.driver in _DRIVERS
    ]


def of_sysfs(host: Host, index: int, device: pci.PciDevice, told: Mapping[str, Any]) -> Seen:
    folder = f"{pci.DEVICES}/{device.address}"
    sensors = drm.Sensors(host, folder)
    tool = _of_tool(index, told)
    version = (host.read(f"/sys/module/{device.driver}/version").text or "").strip()
    package = sensors.value("temp2_input", 1e3) if device.driver == "xe" else sensors.value("temp1_input", 1e3)
    return Seen(
        index=index,
        model=name_of(host, device) or (tool.model if told else f"Intel Graphics 0x{device.device}"),
        uuid=tool.uuid,
        pci_address=device.address,
        memory_bytes=size(host.read(f"{folder}/lmem_total_bytes").text, 1) or tool.memory_bytes,
        temperature_c=package,
        power_limit_w=sensors.value("power1_max", 1e6) or None,
        clock_mhz=_clock(host, folder, device),
        driver=f"{device.driver} {version}".strip() if device.driver else None,
        device_nodes=drm.nodes(host, device.address),
    )


def _clock(host: Host, folder: str, device: pci.PciDevice) -> float | None:
    if device.driver == "xe":
        return number(host.read(f"{folder}/tile0/gt0/freq0/act_freq").text)
    card = drm.card_folder(host, device.address)
    return number(host.read(f"{card}/gt_act_freq_mhz").text) if card else None


def _told(host: Host, max_age_s: float = MAX_AGE_S) -> list[Mapping[str, Any]]:
    """What ``xpu-smi discovery`` says of each card. Kunlunxin's tool has the same name and another answer: nothing then."""
    said = ask_tool(host, VENDOR, ("xpu-smi", "discovery", "-j"), max_age_s=max_age_s)
    if said is None or "XPU-RT" in said.text:
        return []
    try:
        return [dict(one) for one in json.loads(said.text)["device_list"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        if pci.scan(host) is None and "Intel" not in said.text:
            return []
        raise said.not_understood() from None


def _address(told: Mapping[str, Any]) -> str | None:
    return pci.normal_address(str(told.get("pci_bdf_address")))


def _of_tool(index: int, told: Mapping[str, Any]) -> Seen:
    name = known(told.get("device_name")) or ""
    numbers = re.search(r"\[0x([0-9a-fA-F]{4})\]", name)
    sold = shipped_name(PCI_VENDOR, numbers[1].lower()) if numbers else None
    return Seen(
        index=index,
        model=sold or re.sub(r"\((R|TM)\)", "", name) or "Intel Graphics",
        pci_address=_address(told),
        memory_bytes=size(told.get("memory_physical_size_byte"), 1),
        driver=known(told.get("driver_version")),
    )
