"""``anycard doctor --job`` on a real daemon whose card (the NVML stand-in) is edited while jobs hold it: its readings, kept and read back,
are evidence beside the log."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from called import until
from nvml_standin import NvmlStandin
from one_card import OneCard
from visitor import Visitor

from anycard.api import answers

pytestmark = pytest.mark.slow

GIB = 1 << 30
WELL = "utilisation = 90\nmemory_used = 64424509440\ntemperature = 61\npcie_width = 16"
SPIN = "resources: {{accelerators: 1, cpus: 1}}\nname: {name}\nrun: |\n  {begin}timeout {seconds} sh -c 'while :; do :; done'\n  {end}\n"


@pytest.fixture(scope="module")
def cli(nvml_library, tmp_path_factory) -> Iterator[OneCard]:
    folder = tmp_path_factory.mktemp("readings")
    standin = NvmlStandin(nvml_library, folder / "cards.txt")
    called = OneCard(folder / "home", standin.env, standin, f"GPU-{uuid.uuid4()}")
    called.describe(WELL)
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def spins(cli: OneCard, name: str, seconds: int, *, begin: str = "", end: str = "true") -> int:
    """A job that holds the card and works for so long."""
    job = cli.submit(SPIN.format(name=name, seconds=seconds, begin=begin, end=end))
    until(lambda: state(cli, job) == "running")
    return job


def state(cli: OneCard, job: int) -> str:
    with cli.client() as client:
        return client.job(job)["state"]


def diagnosis(cli: OneCard, job: int) -> dict[str, Any]:
    with cli.client() as client:
        told = client.doctor(job)
    answers.Diagnosis.model_validate(told)
    return told


def told_of(cli: OneCard, job: int, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The diagnosis as soon as it is as ``wanted``: what its programs did is kept every ten seconds only."""

    def found() -> dict[str, Any] | None:
        told = diagnosis(cli, job)
        return told if wanted(told) else None

    return until(found)


def lead(told: dict[str, Any]) -> str | None:
    return told["findings"][0]["cause"] if told["findings"] else None


def test_jobs_that_are_well_are_called_well(cli):
    cli.describe(WELL)
    busy = spins(cli, "busy", 13)
    without = cli.submit("name: without\nrun: timeout 11 sh -c 'while :; do :; done' || true\n")
    cli.over(busy)
    short = cli.submit(SPIN.format(name="short", seconds=2, begin="", end="true"))
    for job in (busy, without, short):
        cli.over(job)
        told = diagnosis(cli, job)
        assert (told["verdict"], told["findings"]) == ("healthy", [])
    assert cli("doctor", "--job", "busy").returncode == 0


def test_heat(cli):
    job = spins(cli, "hot", 14)
    cli.describe(f"{WELL}\nthrottle = 0x40\ntemperature = 93")
    running = told_of(cli, job, lambda told: lead(told) == "thermal-throttling")  # while it runs, too
    assert running["attempt"]["state"] == "running"
    cli.over(job)
    cli.describe(WELL)
    told = diagnosis(cli, job)
    assert (told["verdict"], lead(told)) == ("fault", "thermal-throttling")
    (line,) = told["findings"][0]["evidence"]
    assert line.startswith(f"card nvidia:{cli.uuid} throttled by hardware-thermal")
    assert line.endswith("highest 93 °C")
    shown = cli("doctor", "--job", "hot")
    assert shown.returncode == 1
    assert b"throttled by hardware-thermal" in shown.stdout
    visitor = Visitor(cli)
    visitor.log_in()
    assert "throttled by hardware-thermal" in visitor.ask(f"/doctor/jobs/{job}").text
    assert f"/doctor/jobs/{job}" in visitor.ask(f"/jobs/{job}/report").text


def test_a_card_that_was_never_used(cli):
    cli.describe("utilisation = 0\nmemory_used = 0")
    job = spins(cli, "unused", 18, begin="echo torch 2.13; ")
    cli.over(job)
    cli.describe(WELL)
    told = diagnosis(cli, job)
    assert (told["verdict"], lead(told)) == ("undecided", "torch-cpu-only-build")
    assert len(told["findings"]) >= 3
    shown = cli("doctor", "--job", "unused")
    assert shown.returncode == 3
    assert b"never used in" in shown.stdout
    assert b"To settle it, run: anycard run --gpus 1" in shown.stdout


def test_the_driver_reports_an_error_and_the_program_dies(cli):
    job = spins(cli, "xid", 4, end="echo 'CUDA error: unspecified launch failure'; exit 1")
    cli.describe(f"{WELL}\nxid = 79")
    cli.over(job)
    cli.describe(WELL)
    told = diagnosis(cli, job)
    assert (told["verdict"], lead(told)) == ("fault", "gpu-fallen-off-bus")
    assert f"card nvidia:{cli.uuid} Xid 79" in told["findings"][0]["evidence"][0]


def test_out_of_memory_by_whose_memory_it_was(cli):
    note = cli.folder / "pid"
    note.unlink(missing_ok=True)
    last = "echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 1"
    job = spins(cli, "full", 14, begin=f"echo $$ > {note}; ", end=last)
    pid = int(until(lambda: note.exists() and note.read_text().strip()))
    own, used = 20 * GIB, 79 * GIB
    cli.describe(
        f"utilisation = 90\nmemory_used = {used}\nprocess = {pid} {own} compute 90\nprocess = {os.getpid()} {used - own} compute 5"
    )
    cli.over(job)
    cli.describe(WELL)
    told = told_of(cli, job, lambda told: lead(told) == "oom-other-process")
    assert "59 GiB by others" in json.dumps(told["findings"][0]["evidence"])


def test_lanes_that_it_had_before(cli):
    cli.describe(WELL)
    card = f"nvidia:{cli.uuid}"
    with cli.client() as client:
        until(lambda: 16 in (client.readings(cards=[card], step=10)["cards"][0]["pcie_width"] or ()))
        cli.describe(WELL.replace("pcie_width = 16", "pcie_width = 4"))
        until(lambda: client.readings(cards=[card], step=1)["cards"][0]["pcie_width"][-1] == 4)
    job = spins(cli, "narrow", 11)
    cli.over(job)
    cli.describe(WELL)
    told = diagnosis(cli, job)
    assert lead(told) == "gpu-poorly-seated"
    assert "PCIe link x4 under load; it was x16 before this job" in told["findings"][0]["evidence"][0]


def test_it_waits_for_the_cpu_again_and_again(cli):
    job = spins(cli, "starved", 300)
    beat = iter(range(1000))

    def starved() -> dict[str, Any] | None:
        cli.describe(WELL.replace("90", "95" if next(beat) % 4 == 0 else "0"))
        told = diagnosis(cli, job)
        return told if lead(told) == "gpu-starved-by-dataloader" else None

    told = until(starved)
    cli("cancel", str(job))
    cli.over(job)
    cli.describe(WELL)
    assert told["verdict"] == "application"
    assert "between its uses while the job's CPUs worked" in told["findings"][0]["evidence"][0]
