"""The daemon's own troubles: a stale socket, a second one, a damaged store, a store that grew large, being started from within a job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from called import Cli, until

from anycard.config import Paths
from anycard.daemon import storecare
from anycard.host.live import LiveHost
from anycard.jobs.board import Board
from anycard.jobs.upkeep import Upkeep
from anycard.model.text import Text
from anycard.store.backup import rolling_backup
from anycard.store.engine import Store


def kill_daemon(cli) -> None:
    pid = cli.json("status")["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (("submit", "--", "true"), 0),
        (("run", "--", "true"), 0),
        (("jobs",), 0),
        (("job", "1"), 3),
        (("wait", "1"), 3),
        (("logs", "1"), 3),
        (("hold", "1"), 3),
        (("retry", "1", "--failed"), 3),
        (("top", "--once"), 0),
        (("prune", "--dry-run"), 0),
        (("backup", "copy.db"), 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_any_verb_starts_the_daemon_of_a_bare_machine(tmp_path, verb, code):
    called = Cli(tmp_path / "home")
    try:
        out = called(*verb)
        assert out.returncode == code, out.stderr
        assert called.json("status")["running"] is True
    finally:
        called("down", "--stop")


def test_a_stale_socket_is_replaced(fresh):
    assert fresh("up", "-d").returncode == 0
    where = Paths(fresh.home).socket
    if not where.exists():
        where = next(path for path in (fresh.home / "run").glob("*.d"))
    kill_daemon(fresh)
    assert where.exists()
    assert fresh("status").returncode == 3
    assert fresh("run", "--", "echo", "hello").stdout == b"hello\n"


def test_a_socket_that_never_answers_is_no_daemon(fresh):
    """A file in the socket's place, and a listener that is not ours to wait for."""
    assert fresh("up", "-d").returncode == 0
    where = Paths(fresh.home).socket
    fresh("down")
    where.parent.mkdir(mode=0o700, exist_ok=True)
    where.write_text("a plain file")
    assert fresh("run", "--", "echo", "hello").stdout == b"hello\n"
    fresh("down")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(where))  # bound, nobody listens
        assert fresh("run", "--", "echo", "hello").stdout == b"hello\n"


def test_a_second_daemon_on_the_home_says_who_is_there(fresh):
    assert fresh("up", "-d").returncode == 0
    pid = fresh.json("status")["pid"]
    second = fresh.start("up", stdout=-1, stderr=-1)
    said = second.communicate(timeout=60)[1].decode()
    assert second.returncode == 2
    assert str(pid) in said
    direct = subprocess.run(
        [sys.executable, "-m", "anycard.daemon"], env=fresh.environ, capture_output=True, text=True, timeout=60
    )
    assert direct.returncode == 2
    assert f"pid {pid}" in direct.stderr
    assert "Traceback" not in direct.stderr
    assert fresh.json("status")["pid"] == pid


