"""Readings over the API of a running daemon, and what the command line makes of them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from called import ANYCARD, until

from anycard.api.readinganswers import Readings, Tick
from anycard.errors import NotFoundError, UsageError

CARD_A, CARD_B = "nvidia:GPU-aaaaaaaa-0000-4000-8000-000000000001", "nvidia:GPU-bbbbbbbb-0000-4000-8000-000000000002"


def two_cards(*, a: str = "", b: str = "") -> str:
    return (
        f"[card]\nuuid = {CARD_A.removeprefix('nvidia:')}\nutilisation = 40\nmemory_used = 1073741824\n{a}\n"
        f"[card]\nuuid = {CARD_B.removeprefix('nvidia:')}\nbus = 00000000:11:00.0\nutilisation = 0\n{b}\n"
    )


def live(machine: Any) -> Any:
    with machine.cli.client() as client:
        return client.live()


def of(tick: Any, card: str) -> Any:
    return next((reading for reading in tick["readings"] if reading["card"] == card), None)


@pytest.fixture(scope="module")
def running(machine: Any) -> Any:
    """The daemon once it has looked a few times."""
    until(lambda: of(live(machine), CARD_B) and (of(live(machine), "cpu") or {}).get("utilisation") is not None)
    return machine


def test_the_last_tick_is_what_is_published(running: Any) -> None:
    tick = live(running)
    Tick.model_validate(tick)
    assert {reading["card"] for reading in tick["readings"]} == {"cpu", CARD_A, CARD_B}
    assert of(tick, CARD_A)["utilisation"] == 0.4 and of(tick, CARD_A)["memory_used_bytes"] == 1 << 30
    assert tick["silent"] == []


def test_the_next_tick_can_be_waited_for(running: Any) -> None:
    with running.cli.client() as client:
        first = client.live()
        second = client.live(after=first["at"])
    assert second["at"] > first["at"]


def test_cards_over_time_are_what_is_published(running: Any) -> None:
    with running.cli.client() as client:
        seen = until(lambda: (got := client.readings(step=1))["cards"] and len(got["cards"][0]["times"]) > 2 and got)
    Readings.model_validate(seen)
    assert seen["step_s"] == 1.0
    series = {one["card"]: one for one in seen["cards"]}
    assert set(series) == {"cpu", CARD_A, CARD_B}
    assert set(series[CARD_A]["utilisation"]) == {0.4}
    assert len(series[CARD_A]["times"]) == len(series[CARD_A]["power_w"])
    assert series["cpu"]["power_w"] is None  # nothing was seen: null, not a list of nulls


def test_cards_columns_and_time_can_be_chosen(running: Any) -> None:
    with running.cli.client() as client:
        seen = client.readings(cards=[CARD_B], columns=["utilisation", "throttle_reasons"], step=1)
        assert [set(one) for one in seen["cards"]] == [{"card", "times", "utilisation", "throttle_reasons"}]
        nothing = client.readings(since="2001-01-01T00:00:00Z", until="2001-01-02T00:00:00Z")
        assert nothing["cards"] == [] and nothing["step_s"] == 600.0
        assert client.readings(cards=["nvidia:GPU-gone"], step=1)["cards"][0]["times"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"since": "yesterday"},
        {"columns": ["colour"]},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-30T00:00:00Z", "step": 1},
        {"since": "9999-12-31T23:59:59+00:00", "until": "0001-01-01T00:00:00+14:00"},
        {"step": 0.5},
        {"step": "NaN"},
    ],
)
def test_what_is_asked_wrongly_is_said(running: Any, query: dict[str, Any]) -> None:
    with running.cli.client() as client, pytest.raises(UsageError):
        client.readings(**query)


def test_what_is_kept_outlives_a_restart(running: Any) -> None:
    """Ten-second means are written as they come; the last part at an orderly end."""
    with running.cli.client() as client:
        until(lambda: of(live(running), CARD_A))
        before = client.live()["at"]
    running.cli("down")
    running.cli("up", "-d")
    until(lambda: of(live(running), CARD_A))
    with running.cli.client() as client:
        seen = client.readings(cards=[CARD_A], step=10)
    assert set(seen["cards"][0]["utilisation"]) == {0.4}
    assert seen["cards"][0]["times"][0] <= datetime.fromisoformat(before).timestamp()


def test_a_program_on_a_card_is_its_jobs(running: Any) -> None:
    """The driver reports a pid; whose it is stands beside it."""
    job = running.cli.submit("run: echo $$ > here; exec sleep 60\n", cwd=running.cli.folder)
    note = running.cli.folder / "here"
    until(lambda: note.exists() and note.read_text().strip())
    pid = int(note.read_text())
    try:
        running.standin.describe(
            two_cards(a=f"process = {pid} 5000000 compute 30\nprocess = {os.getpid()} 77 compute 1")
        )
        uses = until(
            lambda: (found := {use["pid"]: use for use in live(running)["uses"]}).get(pid, {}).get("job") and found
        )
        assert (uses[pid]["job"], uses[pid]["item"], uses[pid]["memory_bytes"]) == (job, 0, 5000000)
        assert uses[os.getpid()]["job"] is None  # anycard did not start us
        with running.cli.client() as client:
            kept = until(lambda: [use for use in client.job_readings(job)["uses"] or () if use["memory_peak_bytes"]])
        assert kept[0]["card"] == CARD_A and kept[0]["item"] == 0 and kept[0]["memory_peak_bytes"] == 5000000
    finally:
        running.standin.describe(two_cards())
        running.cli("cancel", str(job))
        running.cli("wait", str(job))


def test_a_jobs_readings_are_its_cards_over_its_time(running: Any) -> None:
    job = running.cli.ran("run: sleep 3\nresources: {accelerators: 'A100:1'}\n")
    assert job["state"] == "succeeded"
    held = job["items"][0]["cards"]
    with running.cli.client() as client:
        seen = client.job_readings(job["id"])
    Readings.model_validate(seen)
    assert [one["card"] for one in seen["cards"]] == [*held, "cpu"]
    assert seen["since"] == job["started_at"] and seen["until"] == job["ended_at"]
    times = seen["cards"][0]["times"]
    assert 2 <= len(times) <= 5
    assert seen["uses"] is not None


def test_a_job_that_never_started_has_none(running: Any) -> None:
    job = running.cli.submit("run: 'true'\n", options={"held": True})
    with running.cli.client() as client:
        with pytest.raises(NotFoundError, match="has not started"):
            client.job_readings(job)
        with pytest.raises(NotFoundError):
            client.job_readings("no such job")
    running.cli("cancel", str(job))


def test_a_lost_card_is_a_gap_and_a_mark(running: Any) -> None:
    running.standin.describe(two_cards(b="fault = lost\nxid = 79"))
    try:
        until(lambda: of(live(running), CARD_B) is None)
        assert of(live(running), CARD_A)["utilisation"] == 0.4
    finally:
        running.standin.describe(two_cards())
    until(lambda: of(live(running), CARD_B))
    with running.cli.client() as client:
        marks = client.readings(cards=[CARD_B])["marks"]
    kinds = [mark["kind"] for mark in marks if mark["card"] == CARD_B]
    assert kinds.count("xid") == 1 and kinds.count("health") == 2
    assert any("Xid 79" in mark["text"] for mark in marks)
    told = running.cli("readings", "--card", CARD_B).stdout.decode()
    assert "Xid 79" in told and "The card answers again." in told


def test_the_daemon_keeps_its_readings_private(running: Any) -> None:
    for path in running.cli.home.glob("readings.db*"):
        assert path.stat().st_mode & 0o077 == 0


# ---- the command line


def test_csv_has_the_columns_that_scripts_know(running: Any) -> None:
    text = running.cli("readings", "--csv", "--step", "1", "--since", "1m").stdout.decode()
    head, *rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    assert head[:6] == [
        "timestamp", "index", "name", "uuid", "utilization.gpu [%]", "utilization.memory [%]",
    ]  # fmt: skip
    assert {len(row) for row in rows} == {len(head)}
    first = next(row for row in rows if row[3] == CARD_A.removeprefix("nvidia:"))
    said = dict(zip(head, first, strict=True))
    assert (said["index"], said["utilization.gpu [%]"], said["memory.used [MiB]"]) == ("0", "40 %", "1024 MiB")
    assert (said["power.draw [W]"], said["fan.speed [%]"]) == ("62.00 W", "[N/A]")
    assert "cpu" not in {row[3] for row in rows}


def test_one_card_by_its_short_name(running: Any) -> None:
    seen = running.cli.json("readings", "--card", "nvidia1", "--card", "cpu")
    assert [one["card"] for one in seen["cards"]] == [CARD_B, "cpu"]


@pytest.mark.parametrize(
    "argv, code, told",
    [
        (["--card", "nvidia9"], 3, "there is no card nvidia9"),
        (["--since", "last week"], 2, "is no time"),
        (["--csv", "--json"], 2, "not both"),
        (["--step", "0.1"], 2, "less than a second"),
        (["--job", "1", "--since", "1h"], 2, "--job says"),
    ],
)
def test_mistakes_are_told_without_a_traceback(running: Any, argv: list[str], code: int, told: str) -> None:
    done = running.cli("readings", *argv)
    assert (done.returncode, "Traceback" in done.stderr.decode()) == (code, False)
    assert told in done.stderr.decode()


def watched(cli: Any, *argv: str, lines: int) -> tuple[list[str], int]:
    """The first ``lines`` of a watching command, and its exit code once it is interrupted."""
    process = subprocess.Popen(
        [*ANYCARD, *argv], cwd=cli.folder, env=cli.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    read = [process.stdout.readline().decode() for _ in range(lines)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err.decode()
    return read, process.returncode


def test_watching_prints_a_line_a_card_each_second(running: Any) -> None:
    lines, code = watched(running.cli, "cards", "--watch", lines=6)
    assert code == 0
    assert sum("nvidia0" in line and "40 %" in line for line in lines) == 2


def test_watching_as_json_prints_a_tick_a_line(running: Any) -> None:
    lines, code = watched(running.cli, "cards", "--watch", "--json", lines=2)
    ticks = [json.loads(line) for line in lines]
    assert code == 0 and ticks[1]["at"] > ticks[0]["at"]
    for tick in ticks:
        Tick.model_validate(tick)


def test_watching_needs_no_daemon(nvml: Any, tmp_path: Any) -> None:
    from called import Cli

    nvml.describe(two_cards())
    cli = Cli(tmp_path / "home", nvml.env)
    lines, code = watched(cli, "cards", "--watch", "--json", lines=1)
    tick = json.loads(lines[0])
    Tick.model_validate(tick)
    assert code == 0 and of(tick, CARD_A)["utilisation"] == 0.4
    assert of(tick, "cpu")["utilisation"] is not None
    assert not cli.home.exists()


def test_peers_see_the_same_values() -> None:
    """nvitop and gpustat on the same eight cards."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.telemetry", "--json", "--refreshes", "1"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        timeout=150,
    )
    if b"ModuleNotFoundError" in done.stderr or b"CannotBuild" in done.stderr:
        pytest.skip("install gcc, nvidia-nvml-dev, nvitop and gpustat: pip install -e '.[dev]'")
    assert json.loads(done.stdout.splitlines()[-1])["same_values"] is True
