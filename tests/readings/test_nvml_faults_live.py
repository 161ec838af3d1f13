"""Faults edited into one card of eight under a running daemon: no tick misses another card, each fault is one mark, and so is its end."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import nvml_standin
import pytest
from called import Cli

pytestmark = pytest.mark.slow
SICK = 3
FAULTS = {
    "lost": "fell off the PCIe bus",
    "reset_required queries": "needs a reset",
    "no_permission": "You may not use this card",
    "function_not_found": "FUNCTION_NOT_FOUND",
    "uninitialized queries": "UNINITIALIZED",
    "lost nvmlDeviceGetPowerUsage": "fell off the PCIe bus",
}
HEALTH = ("lost", "reset-required", "blocked", "unknown", "unknown", "lost")
MOST_TICKS = 30  # until a change is seen: one, and four where NVML is closed and opened for it


def test_faults_come_and_go(nvml_library: Path, tmp_path: Path) -> None:
    standin = nvml_standin.NvmlStandin(nvml_library, tmp_path / "cards.txt")
    uuids = [f"GPU-{uuid.uuid4()}" for _ in range(8)]
    others = {f"nvidia:{card}": (10 + at) / 100 for at, card in enumerate(uuids) if at != SICK}
    sick = f"nvidia:{uuids[SICK]}"

    def describe(words: str) -> None:
        standin.describe(
            "".join(
                f"[card]\nuuid = {card}\nbus = 00000000:{0x10 + at:02X}:00.0\nutilisation = {10 + at}\n"
                f"{words if at == SICK else ''}"
                for at, card in enumerate(uuids)
            )
        )

    describe("")
    cli = Cli(tmp_path / "home", standin.env)
    assert cli("up", "-d").returncode == 0
    try:
        client = cli.client()
        tick = client.live()
        while len(tick["readings"]) < 9:  # the eight, and the CPU
            tick = client.live(after=tick["at"] or "1970-01-01T00:00:00Z")
        after: str = tick["at"]

        def marks() -> list[dict[str, Any]]:
            return list(client.readings()["marks"])

        def next_ticks(until_marks: int) -> None:
            """Until there are so many marks, and two ticks more: a mark that is told each second would be seen."""
            nonlocal after
            more = 2
            for _ in range(MOST_TICKS):
                tick = client.live(after=after)
                after = tick["at"]
                seen = {reading["card"]: reading["utilisation"] for reading in tick["readings"]}
                assert others.items() <= seen.items()
                assert tick["silent"] == []
                more -= len(marks()) >= until_marks
                if more < 0:
                    return
            raise AssertionError(f"no mark came within {MOST_TICKS} s")

        for count, (fault, says) in enumerate(FAULTS.items()):
            describe(f"fault = {fault}\n")
            next_ticks(2 * count + 1)
            if says != "FUNCTION_NOT_FOUND":
                (card,) = [card for card in client.cards()["cards"] if card["id"] == sick]
                for _ in range(MOST_TICKS):  # the probe looks every three seconds
                    if card["health"] != "ok":
                        break
                    after = client.live(after=after)["at"]
                    (card,) = [card for card in client.cards()["cards"] if card["id"] == sick]
                assert card["health"] == HEALTH[count] and says in card["health_reason"]
            describe("")
            next_ticks(2 * count + 2)
        told = [(mark["card"], mark["kind"], mark["text"]) for mark in marks()]
        assert [(card, kind) for card, kind, _ in told] == [(sick, "health")] * 2 * len(FAULTS)
        for (_, _, ill), (_, _, well), says in zip(told[::2], told[1::2], FAULTS.values(), strict=True):
            assert says in ill and well == "The card answers again."
    finally:
        cli("down", "--stop")
    log = (cli.home / "daemon.log").read_text()
    assert "Traceback" not in log and "failed" not in log
