"""AMD and Intel: small files of the kernel's drivers, found once and read each second.

The files of a card that sleeps (runtime power management) are left alone: reading them would wake it. It does nothing then, that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from anycard.cards import drm, pci
from anycard.cards.readings import gpumetrics
from anycard.cards.readings.gpumetrics import Throttling
from anycard.cards.readings.shapes import CardUse, Look
from anycard.cards.seen import number
from anycard.cards.vendors import amd, intel
from anycard.host.host import Host
from anycard.model.card import Reading
from anycard.model.instant import Instant

_FIND_S = 30.0  # a card that comes (Thunderbolt, a driver loaded) is seen after so long
_FILE_BYTES = 256
_KFD = "/sys/class/kfd/kfd"
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # PCIe, by GT/s of a lane


@dataclass(frozen=True, slots=True)
class _Card:
    """``files``: field of Reading -> (path, what its number is divided by). ``idle_ms`` counts milliseconds asleep within the running card,
    ``energy`` microjoules: what moves of these becomes utilisation and power. ``kfd``: the number in AMD's files about programs;
    ``metrics``: the file that says why a card of AMD's is slowed down (``gpumetrics``)."""

    id: str
    folder: str
    memory_total_bytes: int | None
    files: Mapping[str, tuple[str, float]]
    throttle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    idle_ms: str | None = None
    energy: str | None = None
    errors: str | None = None
    kfd: str | None = None
    metrics: str | None = None


class SysfsReader:
    """See ``Reader``."""

    period_s = 1.0

    def __init__(self, name: str, host: Host, find: Callable[[Host], Sequence[_Card]]) -> None:
        self.name = name
        self._host = host
        self._find = find
        self._cards: Sequence[_Card] = ()
        self._found_s = float("-inf")
        self._before: dict[str, tuple[float, float]] = {}  # path of a counter -> (boot second, value)
        self._throttling: dict[str, Throttling] = {}  # by card
        self._away: set[str] = set()  # folders of cards that were here

    def look(self, at: Instant) -> Look:
        came_back = any(self._host.exists(f"{folder}/driver") for folder in self._away)
        if came_back or at.boot_s - self._found_s >= _FIND_S:
            self._cards, self._found_s = self._find(self._host), at.boot_s  # its files may have other names than before
            self._away.clear()
        here = [card for card in self._cards if self._host.exists(card.folder)]
        self._away |= {card.folder for card in self._cards} - {card.folder for card in here}
        readings = tuple(self._reading(card, at.boot_s) for card in here)
        return Look(readings, self._uses())

    def close(self) -> None:
        """Nothing is open."""

    def _text(self, path: str) -> str:
        return self._host.read(path, _FILE_BYTES).text or ""

    def _reading(self, card: _Card, boot_s: float) -> Reading:
        if self._text(f"{card.folder}/power/runtime_status").strip() == "suspended":
            return Reading(card.id, utilisation=0.0, memory_total_bytes=card.memory_total_bytes)
        values = {name: number(self._text(path), 1 / divisor) for name, (path, divisor) in card.files.items()}
        asleep = self._growth(card.idle_ms, boot_s)
        energy = self._growth(card.energy, boot_s)
        corrected, uncorrected = self._errors(card)
        used = values.get("memory_used_bytes")
        return Reading(
            card.id,
            utilisation=values.get("utilisation") if asleep is None else min(1.0, max(0.0, 1 - asleep / 1000)),
            memory_used_bytes=None if used is None else round(used),
            memory_total_bytes=card.memory_total_bytes,
            temperature_c=values.get("temperature_c"),
            power_w=values.get("power_w") if energy is None else energy / 1e6,
            power_limit_w=values.get("power_limit_w") or None,
            clock_mhz=values.get("clock_mhz"),
            memory_clock_mhz=values.get("memory_clock_mhz"),
            fan=values.get("fan"),
            throttle_reasons=self._throttle(card, values.get("power_w"), values.get("power_limit_w")),
            memory_utilisation=values.get("memory_utilisation"),
            pcie_generation=_GENERATIONS.get(values.get("pcie_generation") or 0.0),
            pcie_width=_whole(values.get("pcie_width")),
            ecc_corrected=corrected,
            ecc_uncorrected=uncorrected,
        )

    def _growth(self, path: str | None, boot_s: float) -> float | None:
        """By how much a counter grew in a second since the last look; None at the first, and when it began anew."""
        value = number(self._text(path)) if path is not None else None
        if path is None or value is None:
            return None
        before, self._before[path] = self._before.get(path), (boot_s, value)
        if before is None or boot_s <= before[0] or value < before[1]:
            return None
        return (value - before[1]) / (boot_s - before[0])

    def _throttle(self, card: _Card, power_w: float | None, limit_w: float | None) -> tuple[str, ...] | None:
        if card.metrics is not None:
            share = power_w / limit_w if power_w is not None and limit_w else None
            data = self._host.read(card.metrics, gpumetrics.FILE_BYTES).data
            return self._throttling.setdefault(card.id, Throttling()).reasons(data, share)
        if not card.throttle:
            return None
        return tuple(
            reason for reason, paths in card.throttle.items() if any(self._text(path).strip() == "1" for path in paths)
        )

    def _errors(self, card: _Card) -> tuple[int | None, int | None]:
        """``ue: 0`` and ``ce: 0``: memory errors that could not be corrected, and that were."""
        words = (
            dict(line.replace(" ", "").split(":", 1) for line in self._text(card.errors).splitlines() if ":" in line)
            if card.errors
            else {}
        )
        return _whole(number(words.get("ce"))), _whole(number(words.get("ue")))

    def _uses(self) -> tuple[CardUse, ...]:
        """By AMD's compute driver: what each program has of a card's memory."""
        cards = [card for card in self._cards if card.kfd is not None]
        if not cards:
            return ()
        found = []
        for pid in self._host.list_folder(f"{_KFD}/proc") or ():
            for card in cards:
                size = number(self._text(f"{_KFD}/proc/{pid}/vram_{card.kfd}"))
                if pid.isdigit() and size:
                    found.append(CardUse(card.id, int(pid), round(size)))
        return tuple(found)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _link(folder: str) -> dict[str, tuple[str, float]]:
    return {
        "pcie_generation": (f"{folder}/current_link_speed", 1),  # "16.0 GT/s PCIe"
        "pcie_width": (f"{folder}/current_link_width", 1),
    }


