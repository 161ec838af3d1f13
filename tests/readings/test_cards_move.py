"""Cards that change places under a running job: readings, holdings and marks follow the card, not its number or its slot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nvml_standin
import pytest
from called import PATIENCE_S, Cli

pytestmark = pytest.mark.slow


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_cards_change_places_under_a_running_job(nvml_library: Path, tmp_path: Path) -> None:
    standin = nvml_standin.NvmlStandin(nvml_library, tmp_path / "cards.txt")
    cli = Cli(tmp_path / "home", standin.env)
    one, two, new = (f"GPU-{uuid.uuid4()}" for _ in range(3))
    busy = {one: 10, two: 20, new: 30}

    def stand(*places: tuple[str, int]) -> None:
        """Cards by index, each with its slot."""
        standin.describe(
            "".join(
                f"[card]\nuuid = {card}\nbus = 00000000:{bus:02X}:00.0\nutilisation = {busy[card]}\n"
                for card, bus in places
            )
        )

    def cards() -> dict[str, dict[str, Any]]:
        return {card["uuid"]: card for card in cli.json("cards")["cards"] if card["uuid"]}

    def read() -> dict[str, float]:
        """Of a tick that was begun after this was called."""
        after = until(lambda: cli.client().live()["at"])
        tick = cli.client().live(after=cli.client().live(after=after)["at"])
        return {
            one["card"].removeprefix("nvidia:"): one["utilisation"] for one in tick["readings"] if "GPU" in one["card"]
        }

    stand((one, 0x10), (two, 0x11))
    assert cli("up", "-d").returncode == 0
    try:
        job = cli.json("submit", cli.file("job.yaml", "run: sleep 600\nresources: {accelerators: nvidia:1}\n"))
        job = job["jobs"][0]["id"]
        until(lambda: cli.json("job", str(job))["items"][0]["state"] == "running")
        (held,) = cli.json("job", str(job))["items"][0]["cards"]
        assert held == f"nvidia:{one}"

        stand((two, 0x11), (one, 0x10))  # indexes swapped
        until(lambda: cards()[one]["index"] == 1)
        assert read() == {one: 0.1, two: 0.2}
        stand((two, 0x10), (one, 0x11))  # and the slots
        until(lambda: cards()[one]["pci_address"] == "0000:11:00.0")
        assert read() == {one: 0.1, two: 0.2}
        assert cli.json("readings")["marks"] == []  # nothing happened to any card

        stand((two, 0x10), (new, 0x11))  # another card in its slot
        until(lambda: new in cards())
        assert read() == {two: 0.2, new: 0.3}
        stand((two, 0x10))
        until(lambda: cards()[new]["health"] == "not-found")
        stand((two, 0x10), (one, 0x20))  # it is back, in a third
        until(lambda: one in cards() and cards()[one]["pci_address"] == "0000:20:00.0")
        assert read() == {two: 0.2, one: 0.1}
        marks = [(mark["card"].removeprefix("nvidia:"), mark["text"]) for mark in cli.json("readings")["marks"]]
        gone, back = "The driver no longer lists this card.", "The card answers again."
        assert [text for card, text in marks if card == one] == [gone, back]
        assert [text for card, text in marks if card == new] == [gone]

        item = cli.json("job", str(job))["items"][0]
        assert (item["state"], item["attempts"], item["cards"]) == ("running", 1, [held])
    finally:
        cli("down", "--stop")
    assert "Traceback" not in (cli.home / "daemon.log").read_text()