def spoil(database: Path) -> None:
    """Overwrites the middle of the file: the header stays whole."""
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(size - 8192))
    for ending in ("-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)


def test_a_damaged_store_is_said_the_backup_named_and_put_back(fresh):
    assert fresh("run", "--name", "kept", "--", "true").returncode == 0
    assert fresh("down").returncode == 0
    made = rolling_backup(Paths(fresh.home), older_than_s=0)
    assert made is not None
    spoil(fresh.home / "anycard.db")
    out = fresh("jobs", "--json")
    assert out.returncode == 125
    said = out.stderr.decode()
    assert "damaged" in said
    assert str(made) in said
    assert "Traceback" not in said
    assert json.loads(out.stdout)["schema"] == "anycard.error/1"
    assert "Traceback" not in (fresh.home / "daemon.log").read_text()
    log = (fresh.home / "daemon.log").read_text()
    command = log[log.index("its place: ") + len("its place: ") : log.rindex(")")]
    subprocess.run(command, shell=True, check=True)
    assert [job["name"] for job in fresh.json("jobs")["jobs"]] == ["kept"]


def test_a_database_of_another_program_is_left_alone(fresh):
    fresh.home.mkdir(mode=0o700)
    connection = sqlite3.connect(fresh.home / "anycard.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    out = fresh("jobs")
    assert out.returncode == 125
    assert b"another program" in out.stderr
    connection = sqlite3.connect(fresh.home / "anycard.db")
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_a_backup_is_made_a_day_and_is_a_whole_store(fresh):
    assert fresh("run", "--name", "kept", "--", "true").returncode == 0
    fresh("down")
    assert fresh("up", "-d").returncode == 0
    (made,) = until(lambda: list((fresh.home / "backups").glob("*.db")))
    assert made.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(made) as copy:
        assert copy.execute("SELECT name FROM jobs").fetchall() == [("kept",)]
    fresh("down")
    assert fresh("up", "-d").returncode == 0
    assert fresh("run", "--", "true").returncode == 0
    assert list((fresh.home / "backups").glob("*.db")) == [made]


def test_damage_found_while_in_use_is_told(tmp_path, monkeypatch):
    """A store too large to be read at its open is read beside the work."""
    paths = Paths(tmp_path / "home")
    store = Store.open(paths)
    monkeypatch.setattr(storecare, "CHECKED_AT_OPEN_BYTES", 0)
    store.close()
    store = Store.open(paths)
    with store.read() as connection:
        connection.exec_driver_sql("SELECT 1")
    spoil(paths.database)
    told: list[str] = []
    asyncio.run(
        asyncio.wait_for(
            storecare.look_after_store(store, paths, lambda: Board(next_job=5), lambda text: told.append(str(text))), 30
        )
    )
    assert len(told) == 1
    assert "is damaged" in told[0]
    machine = Upkeep(paths, LiveHost())
    machine.note_damage(Text(told[0]))
    assert str(machine.paused) == told[0], "nothing new starts"
    assert not list(tmp_path.glob("home/backups/*")), "no copy of a damaged store pushes a good backup out"


def test_a_daemon_started_from_within_a_job_is_no_part_of_the_job(fresh):
    other = Cli(fresh.folder / "other")
    script = (
        f"{sys.executable} -m anycard.cli --home {other.home} up -d\n"
        f"{sys.executable} -m anycard.cli --home {other.home} submit -- sh -c 'env >seen'\n"
    )
    done_text = (
        f"run: |\n  {script.strip().replace(chr(10), chr(10) + '  ')}\n  env | grep -c ANYCARD_ATTEMPT_ID\n  sleep 1\n"
    )
    try:
        job = None
        assert fresh("up", "-d").returncode == 0
        job = fresh.submit(done_text)
        seen = until(lambda: (fresh.folder / "seen").exists() and (fresh.folder / "seen").read_text())
        pid = other.json("status")["pid"]
        names = {pair.partition(b"=")[0] for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
        assert not {name for name in names if name.startswith(b"ANYCARD_")} - {b"ANYCARD_HOME"}
        assert f"ANYCARD_HOME={other.home}\n" in seen
        assert fresh.over(job)["state"] == "succeeded"
    finally:
        other("down", "--stop")


def test_a_daemon_that_a_job_had_to_start_outlives_the_job(fresh):
    """The daemon was killed; a program of the job then submits another, which brings it back."""
    assert fresh("up", "-d").returncode == 0
    job = fresh.submit(
        "run: |\n  while [ ! -e killed ]; do sleep 0.05; done\n"
        f"  {sys.executable} -m anycard.cli submit --name inner -- true\n"
    )
    until(lambda: fresh.json("job", str(job))["counts"]["running"])
    kill_daemon(fresh)
    (fresh.folder / "killed").touch()
    until(lambda: fresh.json("status")["running"])
    pid = fresh.json("status")["pid"]
    done = fresh.over(job)
    assert (done["state"], done["items"][0]["attempts"]) == ("succeeded", 1)
    inner = fresh.over(fresh.json("job", "inner")["id"])
    assert inner["state"] == "succeeded"
    assert fresh.ran("run: sleep 0.5")["state"] == "succeeded"
    assert fresh.json("status")["pid"] == pid


def test_a_setting_that_is_no_size_is_said(tmp_path):
    called = Cli(tmp_path / "home", {"ANYCARD_DISK_PAUSE_BYTES": "plenty"})
    out = called("jobs")
    assert out.returncode == 125
    assert b"ANYCARD_DISK_PAUSE_BYTES is no size: plenty" in out.stderr
    assert "Traceback" not in (called.home / "daemon.log").read_text()
