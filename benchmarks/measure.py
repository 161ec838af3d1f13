"""Small things that every benchmark needs: progress on stderr, the middle and the tail of a list, what a process takes."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def say(text: str) -> None:
    """Progress, for a person: stdout belongs to the result."""
    print(text, file=sys.stderr, flush=True)


def finish(result: Mapping[str, Any], *, as_json: bool) -> None:
    """The result as the last line of stdout: JSON, or a line a value."""
    if as_json:
        print(json.dumps(_rounded(result)))
        return
    for name, value in _rounded(result).items():
        print(f"{name}: {json.dumps(value)}")


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def pss_bytes(pid: int) -> int:
    """Memory of a process with shared pages divided among those that share them (/proc/PID/smaps_rollup)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no Pss of process {pid}")


def cpu_s(pid: int) -> float:
    """CPU seconds that a process used so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def processes_naming(text: str) -> dict[int, str]:
    """Processes whose command line holds ``text``, by pid."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if text in command:
            found[int(folder.name)] = command
    return found


def cores() -> int:
    return len(os.sched_getaffinity(0))


def timed() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value
