"""The CPU: how busy the processors are that we may use, and the memory that counts against us."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anycard.cards.readings.shapes import Look
from anycard.host import cgroup
from anycard.host.host import Host
from anycard.model.card import CPU_VENDOR, Reading
from anycard.model.instant import Instant

_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")  # hwmon names of Intel, AMD, ARM
_STAT_BYTES = 256 * 1024  # /proc/stat has a line a processor before the long line of interrupts


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds or ticks since boot: only differences and shares of them are used."""

    busy: float
    waiting: float  # idle while a program waits for a disk
    total: float


class CpuReader:
    """See ``Reader``. The first look knows no utilisation: it takes two."""

    name = CPU_VENDOR
    period_s = 1.0

    def __init__(self, host: Host) -> None:
        self._host = host
        self._linux = host.platform == "linux"
        processors = (host.ask("system") or {}).get("affinity") or ()
        count = (host.ask("system") or {}).get("processor_count")
        # Where we may use some processors only, these alone count: their lines in /proc/stat.
        self._names = frozenset(f"cpu{number}".encode() for number in processors) if len(processors) != count else None
        self._limit = cgroup.tightest_memory(host)
        self._thermometer = self._find_thermometer()
        self._before: _Times | None = None

    def look(self, at: Instant) -> Look:
        times, used, total = self._on_linux() if self._linux else self._elsewhere()
        before, self._before = self._before, times
        busy = waiting = None
        if before is not None and times is not None and times.total > before.total:
            elapsed = times.total - before.total
            busy = min(1.0, max(0.0, (times.busy - before.busy) / elapsed))
            waiting = min(1.0, max(0.0, (times.waiting - before.waiting) / elapsed))
        reading = Reading(
            CPU_VENDOR,
            utilisation=busy,
            memory_used_bytes=used,
            memory_total_bytes=total,
            temperature_c=self._temperature(),
            io_wait=waiting,
        )
        return Look((reading,))

    def close(self) -> None:
        """Nothing is open."""

    def _on_linux(self) -> tuple[_Times | None, int | None, int | None]:
        stat = self._host.read("/proc/stat", 512 if self._names is None else _STAT_BYTES).data or b""
        memory = self._host.read("/proc/meminfo", 256).data or b""
        total, available = _kib(memory, b"MemTotal"), _kib(memory, b"MemAvailable")
        used = total - available if total is not None and available is not None else None
        if self._limit is not None:
            limit_bytes, folder, version = self._limit
            if total is None or limit_bytes < total:
                return self._times(stat), cgroup.memory_used(self._host, folder, version), limit_bytes
        return self._times(stat), used, total

    def _times(self, stat: bytes) -> _Times | None:
        wanted = (b"cpu",) if self._names is None else self._names
        busy = waiting = total = 0
        for line in stat.split(b"\n"):
            words = line.split()
            if len(words) < 9 or words[0] not in wanted:
                continue
            user, nice, system, idle, iowait, irq, soft, steal = map(int, words[1:9])
            active = user + nice + system + irq + soft + steal
            busy, waiting, total = busy + active, waiting + iowait, total + active + idle + iowait
            if self._names is None:
                break
        return _Times(busy, waiting, total) if total else None

    def _elsewhere(self) -> tuple[_Times | None, int | None, int | None]:
        said = self._host.ask("load")
        if said is None:
            return None, None, None
        return (
            _Times(said["busy_s"], 0.0, said["busy_s"] + said["idle_s"]),
            said["memory_used_bytes"],
            said["memory_total_bytes"],
        )

    def _find_thermometer(self) -> str | None:
        for name in self._host.list_folder("/sys/class/hwmon") or ():
            folder = f"/sys/class/hwmon/{name}"
            if (self._host.read(f"{folder}/name").text or "").strip() in _SENSORS:
                return f"{folder}/temp1_input"
        return None

    def _temperature(self) -> float | None:
        text = self._host.read(self._thermometer, 64).text if self._thermometer else None
        return int(text) / 1000 if text and text.strip().lstrip("-").isdigit() else None


def _kib(text: bytes, name: bytes) -> int | None:
    match = re.search(rb"^" + name + rb":\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
