"""NVIDIA cards, from what NVML answered (``host/libraries/nvml.py``), else from ``nvidia-smi``; what a lost card no longer says comes from
/proc/driver/nvidia."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from anycard.cards import mig, nvidiasmi, pci
from anycard.cards.problem import Problem, VendorFault
from anycard.host.host import Host, Json, ProcessSeen
from anycard.host.libraries.nvml import PROCESS_LISTS, is_divided
from anycard.i18n import N_
from anycard.model.card import Card, CardProcess, Health, Reading
from anycard.model.text import Text

VENDOR = "nvidia"

# Answers that say nothing about a card's health: it, the driver or this binding does not have the thing asked for.
_ABSENT = frozenset(
    {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED", "NO_DATA", "INSUFFICIENT_SIZE"}
)
# A card that cannot answer these is not usable. The others may be refused on a healthy card (a container without rights).
_ESSENTIAL = ("handle", "uuid", "name", "pci", "memory", "instance_slots")
_ALWAYS_THERE = ("handle", "uuid")  # no card and no driver is without these


def find(host: Host) -> tuple[Card, ...]:
    """Every NVIDIA card with its health, behind each its MIG instances; () without NVML and nvidia-smi. VendorFault when the driver as a
    whole does not answer."""
    seen = host.ask("nvml")
    if seen is None or seen["init"].get("error") == "LIBRARY_NOT_FOUND":
        return tuple(card.card(host, VENDOR) for card in nvidiasmi.cards(host))
    for step in ("init", "count"):
        if error := seen[step].get("error"):
            raise driver_fault(error)
    driver = seen["driver"].get("value")
    runtime = _runtime(seen["cuda"].get("value"))
    fallbacks = _Fallbacks(host, seen["cards"])
    cards: list[Card] = []
    for one in seen["cards"]:
        whole = _card(host, one, driver, runtime, fallbacks)
        cards += [whole, *(_instance(host, whole, one, instance) for instance in one.get("instances", ()))]
    return tuple(cards)


def read(host: Host) -> tuple[Reading, ...]:
    """Moving values of every card that gives any; an absent value is None."""
    seen = host.ask("nvml")
    if seen is None or "error" in seen["init"]:
        return tuple(card.reading(VENDOR) for card in nvidiasmi.cards(host) if card.part_of is None)
    every = (one for card in seen["cards"] for one in (card, *card.get("instances", ())))
    return tuple(reading(one) for one in every if "value" in one.get("uuid", {}))


# ---- one card


def _card(host: Host, seen: dict[str, Any], driver: str | None, runtime: str | None, fallbacks: _Fallbacks) -> Card:
    index = seen["index"]
    known = fallbacks.of(index)
    uuid = _value(seen, "uuid") or known.uuid
    pci_address = pci.normal_address(_value(seen, "pci")) or known.pci_address
    health, reason = health_of(seen, index)
    capability = _value(seen, "compute_capability")
    return Card(
        id=f"{VENDOR}:{uuid or pci_address or f'index-{index}'}",
        vendor=VENDOR,
        model=_value(seen, "name") or known.model or "NVIDIA card",
        index=index,
        divided=is_divided(seen),
        uuid=uuid,
        pci_address=pci_address,
        memory_bytes=(_value(seen, "memory") or {}).get("total_bytes"),
        driver=driver,
        runtime=runtime,
        architecture=".".join(map(str, capability)) if capability else None,
        numa_node=pci.numa_node(host, pci_address),
        device_nodes=_device_nodes(host, _value(seen, "minor")),
        health=health,
        health_reason=reason,
        processes=_processes(host, seen),
    )


def _instance(host: Host, whole: Card, seen: dict[str, Any], instance: dict[str, Any]) -> Card:
    slot, uuid = instance["index"], _value(instance, "uuid")
    health, reason = health_of(instance, whole.index)
    capabilities = mig.device_nodes(
        host, _value(seen, "minor"), _value(instance, "gpu_instance"), _value(instance, "compute_instance")
    )
    return Card(
        id=f"{VENDOR}:{uuid}" if uuid else f"{whole.id}/{slot}",
        vendor=VENDOR,
        model=_value(instance, "name") or f"{whole.model} MIG",
        index=slot,
        part_of=whole.id,
        uuid=uuid,
        memory_bytes=(_value(instance, "memory") or {}).get("total_bytes"),
        driver=whole.driver,
        runtime=whole.runtime,
        architecture=whole.architecture,
        numa_node=whole.numa_node,
        device_nodes=(*whole.device_nodes, *capabilities),
        health=health,
        health_reason=reason,
        processes=_processes(host, instance),
    )


def _value(seen: dict[str, Any], name: str) -> Any:
    return seen.get(name, {}).get("value")


def health_of(seen: dict[str, Any], index: int) -> tuple[Health, Text | None]:
    """The worst thing that any answer says, by the order of ``_FAULTS``."""
    errors = {name: answer["error"] for name, answer in seen.items() if isinstance(answer, dict) and "error" in answer}
    if is_divided(seen) and errors.get("memory") == "NO_PERMISSION":
        del errors["memory"]  # the sum over all instances is root's to see (nvml.h, nvmlDeviceGetMemoryInfo)
    essential = {errors[name] for name in _ESSENTIAL if name in errors} - _ABSENT
    essential |= {errors[name] for name in _ALWAYS_THERE if name in errors}
    for error, (health, anywhere, reason) in _FAULTS.items():
        if error in essential or (anywhere and error in errors.values()):
            return health, Text(reason, {"index": index})
    if essential:
        return Health.UNKNOWN, Text(_UNPLACED, {"index": index, "error": sorted(essential)[0]})
    return Health.OK, None


# error -> (health, whether it counts on any call or on the essential ones alone, why and what to do). Worst first.
_FAULTS: dict[str, tuple[Health, bool, str]] = {
    "GPU_IS_LOST": (
        Health.LOST,
        True,
        N_(
            "The driver lost this card: it fell off the PCIe bus. Restart the machine; if it happens again, check its power cables, "
            "seating and temperature, and look for Xid 79 in dmesg."
        ),
    ),
    "RESET_REQUIRED": (
        Health.RESET_REQUIRED,
        True,
        N_(
            "This card needs a reset before it can be used again. End the programs on it, then run: nvidia-smi --gpu-reset -i {index}; "
            "or restart the machine."
        ),
    ),
    "GPU_NOT_FOUND": (
        Health.NOT_FOUND,
        True,
        N_("The driver lists this card but does not find it. Restart the machine; check its seating."),
    ),
    "NOT_FOUND": (
        Health.NOT_FOUND,
        False,
        N_("The driver lists this card but does not find it. Restart the machine; check its seating."),
    ),
    "OPERATING_SYSTEM": (
        Health.BLOCKED,
        False,
        N_(
            "The operating system blocks access to this card. If this is a container or a Slurm job, the card was not granted to it "
            "(device cgroup); else check the owner and mode of /dev/nvidia*."
        ),
    ),
    "NO_PERMISSION": (
        Health.BLOCKED,
        False,
        N_(
            "You may not use this card. Check the owner and mode of /dev/nvidia*, and whether you are in the group that owns them."
        ),
    ),
    "TIMEOUT": (
        Health.UNREACHABLE,
        False,
        N_("The driver did not answer for this card in time. It may be busy or hung; look at dmesg."),
    ),
    "UNKNOWN": (
        Health.UNKNOWN,
        False,
        N_(
            'The driver answers "unknown error" for this card. Look for lines with NVRM or Xid in dmesg; '
            "a restart of the machine often helps."
        ),
    ),
}
_UNPLACED = N_("The driver answers {error} for this card. Look for lines with NVRM or Xid in dmesg.")


def memory_by_pid(seen: dict[str, Any]) -> dict[int, int | None] | None:
    """Each program once, with the most memory (bytes) that any of the lists gives it; None when the list of compute programs is
    unreadable. Of a divided card, those that are on none of its instances: nobody but root sees any there (nvml.h)."""
    if "value" not in seen.get(PROCESS_LISTS[0], {}):
        return {} if is_divided(seen) else None
    on_instances = {
        pid
        for instance in seen.get("instances", ())
        for name in PROCESS_LISTS
        for pid, _ in _value(instance, name) or ()
    }
    memory: dict[int, int | None] = {}
    for name in PROCESS_LISTS:
        for pid, size in _value(seen, name) or ():
            if pid in on_instances:
                continue
            memory[pid] = max((value for value in (memory.get(pid), size) if value is not None), default=None)
    return memory


def _processes(host: Host, seen: dict[str, Any]) -> tuple[CardProcess, ...] | None:
    memory = memory_by_pid(seen)
    if memory is None:
        return None
    computing = {pid for name in PROCESS_LISTS if name != "graphics_processes" for pid, _ in _value(seen, name) or ()}
    found = []
    for pid, size in sorted(memory.items()):
        process = host.process(pid) or ProcessSeen(pid)
        found.append(CardProcess(pid, size, process.user, process.command, draws=pid not in computing))
    return tuple(found)


def _device_nodes(host: Host, minor: int | None) -> tuple[str, ...]:
    """The card's own, and those that a program opens beside it."""
    shared = (path for path in ("/dev/nvidiactl", "/dev/nvidia-uvm") if host.exists(path))
    return () if minor is None else (f"/dev/nvidia{minor}", *shared)


