"""The wall clock is set while a daemon runs, a day ahead and an hour back: readings, limits and reports go by the boot clock."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nvml_standin
import pytest
import wall_clock
from called import PATIENCE_S, Cli, until
from made import CannotBuild

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the stand-in is preloaded by Linux's loader"),
]
DAY_S, HOUR_S = 86_400, 3_600


@pytest.fixture
def clock(tmp_path: Path) -> wall_clock.WallClock:
    try:
        made = wall_clock.WallClock(wall_clock.build(tmp_path), tmp_path / "ahead")
    except CannotBuild as reason:
        pytest.skip(str(reason))
    made.set(0)
    return made


@pytest.fixture
def cli(nvml_library: Path, tmp_path: Path, clock: wall_clock.WallClock) -> Iterator[Cli]:
    standin = nvml_standin.NvmlStandin(nvml_library, tmp_path / "cards.txt")
    standin.describe("[card]\nuuid = GPU-a\nutilisation = 50\n")
    called = Cli(tmp_path / "home", standin.env | clock.env)
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def ticks(cli: Cli, count: int) -> list[dict[str, Any]]:
    """The next ones, as ``anycard cards --watch`` asks for them."""
    client, found = cli.client(), []
    after = until(lambda: client.live()["at"])  # the first comes a moment after the daemon
    while len(found) < count:
        found.append(client.live(after=after))
        after = found[-1]["at"]
    return found


def test_the_wall_clock_is_set(cli: Cli, clock: wall_clock.WallClock) -> None:
    limited = cli.json("submit", cli.file("limited.yaml", TASK.format(seconds=60, limit="25s")))["jobs"][0]["id"]
    longer = cli.json("submit", cli.file("longer.yaml", CPU_TASK.format(seconds=28)))["jobs"][0]["id"]
    began = time.monotonic()
    seen = ticks(cli, 4)
    for ahead_s in (DAY_S, -HOUR_S):
        clock.set(ahead_s)
        assert time.monotonic() - began < 20, "the machine is too busy for this test's limits"
        seen += ticks(cli, 5)
    # Nobody waits for the time to come again, and no card is missed.
    assert [reading["utilisation"] for tick in seen for reading in tick["readings"] if reading["card"] != "cpu"] == [
        0.5
    ] * len(seen)
    states = {job["id"]: job["state"] for job in cli.json("jobs")["jobs"]}
    assert states == {limited: "running", longer: "running"}  # a day is no 25 seconds

    over = {}
    while len(over) < 2 and time.monotonic() - began < PATIENCE_S:
        over = {job["id"]: job for job in cli.json("jobs")["jobs"] if job["ended_at"] is not None}
        time.sleep(0.5)
    assert "time limit" in over[limited]["reason"] and over[longer]["state"] == "succeeded"
    items = {job: cli.json("job", str(job))["items"][0] for job in (limited, longer)}
    assert 24 < items[limited]["run_s"] < 45 and 27 < items[longer]["run_s"] < 45

    # It ended an hour before it began: what was read of it is found nevertheless, and in order.
    assert over[limited]["ended_at"] < over[limited]["started_at"]
    kept = cli.json("readings", "--job", str(limited))
    times = next(card["times"] for card in kept["cards"] if card["card"] == "nvidia:GPU-a")
    assert times and times == sorted(times)
    (card,) = [card for card in cli.json("report", str(limited))["cards"] if card["card"] == "nvidia:GPU-a"]
    assert 20 < card["held_s"] < 45 and card["utilisation"] == 0.5

    clock.set(0)
    ticks(cli, 2)
    marks = cli.json("readings", "--since", "2d", "--until", "3000-01-01T00:00:00Z")["marks"]
    jumps = sorted(round(mark["text_params"]["seconds"] / 100) * 100 for mark in marks if mark["kind"] == "clock")
    assert jumps == [-DAY_S - HOUR_S, HOUR_S, DAY_S]
    last_minutes = cli.json("readings", "--step", "1", "--since", "9m")["cards"]
    assert last_minutes and all(card["times"] == sorted(card["times"]) for card in last_minutes)

    assert cli("down", "--stop").returncode == 0
    with closing(sqlite3.connect(cli.home / "readings.db")) as store:
        rows = store.execute("SELECT at, n, utilisation FROM readings_10 JOIN cards ON cards.number = card WHERE id = ?",
                             ("nvidia:GPU-a",)).fetchall()  # fmt: skip
    assert {utilisation for _, _, utilisation in rows} == {0.5}
    assert sum(n for _, n, _ in rows) > len(seen)  # every look is in a row of the clock of its time
    assert len({round((at - rows[0][0]) / HOUR_S) for at, _, _ in rows}) == 3


TASK = """
run: sleep {seconds}
resources: {{accelerators: nvidia:1}}
anycard: {{time_limit: {limit}}}
"""
CPU_TASK = "run: sleep {seconds}\n"


def test_a_wait_before_another_try_moves_with_the_clock(cli: Cli, clock: wall_clock.WallClock) -> None:
    """It is a length of time: set back an hour, the clock would name its end an hour too late."""
    file = cli.file("again.yaml", "run: exit 1\nanycard: {retry: {times: 1, wait: 6s}}\n")
    job = cli.json("submit", file)["jobs"][0]["id"]
    client, began = cli.client(), time.monotonic()

    def item() -> dict[str, Any]:
        return next(client.all_items(job))

    while item()["attempts"] < 1 or item()["state"] == "running":
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.1)
    clock.set(-HOUR_S)
    while client.job(job)["ended_at"] is None:
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.2)
    assert item()["attempts"] == 2
    clock.set(0)
