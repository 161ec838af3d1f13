"""Full disks, damage, other holders: each is told apart, and nothing is half-written."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anycard.config import Paths
from anycard.store import queries
from anycard.store.backup import back_up
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.failures import DiskFullError, StoreAccessError, StoreBusyError, StoreDamagedError
from anycard.store.reserve import Reserve, free_bytes
from anycard.units import MIB


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", folder], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a full disk cannot be made here, run as root with leave to mount: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(folder: Path) -> None:
    with open(folder / "ballast", "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(MIB))
        except OSError:
            pass  # full: what we came for
        try:
            while True:
                out.write(bytes(512))
        except OSError:
            return


def _damage(path: Path) -> None:
    """Overwrites all pages but the first."""
    with open(path, "r+b") as out:
        out.seek(4096)
        out.write(os.urandom(path.stat().st_size - 4096))


def test_a_full_disk_refuses_whole_turns_and_the_reserve_lets_the_pause_through(small_disk: Path, rows: Any) -> None:
    paths = Paths(small_disk / "home")
    store = Store.open(paths)
    reserve = Reserve(paths.reserve)
    assert reserve.refill()
    rows.commit_job(store, 1)
    _fill(small_disk)
    turn = Changes()
    for job_id in range(2, 200):
        turn.insert("jobs", rows.job(job_id, spec_json='{"options":[]}' + " " * 3000))
    with pytest.raises(DiskFullError) as caught:
        store.commit(turn)
    assert "anycard prune" in (caught.value.hint or "")
    with store.read() as connection:
        assert [row["id"] for row in queries.jobs_page(connection).rows] == [1]
    assert reserve.free()
    store.commit(turn)
    store.close()
    reopened = Store.open(paths)
    with reopened.read() as connection:
        assert queries.counts_by_state(connection) == {"queued": 199}
    reopened.close()


def test_a_database_that_may_not_grow_is_a_full_disk(sqlite_store: Store, rows: Any) -> None:
    rows.commit_job(sqlite_store, 1)
    with sqlite_store.write() as cursor:
        cursor.execute("PRAGMA page_count")
        pages = cursor.fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    turn = Changes()
    for job_id in range(2, 300):
        turn.insert("jobs", rows.job(job_id))
        turn.insert("items", rows.item(job_id))
    with pytest.raises(DiskFullError):
        sqlite_store.commit(turn)
    with sqlite_store.read() as connection:
        assert queries.counts_by_state(connection) == {"queued": 1}
    with sqlite_store.write() as cursor:
        cursor.execute("PRAGMA max_page_count = 1000000")
    sqlite_store.commit(turn)


def test_damage_is_said_with_the_backup_and_a_command_that_works(paths: Paths, rows: Any, tmp_path: Path) -> None:
    store = Store.open(paths)
    for job_id in range(1, 60):
        rows.commit_job(store, job_id)
    kept = tmp_path / "my backups" / "it's one.db"
    kept.parent.mkdir()
    back_up(store, kept)
    rows.commit_job(store, 60)
    store.close()
    _damage(paths.database)

    with pytest.raises(StoreDamagedError) as caught:
        Store.open(paths)
    assert str(kept) in str(caught.value)
    command = str(caught.value.params["command"])
    subprocess.run(["/bin/sh", "-c", command], check=True)
    restored = Store.open(paths)
    with restored.read() as connection:
        assert queries.counts_by_state(connection) == {"queued": 59}
    restored.close()
    assert Path(f"{paths.database}.damaged").exists(), "what was there is kept"


def test_damage_without_a_backup_says_so_and_how_to_go_on(paths: Paths, rows: Any) -> None:
    store = Store.open(paths)
    for job_id in range(1, 60):
        rows.commit_job(store, job_id)
    store.close()
    _damage(paths.database)
    with pytest.raises(StoreDamagedError, match="no backup of it was found") as caught:
        Store.open(paths)
    subprocess.run(["/bin/sh", "-c", str(caught.value.params["command"])], check=True)
    Store.open(paths).close()


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, I am a text file\n" * 500, b"SQLite format 3\0" + b"\xff" * 8000],
    ids=["empty", "text", "header only"],
)
def test_a_file_that_is_no_store_any_more(paths: Paths, rows: Any, content: bytes) -> None:
    store = Store.open(paths)
    rows.commit_job(store, 1)
    store.close()
    paths.job(1).mkdir(parents=True)
    paths.database.write_bytes(content)
    with pytest.raises(StoreDamagedError):
        Store.open(paths)
    assert paths.database.read_bytes() == content


def test_a_truncated_store_is_damaged(paths: Paths, rows: Any) -> None:
    store = Store.open(paths)
    for job_id in range(1, 60):
        rows.commit_job(store, job_id)
    store.close()
    os.truncate(paths.database, paths.database.stat().st_size // 8192 * 4096)
    with pytest.raises(StoreDamagedError):
        Store.open(paths)


def test_damage_under_a_running_store_is_found(paths: Paths, rows: Any) -> None:
    store = Store.open(paths)
    for job_id in range(1, 400):
        rows.commit_job(store, job_id)
    with closing(sqlite3.connect(paths.database)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _damage(paths.database)
    assert isinstance(store.find_damage(), StoreDamagedError)
    store.close()


def test_a_whole_store_has_no_damage(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1)
    assert store.find_damage() is None


def test_a_store_held_by_another_program(paths: Paths, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anycard.store.sqlite._BUSY_TIMEOUT_S", 0.05)
    store = Store.open(paths)
    with closing(sqlite3.connect(paths.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="another program holds"):
            rows.commit_job(store, 1)
        other.execute("ROLLBACK")
    rows.commit_job(store, 1)
    store.close()


def test_a_home_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreAccessError, match="cannot be opened") as caught:
        Store.open(Paths(tmp_path / "file" / "home"))
    assert shlex.quote(str(tmp_path / "file" / "home")) in str(caught.value.to_json()["hint"])


def test_a_lost_server_connection_is_made_again(paths: Paths, postgres_url: str, rows: Any, table_rows: Any) -> None:
    import psycopg

    store = Store.open(paths, postgres_url)
    rows.commit_job(store, 1)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    with pytest.raises(StoreAccessError):
        rows.commit_job(store, 2)
    rows.commit_job(store, 2)
    assert [row["id"] for row in table_rows(store, "jobs")] == [1, 2]
    store.close()


def test_the_reserve_takes_real_space(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 4 * MIB)
    assert not reserve.is_whole
    assert reserve.free() is False
    assert reserve.refill() and reserve.refill()
    found = reserve.path.stat()
    assert (found.st_size, found.st_blocks * 512 >= 4 * MIB, found.st_mode & 0o777) == (4 * MIB, True, 0o600)
    assert reserve.free() is True
    assert not reserve.path.exists()
    assert free_bytes(tmp_path) > 0


def test_the_reserve_is_not_refilled_on_a_full_disk(small_disk: Path) -> None:
    reserve = Reserve(small_disk / "reserve")
    assert reserve.refill()
    _fill(small_disk)
    assert reserve.free()
    _fill(small_disk)
    assert reserve.refill() is False
    assert os.listdir(small_disk) == ["ballast"]
    (small_disk / "ballast").unlink()
    assert reserve.refill()
