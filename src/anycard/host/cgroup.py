"""What the control groups around this process grant it, version 1 and 2: the tightest limit on the way up counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from anycard.host.host import Host

# Version 1 says "no limit" with the largest page-aligned number; nothing above this is a limit (8 EiB less a page, for any page size).
_V1_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """``cpus`` is the quota in cores, ``memory_bytes`` the hard limit; None: not limited."""

    cpus: float | None = None
    memory_bytes: int | None = None


def limits(host: Host) -> CgroupLimits:
    """Reads /proc/self/cgroup, /proc/self/mountinfo and the controllers' files; a machine without them limits nothing."""
    if host.platform != "linux":
        return CgroupLimits()
    groups = _groups(host.read("/proc/self/cgroup").text or "")
    mounts = _mounts(host.read("/proc/self/mountinfo").text or "")
    cpus: list[float] = []
    memory: list[int] = []
    for controller, folder in _folders(groups, mounts):
        if controller in ("cpu", ""):
            cpus += _cpu_quota(host, folder, version=1 if controller else 2)
        if controller in ("memory", ""):
            memory += _memory_limit(host, folder, version=1 if controller else 2)
    return CgroupLimits(min(cpus, default=None), min(memory, default=None))


def tightest_memory(host: Host) -> tuple[int, str, int] | None:
    """The tightest memory limit above this process (bytes), the folder of its control group, and the version; None: there is none."""
    if host.platform != "linux":
        return None
    groups = _groups(host.read("/proc/self/cgroup").text or "")
    mounts = _mounts(host.read("/proc/self/mountinfo").text or "")
    found = [
        (limit, folder, 1 if controller else 2)
        for controller, folder in _folders(groups, mounts)
        if controller in ("memory", "")
        for limit in _memory_limit(host, folder, version=1 if controller else 2)
    ]
    return min(found, default=None)


def memory_used(host: Host, folder: str, version: int) -> int | None:
    """Memory that counts against a control group's limit and cannot be taken back at once (bytes): without the file cache that nobody
    used lately."""
    used = (host.read(f"{folder}/{'memory.current' if version == 2 else 'memory.usage_in_bytes'}").text or "").strip()
    name = "inactive_file" if version == 2 else "total_inactive_file"
    cache = re.search(rf"^{name} (\d+)$", host.read(f"{folder}/memory.stat").text or "", re.MULTILINE)
    return max(0, int(used) - (int(cache[1]) if cache else 0)) if used.isdigit() else None


def _groups(text: str) -> dict[str, str]:
    """controller -> path, from lines ``4:cpu,cpuacct:/a/b``; version 2 is the controller ``""``."""
    found = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def _mounts(text: str) -> dict[str, tuple[str, str]]:
    """controller -> (root of the mount within the hierarchy, mount point)."""
    found = {}
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not separator or len(fields) < 5 or len(kind) < 3:
            continue
        place = (_unescape(fields[3]), _unescape(fields[4]))
        if kind[0] == "cgroup2":
            found[""] = place
        elif kind[0] == "cgroup":
            for option in kind[2].split(","):
                found[option] = place
    return found


def _unescape(field: str) -> str:
    """mountinfo writes space, tab, newline and backslash in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def _folders(groups: dict[str, str], mounts: dict[str, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(controller, folder) of the group that we are in and of each one above it that we can see."""
    for controller in ("", "cpu", "memory"):
        if controller not in groups or controller not in mounts:
            continue
        root, point = mounts[controller]
        path = groups[controller]
        inside = path.removeprefix(root.rstrip("/")) if path.startswith(root.rstrip("/")) else ""  # a container's view
        names = [name for name in inside.split("/") if name and name != ".."]
        for depth in range(len(names), -1, -1):
            yield controller, "/".join([point, *names[:depth]])


def _cpu_quota(host: Host, folder: str, version: int) -> list[float]:
    if version == 2:
        words = (host.read(f"{folder}/cpu.max").text or "").split()
    else:
        words = [(host.read(f"{folder}/cpu.cfs_{name}_us").text or "").strip() for name in ("quota", "period")]
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return []  # "max", "-1", or no such file
    return [int(words[0]) / int(words[1])]


def _memory_limit(host: Host, folder: str, version: int) -> list[int]:
    name = "memory.max" if version == 2 else "memory.limit_in_bytes"
    word = (host.read(f"{folder}/{name}").text or "").strip()
    return [int(word)] if word.isdigit() and int(word) < _V1_UNLIMITED else []