def _runtime(version: int | None) -> str | None:
    """13000 -> ``CUDA 13.0``."""
    return f"CUDA {version // 1000}.{version % 1000 // 10}" if version else None


def card_id(seen: dict[str, Any]) -> str | None:
    """The id of a card that says who it is."""
    uuid = _value(seen, "uuid")
    return f"{VENDOR}:{uuid}" if uuid else None


def reading(seen: dict[str, Any]) -> Reading:
    """Of a card that says who it is, from the answers of ``nvml`` or ``nvml_session``."""
    memory = _value(seen, "memory") or {}
    bits = _value(seen, "throttle_bits")
    rates = _value(seen, "utilisation_percent")
    card, card_memory = rates if isinstance(rates, list) else (rates, None)  # older bundles have the card's alone
    return Reading(
        card_id=card_id(seen) or VENDOR,
        utilisation=None if card is None else card / 100,
        memory_used_bytes=memory.get("used_bytes"),
        memory_total_bytes=memory.get("total_bytes"),
        temperature_c=_scaled(seen, "temperature_c", 1),
        power_w=_scaled(seen, "power_mw", 1000),
        power_limit_w=_scaled(seen, "power_limit_mw", 1000),
        clock_mhz=_scaled(seen, "clock_mhz", 1),
        memory_clock_mhz=_scaled(seen, "memory_clock_mhz", 1),
        fan=_scaled(seen, "fan_percent", 100),
        throttle_reasons=None if bits is None else tuple(name for bit, name in _THROTTLE.items() if bits & bit),
        memory_utilisation=None if card_memory is None else card_memory / 100,
        pcie_generation=_value(seen, "pcie_generation"),
        pcie_width=_value(seen, "pcie_width"),
        ecc_corrected=_value(seen, "ecc_corrected"),
        ecc_uncorrected=_value(seen, "ecc_uncorrected"),
    )


