"""``nvidia-smi`` where NVML cannot be loaded into our own process (another C library, a container with the program alone)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from anycard.cards import pci
from anycard.cards.seen import Seen, known, number, size, whole
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Health
from anycard.model.text import Text
from anycard.units import MIB

_VENDOR = "nvidia"
_FIELDS = (
    "index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "driver_version", "compute_cap", "utilization.gpu",
    "temperature.gpu", "power.draw", "enforced.power.limit", "clocks.sm", "clocks.mem", "fan.speed",
)  # fmt: skip
ARGV = ("nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
_MIG_MODE = ("nvidia-smi", "--query-gpu=index,mig.mode.current", "--format=csv,noheader")
_LIST = ("nvidia-smi", "-L")
_LISTED = re.compile(
    r"^GPU (?P<gpu>\d+):|^\s+MIG (?P<profile>\S+)\s+Device\s+(?P<slot>\d+): \(UUID: (?P<uuid>MIG-\S+)\)"
)
_SICK = {
    "[gpu is lost]": Health.LOST,
    "[gpu requires reset]": Health.RESET_REQUIRED,
    "[unknown error]": Health.UNKNOWN,
}


def cards(host: Host) -> tuple[Seen, ...]:
    """VendorFault when the program is here, NVIDIA's cards may be, and what it says cannot be read."""
    if not pci.may_have(host, "10de", ("/dev/dxg", "/dev/nvidiactl")):
        return ()
    said = ask_tool(host, _VENDOR, ARGV)
    if said is None:
        return ()
    lines = [[value.strip() for value in line.split(",")] for line in said.text.splitlines()]
    found = tuple(_card(dict(zip(_FIELDS, line, strict=True))) for line in lines if _is_card(line))
    if not found and said.text.strip() != "No devices were found":
        raise said.not_understood()
    return tuple(_with_instances(host, found))


def _with_instances(host: Host, cards: Sequence[Seen]) -> Iterator[Seen]:
    """Cards in MIG mode marked as divided, each with its instances behind it. Only a card that tells no utilisation may be in that mode:
    where each tells it nothing more is asked. ``nvidia-smi -L`` knows no memory of an instance."""
    divided = _divided(host) if any(card.utilisation is None for card in cards) else frozenset()
    listed = ask_tool(host, _VENDOR, _LIST) if divided else None
    instances: dict[int, list[tuple[int, str, str]]] = {}
    gpu = -1
    for line in listed.text.splitlines() if listed else ():
        found = _LISTED.match(line)
        if found and found["gpu"]:
            gpu = int(found["gpu"])
        elif found:
            instances.setdefault(gpu, []).append((int(found["slot"]), found["profile"], found["uuid"]))
    for card in cards:
        yield replace(card, divided=True) if card.index in divided else card
        for slot, profile, uuid in instances.get(card.index, ()):
            yield Seen(
                index=slot,
                model=f"{card.model} MIG {profile}",
                uuid=uuid,
                part_of=card.card_id(_VENDOR),
                architecture=card.architecture,
                driver=card.driver,
            )


def _divided(host: Host) -> frozenset[int]:
    """Indexes of the cards in MIG mode."""
    said = ask_tool(host, _VENDOR, _MIG_MODE)
    lines = [line.split(",") for line in said.text.splitlines()] if said else []
    modes = {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}
    return frozenset(int(index) for index, mode in modes.items() if index.isdigit() and mode == "Enabled")


def _is_card(values: list[str]) -> bool:
    return len(values) == len(_FIELDS) and whole(values[0]) is not None


def _card(values: dict[str, str]) -> Seen:
    health = next((_SICK[value.lower()] for value in values.values() if value.lower() in _SICK), Health.OK)
    percent, fan = number(values["utilization.gpu"]), number(values["fan.speed"])
    used = number(values["memory.used"], MIB)
    return Seen(
        index=int(values["index"]),
        model=_named(values["name"]) or "NVIDIA card",
        uuid=_named(values["uuid"]),
        pci_address=pci.normal_address(values["pci.bus_id"]),
        memory_bytes=size(values["memory.total"], MIB),
        memory_used_bytes=None if used is None else round(used),
        driver=_named(values["driver_version"]),
        architecture=_named(values["compute_cap"]),
        utilisation=None if percent is None else percent / 100,
        temperature_c=number(values["temperature.gpu"]),
        power_w=number(values["power.draw"]),
        power_limit_w=number(values["enforced.power.limit"]),
        clock_mhz=number(values["clocks.sm"]),
        memory_clock_mhz=number(values["clocks.mem"]),
        fan=None if fan is None else fan / 100,
        health=health,
        health_reason=None if health is Health.OK else Text(_SAID, {"health": health.value}),
    )


def _named(value: str) -> str | None:
    """A value, or None for any of nvidia-smi's words in brackets."""
    return None if value.startswith("[") else known(value)


_SAID = N_("nvidia-smi says that this card is {health}. Look for lines with NVRM or Xid in dmesg; restart the machine.")
