"""Looks at a machine through ``Host``, each turned into the lines that tools and kernels print, so that one set of rules reads them all."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from anycard.host.host import NOT_RECORDED, Host, NodeStat
from anycard.host.libraries.nvml import PROCESS_LISTS, is_divided
from anycard.host.probes import ENVIRON
from anycard.model.card import Card

FILES = ("/proc/version", "/proc/driver/nvidia/version", "/sys/module/amdgpu/version", "/sys/module/nvidia/version")
# What NVML's errors are called by nvidia-smi, which the rules know. Source: nvml.h, nvmlErrorString.
_NVML_SAYS = {
    "LIB_RM_VERSION_MISMATCH": "Failed to initialize NVML: Driver/library version mismatch",
    "DRIVER_NOT_LOADED": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    "OPERATING_SYSTEM": "Failed to initialize NVML: GPU access blocked by the operating system",
    "NO_PERMISSION": "Failed to initialize NVML: Insufficient Permissions",
    "GPU_IS_LOST": "GPU is lost.  Reboot the system to recover this GPU",
    "RESET_REQUIRED": "GPU requires reset",
    "UNKNOWN": "Failed to initialize NVML: Unknown Error",
}
# Nodes that a vendor's programs cannot do without, beside those of its cards.
_NODES = {
    "nvidia": re.compile(r"nvidia(?:\d+|ctl|-uvm)$"),
    "amd": re.compile(r"kfd$"),
    "ascend": re.compile(r"(?:davinci\d+|davinci_manager|devmm_svm|hisi_hdc)$"),
    "wsl": re.compile(r"dxg$"),
}
# strerror of what opening a node may be refused with. EPERM from an open is a control group's device rule: a mode gives EACCES.
_REFUSED = {"EACCES": "Permission denied", "EPERM": "Operation not permitted"}
_PCI = "/sys/bus/pci/devices"
_CARD_CLASSES = ("0x03", "0x12", "0x0b40")  # display, processing accelerator, co-processor


def nvml_lines(host: Host) -> Iterator[str]:
    """What NVML says when it is asked, in nvidia-smi's words."""
    seen = host.ask("nvml")
    if not seen:
        return
    for step in ("init", "count"):
        if error := seen.get(step, {}).get("error"):
            yield _NVML_SAYS.get(error, f"NVML: {error}" if error != "LIBRARY_NOT_FOUND" else "")
    driver = (seen.get("driver") or {}).get("value")
    if driver:
        yield f"Driver Version: {driver}"
    for card in seen.get("cards", ()):
        # Of a card in MIG mode the sums over all instances are root's to see: a refusal is no fault.
        refusable = ("memory", *PROCESS_LISTS) if is_divided(card) else ()
        answers = [answer for name, answer in card.items() if isinstance(answer, dict) and name not in refusable]
        errors = {answer["error"] for answer in answers if "error" in answer}
        for error in sorted(errors & {"GPU_IS_LOST", "RESET_REQUIRED", "OPERATING_SYSTEM", "NO_PERMISSION"}):
            yield f"GPU {card['index']}: {_NVML_SAYS[error]}"


def file_lines(host: Host) -> Iterator[str]:
    for path in FILES:
        text = host.read(path, 65536).text
        if text:
            yield text.rstrip("\n")


def environment_lines(host: Host, cards: Sequence[Card]) -> Iterator[str]:
    """The variables that hide or choose cards, and those of CUDA that name a card which is not there."""
    for name in ENVIRON:
        if name in host.environ and name not in ("PATH", "PYTHONPATH"):
            yield f"{name}={host.environ[name]}"
    nvidia = [card for card in cards if card.vendor == "nvidia" and card.part_of is None]
    shown = host.environ.get("CUDA_VISIBLE_DEVICES", "")
    first = shown.split(",")[0].strip()
    # CUDA reads the list up to the first entry that names nothing. Source: CUDA programming guide, CUDA_VISIBLE_DEVICES.
    if nvidia and first.isdigit() and int(first) >= len(nvidia):
        yield f"CUDA_VISIBLE_DEVICES={shown} is invalid: card {first} of {len(nvidia)} (counted from 0) hides all of them"


def node_lines(host: Host, cards: Sequence[Card], troubled: frozenset[str]) -> Iterator[str]:
    """Device nodes that this user may not open. Of a recorded machine, where nobody tried, those of vendors in trouble."""
    vendors = {card.vendor for card in cards} | troubled
    for path in _nodes(host, cards, vendors):
        node = host.node(path)
        if node is None or not stat.S_ISCHR(node.mode):
            continue
        error = host.read(path, 1).error
        if error in _REFUSED:
            yield _listed(path, node)
            yield f"open {path}: {_REFUSED[error]}"
        elif error == NOT_RECORDED and troubled:
            yield _listed(path, node)


def _nodes(host: Host, cards: Sequence[Card], vendors: set[str]) -> list[str]:
    """Of the cards, and those that their vendors' programs cannot do without."""
    known = [pattern for vendor, pattern in _NODES.items() if vendor in vendors]
    shared = [f"/dev/{name}" for name in host.list_folder("/dev") or () if any(p.match(name) for p in known)]
    # the kernel's card node is the display server's; programs that compute open the render node
    own = [path for card in cards for path in card.device_nodes if "/dri/card" not in path]
    return list(dict.fromkeys((*shared, *own)))


def _listed(path: str, node: NodeStat) -> str:
    """As ``ls -l`` prints it."""
    return f"{stat.filemode(node.mode)} 1 {node.owner} {node.group} {node.major}, {node.minor} {path}"


def shared_memory_lines(host: Host) -> Iterator[str]:
    """Shared memory, where it has not the mode that everybody's programs count on."""
    node = host.node("/dev/shm")  # noqa: S108 - looked at, not written to
    if node is not None and stat.S_ISDIR(node.mode) and not node.mode & stat.S_IWOTH:
        yield f"{stat.filemode(node.mode)} 2 {node.owner} {node.group} 40 /dev/shm"


def passthrough_lines(host: Host) -> Iterator[str]:
    """Cards that are meant for a guest (``driver_override`` vfio-pci) and have no driver, with what the kernel lacks for it."""
    for address in host.list_folder(_PCI) or ():
        folder = f"{_PCI}/{address}"
        kind = host.read(f"{folder}/class", 16).text or ""
        if not kind.startswith(_CARD_CLASSES):
            continue
        meant = (host.read(f"{folder}/driver_override", 64).text or "").strip()
        if meant == "vfio-pci" and host.readlink(f"{folder}/driver") is None:
            group = host.readlink(f"{folder}/iommu_group")
            if group is None and not host.list_folder("/sys/kernel/iommu_groups"):
                yield f"{address}: driver_override vfio-pci, no driver, no IOMMU group: the kernel has no IOMMU"
            elif group is not None:
                yield f"{address}: driver_override vfio-pci, no driver, IOMMU group {group.rpartition('/')[2]}"


def package_lines(known: dict[str, Any]) -> Iterator[str]:
    """Of a recorded machine: what its Python had installed."""
    for name, version in known.get("packages", {}).items():
        yield f"{name}=={version}"
