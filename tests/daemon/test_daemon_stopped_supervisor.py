"""A supervisor that somebody stopped (SIGSTOP) can start and end nothing: it is named, and what wakes it, where one would wait for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from called import Cli, until


@pytest.fixture
def stopped(tmp_path: Path, supervisor_pid: Callable[[Cli], int | None]) -> Iterator[tuple[Cli, int]]:
    """A home with a daemon and a supervisor that was just stopped."""
    cli = Cli(tmp_path / "home")
    assert cli("run", "--", "true").returncode == 0
    pid = supervisor_pid(cli)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    yield cli, pid
    if psutil.pid_exists(pid):
        os.kill(pid, signal.SIGCONT)
    cli("down", "--stop")


def test_status_says_so_at_once_and_starts_wait(stopped: tuple[Cli, int]) -> None:
    cli, pid = stopped
    said = cli("status").stdout.decode()
    assert f"is stopped (process {pid}): kill -CONT {pid} wakes it" in said
    job = cli.submit("run: echo hi")
    with cli.client() as client:
        waiting = client.job(job)
        assert waiting["state"] == "queued"
        assert f"kill -CONT {pid}" in waiting["reason"]
    os.kill(pid, signal.SIGCONT)
    assert cli.over(job)["state"] == "succeeded"
    assert cli.json("status")["paused"] is None


def test_a_starting_daemon_does_not_wait_for_it(stopped: tuple[Cli, int]) -> None:
    cli, pid = stopped
    assert cli("down").returncode == 0
    done = cli("jobs")
    assert done.returncode == 125
    (said, *_) = done.stderr.decode().splitlines()
    assert f"is stopped (process {pid}): kill -CONT {pid} wakes it" in said
    assert "Traceback" not in (cli.home / "daemon.log").read_text()
    os.kill(pid, signal.SIGCONT)
    assert cli("run", "--", "echo", "hi").stdout == b"hi\n"


def test_down_does_not_promise_to_end_what_it_cannot(
    tmp_path: Path, supervisor_pid: Callable[[Cli], int | None]
) -> None:
    cli = Cli(tmp_path / "home")
    assert cli("up", "-d").returncode == 0
    job = cli.submit("run: touch begun; exec sleep 300")
    until((tmp_path / "begun").exists)
    pid = supervisor_pid(cli)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        done = cli("down", "--stop")
        assert done.returncode == 125
        assert f"kill -CONT {pid}".encode() in done.stderr
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cli("down", "--stop").returncode == 0
    assert cli("job", str(job)).returncode == 0
    assert cli.json("job", str(job))["state"] == "cancelled"
    cli("down")
