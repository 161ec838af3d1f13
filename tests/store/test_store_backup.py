"""Backups are consistent while writes go on, never replace another file, and are told from the store they came from."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anycard.config import Paths
from anycard.errors import ConflictError, UsageError
from anycard.store.backup import back_up, is_backup, newest_backup, rolling_backup
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.failures import StoreError


def _counts(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        return tuple(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("jobs", "items"))  # type: ignore[return-value]


def test_a_backup_made_while_writes_go_on_is_one_moment(sqlite_store: Store, tmp_path: Path, rows: Any) -> None:
    written, stop = [], threading.Event()

    def write() -> None:
        while not stop.is_set():
            rows.commit_job(sqlite_store, len(written) + 1, items=3)
            written.append(True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        for number in range(8):
            before = len(written)
            target = tmp_path / f"backup-{number}.db"
            size = back_up(sqlite_store, target)
            jobs, items = _counts(target)
            assert items == 3 * jobs, "a job without its items: two moments in one backup"
            assert before <= jobs <= len(written) + 1
            assert size == target.stat().st_size
            seen.append(jobs)
    finally:
        stop.set()
        writer.join()
    assert seen == sorted(seen)
    assert sorted(os.listdir(tmp_path)) == [*(f"backup-{number}.db" for number in range(8)), "home"], (
        "nothing else is left"
    )


def test_a_backup_is_private_and_marked(sqlite_store: Store, tmp_path: Path, paths: Paths) -> None:
    target = tmp_path / "b.db"
    back_up(sqlite_store, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert is_backup(target)
    assert not is_backup(paths.database)
    assert newest_backup(paths) == target


def test_only_a_backup_is_replaced(sqlite_store: Store, tmp_path: Path, paths: Paths, rows: Any) -> None:
    target = tmp_path / "b.db"
    back_up(sqlite_store, target)
    rows.commit_job(sqlite_store, 1)
    back_up(sqlite_store, target)
    assert _counts(target) == (1, 1)

    precious = tmp_path / "thesis.txt"
    precious.write_text("years of work")
    link = tmp_path / "link.db"
    link.symlink_to(target)
    for other in (precious, link, paths.database, tmp_path):
        with pytest.raises(ConflictError, match="is not a backup"):
            back_up(sqlite_store, other)
    assert precious.read_text() == "years of work"
    assert link.is_symlink()


def test_a_target_that_cannot_be(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absolute"):
        back_up(sqlite_store, Path("b.db"))
    with pytest.raises(UsageError, match="there is no folder"):
        back_up(sqlite_store, tmp_path / "nowhere" / "b.db")
    with pytest.raises(StoreError, match="could not be written"):
        back_up(sqlite_store, tmp_path / ("x" * 300))
    assert os.listdir(tmp_path) == ["home"]


def test_postgres_has_its_own_tool(paths: Paths, postgres_url: str, tmp_path: Path) -> None:
    store = Store.open(paths, postgres_url)
    with pytest.raises(UsageError) as caught:
        back_up(store, tmp_path / "b.dump")
    assert "pg_dump" in (caught.value.hint or "")
    store.close()


def test_a_restored_store_gives_out_no_id_twice(paths: Paths, rows: Any, tmp_path: Path, table_rows: Any) -> None:
    store = Store.open(paths)
    rows.commit_job(store, 1)
    changes = Changes()
    changes.insert("attempts", rows.attempt(5, 1))
    changes.insert("grants", rows.grant(6, 5, 1))
    store.commit(changes)
    assert store.next_ids().attempt == 6
    back_up(store, tmp_path / "b.db")
    for job_id in (2, 3, 4):  # after the backup, so the restored store does not know them; their folders are there
        rows.commit_job(store, job_id)
        paths.job(job_id).mkdir(parents=True)
    store.close()

    shutil.copy(tmp_path / "b.db", paths.database)
    store = Store.open(paths)
    first = store.next_ids()
    assert first.job == 5
    assert first.attempt > 1_000_000
    assert first.grant > 1_000_000
    assert [row["kind"] for row in table_rows(store, "events")][-1] == "store.restored"
    store.close()

    store = Store.open(paths)
    assert store.next_ids() == first, "kept, although nothing was started in between"
    assert [row["kind"] for row in table_rows(store, "events")].count("store.restored") == 1
    store.close()


def test_next_ids_of_a_new_and_a_used_store(store: Store, rows: Any) -> None:
    first = store.next_ids()
    assert (first.job, first.attempt, first.grant) == (1, 1, 1)
    rows.commit_job(store, 41)
    assert store.next_ids().job == 42


def test_rolling_backups_keep_the_newest_three(sqlite_store: Store, paths: Paths) -> None:
    made = [rolling_backup(paths, older_than_s=0) for _ in range(5)]
    assert None not in made
    assert sorted((paths.home / "backups").iterdir()) == made[2:]
    assert rolling_backup(paths, older_than_s=3600) is None
    assert newest_backup(paths) == made[-1]


def test_a_backup_that_was_taken_away_is_not_named(sqlite_store: Store, paths: Paths, tmp_path: Path) -> None:
    assert newest_backup(paths) is None
    for name in ("first.db", "second.db", "third.db"):
        back_up(sqlite_store, tmp_path / name)
    (tmp_path / "third.db").unlink()
    (tmp_path / "second.db").write_text("overwritten since")
    assert newest_backup(paths) == tmp_path / "first.db"
    (paths.home / "backups.log").write_text("not ours")
    assert newest_backup(paths) is None
