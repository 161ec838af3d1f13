"""The home goes away under a running daemon: it notices, leaves, and touches nothing of a home made in its place."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from called import Cli, until

from anycard.config import Paths
from anycard.daemon import homelock

FAILING = """\
name: failing
run: |
  echo $ANYCARD_ITEM >$ANYCARD_OUTPUT_DIR/made
  [ -e go ] || [ $ANYCARD_ITEM = 1 ]
anycard: {foreach: {count: 2}}
"""
LONG = "run: |\n  echo begun >{mark}\n  exec sleep 300\n"


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def sleepers(cli: Cli) -> list[psutil.Process]:
    """The programs of LONG that run for this test: their folder says so."""
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "sleep" and process.cwd() == str(cli.folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture(params=["in the home", "elsewhere"])
def cli(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """With its sockets in the home, and in a runtime folder which stays when the home goes."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(runtime) if request.param == "elsewhere" else ""}
    monkeypatch.setenv("XDG_RUNTIME_DIR", env["XDG_RUNTIME_DIR"])  # for the client in this process
    called = Cli(tmp_path / "home", env)
    assert called("up", "-d").returncode == 0
    yield called
    for home in ("home", "moved"):
        Cli(tmp_path / home, env)("--no-start", "down", "--stop")
    for process in sleepers(called):
        process.kill()


def test_a_moved_home_is_noticed_and_works_where_it_is(cli: Cli) -> None:
    """With jobs that have ended, one of them to be retried, and one that waits."""
    assert cli("run", "--name", "before", "--", "echo", "hi").returncode == 0
    failing = cli.ran(FAILING)["id"]
    assert cli("submit", "--hold", "--name", "waiting", "--", "true").returncode == 0
    pid = cli.json("status")["pid"]
    moved = Cli(cli.folder / "moved", cli.env)
    cli.home.rename(moved.home)
    until(lambda: is_gone(pid))
    log = (moved.home / "daemon.log").read_text()
    assert f"the home {cli.home} was moved or deleted" in log
    assert "Traceback" not in log
    assert moved("run", "--", "echo", "here").stdout == b"here\n"
    assert b"hi\n" in moved("logs", "before").stdout
    assert moved.json("job", "before")["items"][0]["log"] == f"{moved.home}/jobs/1/0.1.log"
    assert [job["name"] for job in moved.json("jobs")["jobs"]] == ["echo", "waiting", "failing", "before"]
    (cli.folder / "go").touch()
    assert moved("retry", "failing", "--failed").returncode == 0
    assert moved("release", "waiting").returncode == 0
    ended = moved.over(failing)
    assert [(item["state"], item["attempts"]) for item in ended["items"]] == [("succeeded", 2), ("succeeded", 1)]
    assert (moved.home / f"outputs/{failing}/0/made").read_text() == "0\n"
    assert moved.over(moved.json("job", "waiting")["id"])["state"] == "succeeded"
    assert not cli.home.exists()


def test_a_deleted_home_leaves_what_runs_to_the_supervisor(cli: Cli) -> None:
    cli.submit(LONG.format(mark=cli.folder / "begun"))
    until((cli.folder / "begun").exists)
    pid = cli.json("status")["pid"]
    shutil.rmtree(cli.home)
    until(lambda: is_gone(pid))
    assert len(sleepers(cli)) == 1


def test_a_home_made_in_its_place_is_not_touched(cli: Cli, supervisor_pid: Callable[[Cli], int | None]) -> None:
    """Same path, same sockets, job and attempt 1 in both; the old one's daemon and supervisor leave while the new one works."""
    cli.submit(LONG.format(mark=cli.folder / "begun"))
    until((cli.folder / "begun").exists)
    (old_program,) = sleepers(cli)
    old = cli.json("status")["pid"]
    supervisor = psutil.Process(supervisor_pid(cli))
    socket = Paths(cli.home).socket
    os.kill(old, signal.SIGSTOP)  # it leaves only once the new one is up
    try:
        aside = cli.folder / "aside"
        cli.home.rename(aside)
        (cli.folder / "begun").unlink()
        socket.unlink(missing_ok=True)  # else the stopped one would be asked, where it is not in the home
        assert cli("up", "-d").returncode == 0
        new = cli.json("status")["pid"]
        assert cli("run", "--", "echo", "new").stdout == b"new\n"
        assert old_program.is_running(), "attempt 1 of the new home is not that of the old one"
    finally:
        os.kill(old, signal.SIGCONT)
    until(lambda: is_gone(old))
    supervisor.terminate()
    until(lambda: is_gone(supervisor.pid))
    assert old_program.is_running()
    assert cli.json("status")["pid"] == new
    assert cli("run", "--", "echo", "again").stdout == b"again\n"
    assert cli("down").returncode == 0
    assert cli("up", "-d").returncode == 0
    assert len(cli.json("jobs")["jobs"]) == 2, "its store is whole: no write-ahead log was taken from it"
    assert "moved or deleted" in (aside / "daemon.log").read_text()


def test_what_cannot_be_seen_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with path.open("w") as file:
        lock = homelock.HomeLock(path, file.fileno())
        assert lock.is_in_place()
        assert homelock.HomeLock(tmp_path / ("x" * 300), file.fileno()).is_in_place()
        path.rename(tmp_path / "other")
        assert not lock.is_in_place()
        path.touch()
        assert not lock.is_in_place()
        assert not homelock.HomeLock(path / "below", file.fileno()).is_in_place()