# ---- AMD


def amd_cards(host: Host) -> list[_Card]:
    """Of the kernel's driver amdgpu."""
    numbers = _kfd_numbers(host)
    return [_amd_card(host, device, numbers.get(device.address)) for device in amd.devices(host)]


def _amd_card(host: Host, device: pci.PciDevice, kfd: str | None) -> _Card:
    folder = f"{pci.DEVICES}/{device.address}"
    seen = amd.of_sysfs(host, device)
    files = {
        "utilisation": (f"{folder}/gpu_busy_percent", 100.0),
        "memory_utilisation": (f"{folder}/mem_busy_percent", 100.0),
        "memory_used_bytes": (f"{folder}/mem_info_vram_used", 1.0),
        **_link(folder),
    }
    if (sensors := drm.sensors_folder(host, folder)) is not None:
        power = "power1_average" if host.exists(f"{sensors}/power1_average") else "power1_input"
        files |= {
            "temperature_c": (f"{sensors}/temp1_input", 1e3),
            "power_w": (f"{sensors}/{power}", 1e6),
            "power_limit_w": (f"{sensors}/power1_cap", 1e6),
            "clock_mhz": (f"{sensors}/freq1_input", 1e6),
            "memory_clock_mhz": (f"{sensors}/freq2_input", 1e6),
            "fan": (f"{sensors}/pwm1", 255.0),
        }
    errors, metrics = f"{folder}/ras/umc_err_count", f"{folder}/gpu_metrics"
    return _Card(
        id=seen.card_id(amd.VENDOR),
        folder=folder,
        memory_total_bytes=seen.memory_bytes,
        files=files,
        errors=errors if host.exists(errors) else None,
        metrics=metrics if host.exists(metrics) else None,
        kfd=kfd,
    )


def _kfd_numbers(host: Host) -> dict[str, str]:
    """PCI address -> the number that the compute driver gives the card."""
    found: dict[str, str] = {}
    for node in host.list_folder(f"{_KFD}/topology/nodes") or ():
        gpu = (host.read(f"{_KFD}/topology/nodes/{node}/gpu_id", 64).text or "").strip()
        text = host.read(f"{_KFD}/topology/nodes/{node}/properties").text or ""
        values = dict(words for line in text.splitlines() if len(words := line.split()) == 2)
        domain, location = values.get("domain", "0"), values.get("location_id", "")
        if gpu.isdigit() and int(gpu) and domain.isdigit() and location.isdigit():
            found.setdefault(pci.of_location(int(domain), int(location)), gpu)
    return found


# ---- Intel

# The kernel's words for why a card is slowed down (i915 and xe have the same), by ours.
_INTEL_THROTTLE = {
    "power-cap": ("pl1", "pl2", "pl4"),
    "hardware-thermal": ("thermal", "ratl", "vr_thermalert"),
    "hardware-slowdown": ("prochot",),
    "current-limit": ("vr_tdc",),
}


def intel_cards(host: Host) -> list[_Card]:
    """Of the kernel's drivers i915 and xe. Utilisation is the share of the time in which the card was awake."""
    return [_intel_card(host, at, device) for at, device in enumerate(intel.devices(host))]


def _intel_card(host: Host, index: int, device: pci.PciDevice) -> _Card:
    folder = f"{pci.DEVICES}/{device.address}"
    seen = intel.of_sysfs(host, index, device, {})
    files = _link(folder)
    idle: str | None
    if device.driver == "xe":
        gt = f"{folder}/tile0/gt0"
        files["clock_mhz"] = (f"{gt}/freq0/act_freq", 1.0)
        idle, reasons = f"{gt}/gtidle/idle_residency_ms", f"{gt}/freq0/throttle/reason_"
    else:
        card = drm.card_folder(host, device.address) or folder
        files["clock_mhz"] = (f"{card}/gt_act_freq_mhz", 1.0)
        idle, reasons = f"{card}/gt/gt0/rc6_residency_ms", f"{card}/gt/gt0/throttle_reason_"
    energy = None
    if (sensors := drm.sensors_folder(host, folder)) is not None:
        files["temperature_c"] = (f"{sensors}/{'temp2' if device.driver == 'xe' else 'temp1'}_input", 1e3)
        files["power_limit_w"] = (f"{sensors}/power1_max", 1e6)
        energy = f"{sensors}/energy1_input"
    return _Card(
        id=seen.card_id(intel.VENDOR),
        folder=folder,
        memory_total_bytes=seen.memory_bytes,
        files=files,
        throttle={
            reason: tuple(f"{reasons}{word}" for word in words)
            for reason, words in _INTEL_THROTTLE.items()
            if host.exists(f"{reasons}{words[0]}")
        },
        idle_ms=idle if host.exists(idle) else None,
        energy=energy if energy and host.exists(energy) else None,
    )