def _scaled(seen: dict[str, Any], name: str, divisor: float) -> float | None:
    value = _value(seen, name)
    return None if value is None else value / divisor


# nvmlClocksEventReason* in nvml.h; "idle" and "application clocks" slow nothing down that was asked for.
_THROTTLE = {
    0x4: "power-cap",
    0x8: "hardware-slowdown",
    0x10: "sync-boost",
    0x20: "software-thermal",
    0x40: "hardware-thermal",
    0x80: "power-brake",
}


# ---- the driver as a whole


def driver_fault(error: str) -> VendorFault:
    """NVML as a whole answered ``error``: to be raised."""
    what, mend = _DRIVER_PROBLEMS.get(
        error,
        (
            N_("NVIDIA's library answers {error}: its cards cannot be asked."),
            N_("Look for lines with NVRM in dmesg, and compare with: nvidia-smi"),
        ),
    )
    return VendorFault(Problem(VENDOR, Text(what, {"error": error}), Text(mend)))


_DRIVER_PROBLEMS = {
    "DRIVER_NOT_LOADED": (
        N_("NVIDIA's library is here but its kernel driver is not loaded."),
        N_(
            "Load it with: sudo modprobe nvidia; if that fails, dmesg says why (Secure Boot, a new kernel without the module, no card)."
        ),
    ),
    "LIB_RM_VERSION_MISMATCH": (
        N_(
            "NVIDIA's library and kernel driver have different versions: the driver was updated while the old one stayed loaded."
        ),
        N_("Restart the machine (or unload and load the nvidia modules while nothing uses a card)."),
    ),
    "NO_PERMISSION": (
        N_("You may not speak to NVIDIA's driver."),
        N_("Check the owner and mode of /dev/nvidiactl, and whether you are in the group that owns it."),
    ),
    "OPERATING_SYSTEM": (
        N_("The operating system blocks access to NVIDIA's driver."),
        N_("In a container or a Slurm job: ask for a card; else check the owner and mode of /dev/nvidiactl."),
    ),
}


# ---- what the kernel's driver still knows of a card that NVML cannot open


@dataclass(frozen=True, slots=True)
class _Known:
    uuid: str | None = None
    pci_address: str | None = None
    model: str | None = None


class _Fallbacks:
    """/proc/driver/nvidia/gpus lists lost cards too. The addresses there that no card answered for are those of the cards without an
    address, in order: both lists go by bus address. Where the counts differ nothing is guessed."""

    def __init__(self, host: Host, cards: Json) -> None:
        answered = {pci.normal_address(_value(card, "pci")) for card in cards}
        silent = [card["index"] for card in cards if pci.normal_address(_value(card, "pci")) is None]
        self._known: dict[int, _Known] = {}
        if not silent:
            return
        listed = {pci.normal_address(name): name for name in host.list_folder("/proc/driver/nvidia/gpus") or ()}
        left = sorted(address for address in listed if address and address not in answered)
        if len(left) == len(silent):
            for index, address in zip(silent, left, strict=True):
                text = host.read(f"/proc/driver/nvidia/gpus/{listed[address]}/information").text or ""
                self._known[index] = _Known(_uuid(text), address, _field(text, "Model"))

    def of(self, index: int) -> _Known:
        return self._known.get(index, _Known())


def _uuid(text: str) -> str | None:
    uuid = _field(text, "GPU UUID")
    return uuid if uuid and "?" not in uuid else None  # the driver writes GPU-????????-... when it cannot ask the card


def _field(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
    return match[1] if match else None
