"""AMD: cards, memory and readings from sysfs (amdgpu, KFD), which answers at once and without ROCm; market names and the version of ROCm's
driver from ``amd-smi`` or ``rocm-smi`` where they are. Without sysfs (a recorded tool output) the tools alone."""

from __future__ import annotations

import re
from dataclasses import replace

from anycard.cards import drm, kfd, pci, rocmsmi
from anycard.cards.pciids import name_of
from anycard.cards.problem import VendorFault
from anycard.cards.seen import Seen, known, number, size
from anycard.cards.tools import MAX_AGE_S, STATIC_AGE_S, Said, ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading
from anycard.units import GIB, MIB

VENDOR = "amd"
PCI_VENDOR = "1002"


def find(host: Host) -> tuple[Card, ...]:
    """A tool that hangs takes no card away: sysfs has them. VendorFault when it is all that there is."""
    seen_devices = devices(host)
    if not seen_devices:
        return tuple(seen.card(host, VENDOR) for seen in _told(host)) if pci.may_have(host, PCI_VENDOR) else ()
    try:
        told = {seen.pci_address: seen for seen in _told(host, STATIC_AGE_S)}
    except VendorFault:
        told = {}
    numbers = _kfd(host)
    running = kfd.programs(host)
    version = (host.read("/sys/module/amdgpu/version").text or "").strip() or None
    cards = []
    for at, device in enumerate(seen_devices):
        said = told.get(device.address)
        index, gfx = numbers.get(device.address, (at, None))
        seen = replace(
            of_sysfs(host, device),
            index=index,
            architecture=gfx or (said.architecture if said else None),
            driver=version or (said.driver if said else None),
            processes=None if running is None else running.get(device.address, ()),
        )
        if said is not None:
            seen = replace(seen, model=said.model or seen.model, memory_bytes=seen.memory_bytes or said.memory_bytes)
        cards.append(seen.card(host, VENDOR))
    return tuple(cards)


def read(host: Host) -> tuple[Reading, ...]:
    if seen_devices := devices(host):
        return tuple(of_sysfs(host, device).reading(VENDOR) for device in seen_devices)
    return tuple(seen.reading(VENDOR) for seen in _told(host)) if pci.scan(host) is None else ()


# ---- sysfs


def devices(host: Host) -> list[pci.PciDevice]:
    """Those that the kernel's driver has."""
    return [seen for seen in pci.scan(host) or () if seen.vendor == PCI_VENDOR and seen.driver == "amdgpu"]


def of_sysfs(host: Host, device: pci.PciDevice) -> Seen:
    folder = f"{pci.DEVICES}/{device.address}"
    unique = (host.read(f"{folder}/unique_id").text or "").strip()
    percent = number(host.read(f"{folder}/gpu_busy_percent").text)
    sensors = drm.Sensors(host, folder)
    power = sensors.value("power1_average", 1e6)
    return Seen(
        index=0,
        model=known(host.read(f"{folder}/product_name").text) or name_of(host, device) or f"AMD card 0x{device.device}",
        uuid=f"GPU-{unique}" if re.fullmatch(r"[0-9a-f]{16}", unique) else None,  # so ROCR_VISIBLE_DEVICES takes it
        pci_address=device.address,
        memory_bytes=size(host.read(f"{folder}/mem_info_vram_total").text, 1),
        memory_used_bytes=_whole(number(host.read(f"{folder}/mem_info_vram_used").text)),
        temperature_c=sensors.value("temp1_input", 1e3),
        power_w=power if power is not None else sensors.value("power1_input", 1e6),
        power_limit_w=sensors.value("power1_cap", 1e6) or None,
        clock_mhz=sensors.value("freq1_input", 1e6),
        memory_clock_mhz=sensors.value("freq2_input", 1e6),
        fan=sensors.value("pwm1", 255),
        utilisation=None if percent is None else percent / 100,
        device_nodes=("/dev/kfd", *drm.nodes(host, device.address)),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _kfd(host: Host) -> dict[str, tuple[int, str | None]]:
    """PCI address -> (number, gfx name). KFD's order of nodes is the one in which ROCm numbers its cards; a card in parts (MI300 in CPX
    mode) has a node for each, and is known by the first."""
    found: dict[str, tuple[int, str | None]] = {}
    count = 0
    for node in kfd.nodes(host):
        values = kfd.properties(host, f"{kfd.NODES}/{node}/properties")
        address = kfd.address(values)
        if address is None:
            continue  # a processor
        target = values.get("gfx_target_version", 0)
        gfx = f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}" if target else None
        found.setdefault(address, (count, gfx))
        count += 1
    return found


# ---- tools


def _told(host: Host, max_age_s: float = MAX_AGE_S) -> tuple[Seen, ...]:
    """What ``amd-smi`` says, else ``rocm-smi``. VendorFault when one is there and neither can be understood."""
    said = ask_tool(host, VENDOR, ("amd-smi", "static", "--json"), max_age_s=max_age_s)
    cards = _amd_smi(said) if said else None
    if cards is None:
        other = ask_tool(host, VENDOR, ("rocm-smi", *rocmsmi.ARGUMENTS), max_age_s=max_age_s)
        cards = rocmsmi.cards(other.text, hygon=False) if other else None
        if cards is None and (failed := other or said) is not None:
            raise failed.not_understood()
    return tuple(replace(seen, model=seen.model or "AMD card") for seen in cards or ())


def _amd_smi(said: Said) -> tuple[Seen, ...] | None:
    """A list of cards (ROCm 6), or one under ``gpu_data`` (ROCm 7). None when it is neither."""
    document = rocmsmi.parse(said.text)
    listed = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        return None
    found = []
    for at, card in enumerate(one for one in listed if isinstance(one, dict)):
        asic, bus, vram, driver = (
            part if isinstance(part := card.get(name), dict) else {} for name in ("asic", "bus", "vram", "driver")
        )
        index = card.get("gpu")
        found.append(
            Seen(
                index=index if isinstance(index, int) else at,
                model=known(asic.get("market_name")) or "",
                pci_address=pci.normal_address(bus.get("bdf")),
                memory_bytes=_vram(vram.get("size")),
                architecture=known(asic.get("target_graphics_version")),
                driver=known(driver.get("version")),
            )
        )
    return tuple(found)


def _vram(value: object) -> int | None:
    """``{"value": 196592, "unit": "MB"}`` or ``"196592 MB"``; the tool means MiB."""
    if isinstance(value, dict):
        return size(value.get("value"), GIB if value.get("unit") == "GB" else MIB)
    return size(value, GIB if str(value).endswith("GB") else MIB)
