"""Cards that stand on the bus and that no vendor's driver or tool answered for, and devices that look like cards and are none.

A machine with a card but without its driver is told so, instead of "no card". What is virtual, drawn in software or made for a server's
console is named as what it is, and never counted as an accelerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anycard.cards import drm, pci
from anycard.cards.pci import PciDevice
from anycard.cards.pciids import name_of
from anycard.cards.problem import Problem
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Card, Health
from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class OtherDevice:
    """``kind``: ``virtual``, ``console`` (of a server's management chip), ``software`` or ``unknown``. ``what`` says it in words."""

    kind: str
    name: str
    what: Text
    pci_address: str | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class _Maker:
    """``classes``: PCI class codes that its cards have (its other devices share the vendor number). ``drivers`` can compute."""

    vendor: str
    label: str
    classes: tuple[str, ...]
    drivers: tuple[str, ...]
    tool: str  # the library or program through which anycard asks; empty: none is known to it


_MAKERS = {
    "10de": _Maker("nvidia", "NVIDIA", ("03",), ("nvidia",), "libnvidia-ml.so.1"),
    "1002": _Maker("amd", "AMD", ("03", "12"), ("amdgpu",), "amdgpu"),
    "8086": _Maker("intel", "Intel", ("03",), ("i915", "xe"), "i915 / xe"),
    "19e5": _Maker("ascend", "Ascend", ("12",), ("devdrv_device_driver", "drv_pcie_host", "ascend"), "npu-smi"),
    "1ed5": _Maker("moorethreads", "Moore Threads", ("03", "12"), ("mtgpu",), "mthreads-gmi"),
    "1d94": _Maker("hygon", "Hygon", ("03", "12", "0b40"), ("hydcu", "hycu", "amdgpu"), "hy-smi"),
    "cabc": _Maker("cambricon", "Cambricon", ("03", "12"), ("cambricon-pci-drv", "cambricon"), "cnmon"),
    "1e3e": _Maker("iluvatar", "Iluvatar", ("03", "12"), ("iluvatar", "bi_driver"), "ixsmi"),
    "9999": _Maker("metax", "MetaX", ("03", "12"), ("metax", "mxgpu"), "mx-smi"),
    "1d22": _Maker("kunlunxin", "Kunlunxin", ("03", "12", "0780"), ("kunlun", "xpu"), "xpu-smi"),
    "1e36": _Maker("enflame", "Enflame", ("03", "12"), ("enflame", "gcu"), ""),
    "1da3": _Maker("habana", "Habana", ("03", "12"), ("habanalabs",), ""),
    "1e52": _Maker("tenstorrent", "Tenstorrent", ("03", "12"), ("tenstorrent",), ""),
}

_VIRTUAL = N_("A virtual machine's display. It draws, and computes nothing.")
_CONSOLE = N_("The console display of a server's management chip. It computes nothing.")
_STRANGE = N_("A display controller or accelerator that anycard does not know: PCI numbers {vendor}:{device}.")
# (vendor, device) -> (kind, name); device "": all of that vendor's
_OTHERS = {
    ("1af4", ""): ("virtual", "virtio GPU"),
    ("1013", "00b8"): ("virtual", "Cirrus Logic GD 5446 (QEMU)"),
    ("1234", "1111"): ("virtual", "Bochs/QEMU standard VGA"),
    ("1b36", ""): ("virtual", "QXL (QEMU)"),
    ("15ad", ""): ("virtual", "VMware SVGA"),
    ("80ee", ""): ("virtual", "VirtualBox graphics adapter"),
    ("1414", ""): ("virtual", "Microsoft Hyper-V video"),
    ("1ab8", ""): ("virtual", "Parallels video"),
    ("1d0f", "1111"): ("virtual", "Amazon EC2 VGA"),
    ("1a03", ""): ("console", "ASPEED"),
    ("102b", ""): ("console", "Matrox"),
    ("126f", ""): ("console", "Silicon Motion"),
    ("19e5", "1711"): ("console", "Huawei iBMC"),
    ("1002", "515e"): ("console", "ATI ES1000"),
    ("1002", "4752"): ("console", "ATI Rage XL"),
}
_SENTENCES = {"virtual": _VIRTUAL, "console": _CONSOLE}


def join(host: Host, cards: Sequence[Card], problems: Sequence[Problem]) -> tuple[Card, ...]:
    """``cards`` and, behind them, those on the bus that none of them is. A card that was here before and is no longer listed by its vendor
    is not gone while it stands on the bus."""
    devices = {seen.address: seen for seen in pci.scan(host) or () if _maker(seen) is not None}
    faults = {problem.vendor: problem for problem in problems}
    joined, answered = [], set()
    for card in cards:
        device = devices.get(card.pci_address or "")
        if device is not None:
            answered.add(device.address)
            if card.health is Health.NOT_FOUND:
                health, reason = _silent(device, faults)
                card = replace(card, health=health, health_reason=reason)
        joined.append(card)
    # Vendors whose cards could not all be told apart by address (a tool that prints none): nothing is added beside them.
    whole = [card for card in cards if card.part_of is None]
    vague = {card.vendor for card in whole if card.is_accelerator and card.pci_address is None}
    count: dict[str, int] = {}
    for address, device in devices.items():
        maker = _maker(device)
        if address in answered or maker is None or maker.vendor in vague:
            continue
        at = count[maker.vendor] = count.get(maker.vendor, sum(card.vendor == maker.vendor for card in whole) - 1) + 1
        health, reason = _silent(device, faults)
        joined.append(
            Card(
                id=f"{maker.vendor}:{address}",
                vendor=maker.vendor,
                model=_labelled(maker, name_of(host, device)) or f"{maker.label} card 0x{device.device}",
                index=at,
                pci_address=address,
                driver=device.driver,
                numa_node=pci.numa_node(host, address),
                device_nodes=drm.nodes(host, address),
                health=health,
                health_reason=reason,
                processes=None,
            )
        )
    return tuple(joined)


def others(host: Host) -> tuple[OtherDevice, ...]:
    """What looks like a card and is none: virtual and console displays, software that draws or computes on the CPU, and the unknown."""
    return (*_strangers(host), *_software(host))


def _maker(device: PciDevice) -> _Maker | None:
    maker = _MAKERS.get(device.vendor)
    if maker is None or (device.vendor, device.device) in _OTHERS or not device.kind.startswith(maker.classes):
        return None
    return maker


def _labelled(maker: _Maker, name: str | None) -> str | None:
    return name if name is None or maker.label.lower() in name.lower() else f"{maker.label} {name}"


def _silent(device: PciDevice, faults: dict[str, Problem]) -> tuple[Health, Text]:
    """Why a card on the bus did not answer."""
    maker = _MAKERS[device.vendor]
    values: dict[str, str | int | float] = {"maker": maker.label, "driver": device.driver or "", "tool": maker.tool}
    if device.driver in ("vfio-pci", "pci-stub"):
        return Health.BLOCKED, Text(_RESERVED, values)
    if device.driver is None:
        return Health.NO_DRIVER, Text(_NO_DRIVER, values)
    if device.driver == "nouveau":
        return Health.NO_DRIVER, Text(_NOUVEAU, values)
    if maker.vendor in faults:
        return Health.UNREACHABLE, faults[maker.vendor].reason
    if not maker.tool:
        return Health.UNKNOWN, Text(_NOT_SPOKEN, values)
    if maker.vendor in ("amd", "intel") and device.driver not in maker.drivers:
        return Health.NO_DRIVER, Text(_OTHER_DRIVER, values)
    return Health.UNREACHABLE, Text(_NO_TOOL, values)


_RESERVED = N_("This card is set aside for virtual machines (driver {driver}).")
_NO_DRIVER = N_(
    "This card stands on the bus, and no driver is bound to it. Install {maker}'s driver; if it is installed, dmesg says why it did not "
    "take the card."
)
_NOUVEAU = N_("The driver nouveau has this card; it cannot compute. Install NVIDIA's driver and restart the machine.")
_OTHER_DRIVER = N_("The driver {driver} has this card; it is not the one that computes ({tool}).")
_NOT_SPOKEN = N_("anycard does not yet speak to {maker}'s driver: that the card is here is all that it can say.")
_NO_TOOL = N_(
    "The driver {driver} has this card, and {tool} does not answer for it: it is not installed here, or this container was not given "
    "the card."
)


def _strangers(host: Host) -> list[OtherDevice]:
    found = []
    for device in pci.scan(host) or ():
        if _maker(device) is not None:
            continue
        kind, name = (
            _OTHERS.get((device.vendor, device.device)) or _OTHERS.get((device.vendor, "")) or ("unknown", None)
        )
        if kind == "unknown" and not device.kind.startswith("03" if device.vendor in _MAKERS else ("03", "12")):
            continue  # co-processors for encryption and the like; a known maker's accelerators that are no cards (Intel's VPU)
        values: dict[str, str | int | float] = {"vendor": device.vendor, "device": device.device}
        found.append(
            OtherDevice(
                kind,
                name or name_of(host, device) or f"{device.vendor}:{device.device}",
                Text(_SENTENCES[kind]) if kind in _SENTENCES else Text(_STRANGE, values),
                device.address,
                device.driver,
            )
        )
    return found


_SOFTWARE = (
    ("/etc/OpenCL/vendors", "pocl", "PoCL", N_("OpenCL on the CPU: programs that ask for an OpenCL device may get it.")),
    ("/usr/share/vulkan/icd.d", "lvp_icd", "llvmpipe", N_("Vulkan on the CPU: programs that ask for a Vulkan device may get it.")),
)  # fmt: skip


def _software(host: Host) -> list[OtherDevice]:
    return [
        OtherDevice("software", name, Text(what))
        for folder, start, name, what in _SOFTWARE
        if any(entry.startswith(start) for entry in host.list_folder(folder) or ())
    ]
