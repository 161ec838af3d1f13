"""The store is older than what lies beside it: said once, with the newest backup, and no id or folder is given out twice."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from called import Cli, until

from anycard.config import Paths
from anycard.store.backup import rolling_backup


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """Job 1 is safe in the file."""
    called = Cli(tmp_path / "home")
    assert called("run", "--", "echo", "one").returncode == 0
    assert called("down").returncode == 0
    yield called
    called("down", "--stop")


def kill_daemon(cli: Cli) -> None:
    pid = cli.json("status")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def kinds(cli: Cli) -> list[str]:
    with sqlite3.connect(cli.home / "anycard.db") as connection:
        return [row[0] for row in connection.execute("SELECT kind FROM events ORDER BY seq")]


def test_a_deleted_write_ahead_log_is_noticed(cli: Cli) -> None:
    backup = rolling_backup(Paths(cli.home), older_than_s=0)
    for word in ("two", "three"):
        assert cli("run", "--", "echo", word).returncode == 0
    kill_daemon(cli)
    for ending in ("-wal", "-shm"):
        (cli.home / f"anycard.db{ending}").unlink()
    done = cli("up", "-d")
    assert done.returncode == 0
    said = done.stderr.decode()
    assert f"ends at job 1, but {cli.home}/jobs holds jobs up to 3" in said
    assert f"the newest backup is {backup}" in said
    assert "ends at job 1" in cli("status").stdout.decode()
    assert "ends at job 1" in (cli.home / "daemon.log").read_text()
    assert cli.json("status")["paused"] is None, "work goes on"
    assert cli("run", "--json", "--", "echo", "next").returncode == 0
    assert cli.json("job", "echo")["id"] == 4
    assert (cli.home / "jobs/3/0.1.log").read_text().count("three") == 1, "untouched"
    cli("down")
    again = cli("up", "-d")
    assert (again.returncode, again.stderr) == (0, b"")
    assert kinds(cli).count("store.older") == 1


def test_an_older_copy_put_back_without_new_work_is_said_once(cli: Cli) -> None:
    shutil.copy(cli.home / "anycard.db", cli.folder / "copy.db")
    assert cli("run", "--", "echo", "two").returncode == 0
    assert cli("down").returncode == 0
    shutil.copy(cli.folder / "copy.db", cli.home / "anycard.db")
    assert "ends at job 1" in cli("up", "-d").stderr.decode()
    with sqlite3.connect(cli.home / "anycard.db") as connection:
        floors = connection.execute("SELECT value FROM meta WHERE key = 'ids_from'").fetchone()[0]
    assert '"jobs": 3' in floors
    cli("down")
    shutil.rmtree(cli.home / "jobs/2")
    assert cli("up", "-d").stderr == b""
    assert cli("submit", "--hold", "--", "true").stdout.startswith(b"job 3 ")


def test_a_folder_of_a_submission_that_was_never_recorded_is_no_loss(cli: Cli) -> None:
    """What a daemon leaves that is killed between a submission's files and its record."""
    (cli.home / "jobs/7").mkdir()
    (cli.home / "jobs/7/job.yaml").write_text("run: true\n")
    assert cli("up", "-d").stderr == b""
    assert "store.older" not in kinds(cli)
    assert cli("submit", "--hold", "--", "true").stdout.startswith(b"job 8 "), "its folder is left alone all the same"
