"""`python -m benchmarks.telemetry [--json] [--refreshes N]`: the CPU time that one refresh of eight cards takes: ours, nvitop's, gpustat's.

All three look at the same eight stand-in cards (tests/standins/nvml), with a program on each, one after another, each in a process of its
own. What is counted is the process's CPU time in a refresh, the median of many; the values that they saw are compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import finish, median, say

ROOT = Path(__file__).resolve().parents[1]
CARDS = 8
PAUSE_S = 0.1
Values = dict[str, tuple[float, float, float, float]]  # uuid -> utilisation, memory used, temperature, power


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--refreshes", type=int, default=40)
    parser.add_argument("--look", choices=LOOKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.look:
        print(json.dumps(look(LOOKS[arguments.look], arguments.refreshes)))
        return
    finish(compare(arguments.refreshes), as_json=arguments.json)


def compare(refreshes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="anycard-bench-") as folder:
        env = standin(Path(folder))
        told = {}
        for name in LOOKS:  # one after another: on a small machine they would slow each other down
            child = [sys.executable, "-m", "benchmarks.telemetry", "--look", name, "--refreshes", str(refreshes)]
            told[name] = json.loads(subprocess.run(child, env=env, cwd=ROOT, capture_output=True, check=True).stdout)
    for name, one in told.items():
        say(f"{name}: {one['ms']:.2f} ms of CPU a refresh, {one['mb']:.0f} MB")
    ours = told["anycard"]["values"]
    for name, one in told.items():
        if one["values"] != ours:
            say(f"{name} saw other values: {one['values']}, anycard {ours}")
    return {
        **{f"{name}_ms": one["ms"] for name, one in told.items()},
        "same_values": all(one["values"] == ours for one in told.values()) and len(ours) == CARDS,
    }


def look(make: Callable[[], Callable[[], Values]], refreshes: int) -> dict[str, Any]:
    """One tool: its first refresh is not counted, for it finds functions and fills caches."""
    refresh = make()
    values = refresh()
    spent = []
    for _ in range(refreshes):
        time.sleep(PAUSE_S)
        began = time.process_time()
        values = refresh()
        spent.append(time.process_time() - began)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"ms": median(spent) * 1000, "values": values, "mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6}


def standin(folder: Path) -> Mapping[str, str]:
    """The environment in which NVML is the stand-in, with eight cards that differ."""
    sys.path.insert(0, str(ROOT / "tests" / "standins"))
    import nvml_standin

    library = nvml_standin.build(folder)
    cards = [
        f"[card]\nbus = 00000000:{0x10 + at:02X}:00.0\nuuid = GPU-1b2c3d4e-0000-4000-8000-{at:012d}\n"
        f"utilisation = {10 * at + 5}\nmemory_used = {(at + 1) << 31}\nmemory_reserved = 0\ntemperature = {40 + at}\n"
        f"power = {100_000 + at * 1000}\nsm_clock = {1000 + at}\nprocess = {os.getpid()} {(at + 1) << 30} compute {at + 1}\n"
        for at in range(CARDS)
    ]
    description = folder / "cards.txt"
    description.write_text("".join(cards))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANYCARD_")}
    return {**kept, "LD_LIBRARY_PATH": str(library.parent), "NVML_STANDIN": str(description)}


# ---- each tool, as its own users would embed it


def _anycard() -> Callable[[], Values]:
    """A tick of the daemon's sampler: the cards, their programs, and the CPU. It looks once a second: so seconds pass quickly here."""
    from anycard.cards.readings import reader_of
    from anycard.cards.readings.sampler import Sampler
    from anycard.host.clock import now
    from anycard.host.live import LiveHost

    host = LiveHost()
    sampler = Sampler(lambda vendor: reader_of(vendor, host), lambda tick: None)
    sampler.watch(("cpu", "nvidia"))

    seconds = itertools.count()

    def refresh() -> Values:
        moment, later = now(), next(seconds)
        tick = sampler.tick(replace(moment, utc_s=moment.utc_s + later, boot_s=moment.boot_s + later))
        if len(tick.uses) != CARDS:
            raise RuntimeError(f"a program on each of {CARDS} cards was expected, not {len(tick.uses)}")
        return {
            one.card_id.removeprefix("nvidia:"): _values(
                (one.utilisation or 0) * 100, one.memory_used_bytes, one.temperature_c, one.power_w
            )
            for one in tick.readings
            if one.card_id != "cpu"
        }

    return refresh


def _nvitop() -> Callable[[], Values]:
    from nvitop import Device

    devices = Device.all()

    def refresh() -> Values:
        values = {}
        for device in devices:
            seen = device.as_snapshot()
            for process in device.processes().values():
                process.as_snapshot()
            values[seen.uuid] = _values(
                seen.gpu_utilization, seen.memory_used, seen.temperature, seen.power_usage / 1000
            )
        return values

    return refresh


def _gpustat() -> Callable[[], Values]:
    import gpustat

    def refresh() -> Values:
        return {
            one.uuid: _values(one.utilization, one.memory_used * 1024**2, one.temperature, one.power_draw)
            for one in gpustat.GPUStatCollection.new_query()
        }

    return refresh


def _values(*seen: float | None) -> tuple[float, float, float, float]:
    busy, memory, temperature, power = (float(value) if value is not None else -1.0 for value in seen)
    return round(busy), round(memory / 1024**2), round(temperature), round(power)


LOOKS: dict[str, Callable[[], Callable[[], Values]]] = {"anycard": _anycard, "nvitop": _nvitop, "gpustat": _gpustat}


if __name__ == "__main__":
    main()
