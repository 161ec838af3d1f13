"""What AMD's compute driver (KFD, also under Hygon's) says in sysfs: its nodes, and which programs hold memory on which card.

``/sys/class/kfd/kfd/proc/PID/vram_GPUID`` is the bytes that a program holds on a card (the kernel's kfd_process.c); ``gpu_id`` beside a
node's properties says which card that is. Programs that only draw (a desktop) are not there.
"""

from __future__ import annotations

from anycard.cards import pci
from anycard.host.host import Host

NODES = "/sys/class/kfd/kfd/topology/nodes"
PROGRAMS = "/sys/class/kfd/kfd/proc"

Programs = dict[str, tuple[tuple[int, int | None], ...]]


def properties(host: Host, path: str) -> dict[str, int]:
    """Words and numbers of a ``properties`` file; empty where it is not there."""
    words = (line.split() for line in (host.read(path).text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def nodes(host: Host) -> list[str]:
    """Names of the nodes, by number: that is the order in which ROCm numbers its cards."""
    return sorted(
        (name for name in host.list_folder(NODES) or () if name.isdigit()),
        key=int,
    )


def address(node: dict[str, int]) -> str | None:
    """The PCI address of a node's properties; None for a processor."""
    return pci.of_location(node.get("domain", 0), node.get("location_id", 0)) if node.get("simd_count") else None


def programs(host: Host) -> Programs | None:
    """PCI address -> (pid, bytes) of the programs that hold memory there. None: this driver does not tell."""
    pids = host.list_folder(PROGRAMS)
    if pids is None:
        return None
    cards = {
        (host.read(f"{NODES}/{node}/gpu_id").text or "").strip(): address(
            properties(host, f"{NODES}/{node}/properties")
        )
        for node in nodes(host)
    }
    found: Programs = {}
    for pid in pids:
        for name in host.list_folder(f"{PROGRAMS}/{pid}") or ():
            where = cards.get(name.removeprefix("vram_")) if name.startswith("vram_") else None
            held = (host.read(f"{PROGRAMS}/{pid}/{name}").text or "").strip() if where else ""
            if (
                where and pid.isdigit() and held.isdigit() and int(held)
            ):  # ROCm opens every card that it sees, and holds nothing there
                found[where] = (*found.get(where, ()), (int(pid), int(held)))
    return found
