"""The CPU as a card: it is listed, and allocated by cores, but never counted as an accelerator."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from anycard.host import cgroup
from anycard.host.host import Host
from anycard.model.card import CPU_VENDOR, Card

VENDOR = CPU_VENDOR

_Number = TypeVar("_Number", int, float)


def find(host: Host) -> tuple[Card, ...]:
    """One card: ``cores`` are those granted by affinity and control groups, ``memory_bytes`` the host memory that we may use."""
    system = host.ask("system") or {}
    limits = cgroup.limits(host)
    processors = _granted(system)
    return (
        Card(
            id=VENDOR,
            vendor=VENDOR,
            model=_model(host, system),
            memory_bytes=_least(system.get("memory_total_bytes"), limits.memory_bytes),
            architecture=system.get("machine") or None,
            cores=_least(float(len(processors)) if processors else None, limits.cpus),
            numa_node=_only_node(host, processors),
        ),
    )


def numa_nodes(host: Host) -> dict[int, frozenset[int]]:
    """NUMA node -> its processors; empty where the system does not tell."""
    nodes = {}
    for name in host.list_folder("/sys/devices/system/node") or ():
        if match := re.fullmatch(r"node(\d+)", name):
            nodes[int(match[1])] = parse_cpulist(host.read(f"/sys/devices/system/node/{name}/cpulist").text or "")
    return nodes


def parse_cpulist(text: str) -> frozenset[int]:
    """``0-2,5`` -> {0, 1, 2, 5}; what is no number or range is passed over."""
    processors: set[int] = set()
    for part in text.strip().split(","):
        if match := re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip()):
            processors.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(processors)


def _granted(system: dict[str, Any]) -> frozenset[int]:
    affinity, count = system.get("affinity"), system.get("processor_count")
    if isinstance(affinity, list):
        return frozenset(affinity)
    return frozenset(range(count)) if isinstance(count, int) else frozenset()


def _only_node(host: Host, processors: frozenset[int]) -> int | None:
    """The node that holds every granted processor; None when they span several."""
    holders = [node for node, members in numa_nodes(host).items() if processors and processors <= members]
    return holders[0] if len(holders) == 1 else None


def _model(host: Host, system: dict[str, Any]) -> str:
    """The name that its maker gave it, else its instruction set."""
    if host.platform == "darwin":
        name = host.run(("sysctl", "-n", "machdep.cpu.brand_string")).text.strip()
    elif host.platform == "win32":
        name = host.environ.get("PROCESSOR_IDENTIFIER", "")
    else:
        # x86 says it in cpuinfo; ARM only has part numbers there, which lscpu knows by name
        cpuinfo = host.read("/proc/cpuinfo").text or ""
        name = (
            _field(cpuinfo, "model name")
            or _field(host.run(("lscpu",)).text, "Model name")
            or _field(cpuinfo, "Hardware")
        )
    return name or str(system.get("processor") or system.get("machine") or "CPU")


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE)
    return re.sub(r"\s+", " ", match[1]).strip() if match and match[1].strip() not in ("-", "unknown") else ""


def _least(*values: _Number | None) -> _Number | None:
    return min((value for value in values if value is not None), default=None)
