"""A turn is committed whole, as a plain model of it says, or not at all."""

from __future__ import annotations

import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from anycard.config import Paths
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.failures import StoreError, StoreRefusedError
from anycard.store.tables import metadata


def test_a_turn_of_every_kind(store: Store, rows: Any, table_rows: Any) -> None:
    changes = Changes()
    changes.insert("jobs", rows.job(1, name="früh 早", held=True))
    changes.insert("jobs", rows.job(2))
    changes.insert("items", rows.item(1, 0, values_json='{"file": "a.csv"}'))
    changes.insert("items", rows.item(1, 1))  # another shape than the row before
    changes.insert("attempts", rows.attempt(7, 1, peak_memory_bytes=2**40))
    changes.insert("grants", rows.grant(9, 7, 1, cards_json='["nvidia:GPU-1"]'))
    changes.insert("meta", {"key": "k", "value": "v"})
    for number in range(5):
        changes.event(rows.event(f"kind.{number}", 1))
    store.commit(changes)

    later = Changes()
    later.update("jobs", 1, state="running")
    later.update("jobs", 2, state="failed", ended_at=5.5)
    later.update("items", (1, 1), state="running", attempts=1)
    later.update("attempts", 7, state="ended")
    later.update("grants", 9, seconds=0.25)
    later.update("meta", "k", value="w")
    store.commit(later)

    jobs = table_rows(store, "jobs")
    assert [(row["id"], row["name"], row["state"], row["held"], row["ended_at"]) for row in jobs] == [
        (1, "früh 早", "running", True, None),
        (2, "job-2", "failed", False, 5.5),
    ]
    assert [(row["item"], row["state"], row["attempts"]) for row in table_rows(store, "items")] == [
        (0, "queued", 0),
        (1, "running", 1),
    ]
    attempt = table_rows(store, "attempts")[0]
    assert (attempt["state"], attempt["peak_memory_bytes"]) == ("ended", 2**40)
    assert table_rows(store, "grants")[0]["seconds"] == 0.25
    assert table_rows(store, "meta") == [{"key": "k", "value": "w"}]
    assert [row["kind"] for row in table_rows(store, "events")] == [f"kind.{number}" for number in range(5)]


def test_updates_in_the_turn_of_the_insert_are_one_row(store: Store, rows: Any, table_rows: Any) -> None:
    changes = Changes()
    changes.insert("jobs", rows.job(1))
    changes.update("jobs", 1, state="running", first_granted_at=3.0)
    store.commit(changes)
    assert table_rows(store, "jobs")[0]["first_granted_at"] == 3.0


def test_a_change_of_a_row_that_is_not_there_writes_nothing(store: Store, rows: Any, table_rows: Any) -> None:
    rows.commit_job(store, 1)
    changes = Changes()
    changes.insert("jobs", rows.job(2))
    changes.update("items", (1, 0), state="running")
    changes.update("items", (1, 99), state="running")
    with pytest.raises(StoreError, match="1 of 2 rows of items"):
        store.commit(changes)
    assert [row["id"] for row in table_rows(store, "jobs")] == [1]
    assert table_rows(store, "items")[0]["state"] == "queued"
    rows.commit_job(store, 2)  # and the store goes on


def test_a_refused_row_takes_its_turn_with_it(store: Store, rows: Any, table_rows: Any) -> None:
    rows.commit_job(store, 1)
    changes = Changes()
    changes.insert("jobs", rows.job(2))
    changes.insert("jobs", rows.job(3, submit_key="key-1"))
    changes.event(rows.event("job.submitted", 2))
    with pytest.raises(StoreRefusedError):
        store.commit(changes)
    assert [row["id"] for row in table_rows(store, "jobs")] == [1]
    assert len(table_rows(store, "events")) == 1


def test_an_empty_turn_is_none(store: Store, table_rows: Any) -> None:
    store.commit(Changes())
    assert table_rows(store, "events") == []


def test_commits_from_many_threads_queue(store: Store, rows: Any, table_rows: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda job_id: rows.commit_job(store, job_id, items=3), range(1, 41)))
    assert [row["id"] for row in table_rows(store, "jobs")] == list(range(1, 41))
    assert len(table_rows(store, "items")) == 120


def test_a_read_sees_one_moment(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1)
    jobs = metadata.tables["jobs"]
    with store.read() as connection:
        before = connection.execute(select(jobs.c.id)).scalars().all()
        rows.commit_job(store, 2)  # does not wait for the reader
        assert connection.execute(select(jobs.c.id)).scalars().all() == before == [1]


def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(Exception, match=r"read.?only"), store.read() as connection:
        connection.exec_driver_sql("DELETE FROM jobs")


def test_files_are_private(paths: Paths, sqlite_store: Store, rows: Any) -> None:
    rows.commit_job(sqlite_store, 1)
    assert stat.S_IMODE(paths.home.stat().st_mode) == 0o700
    for name in ("anycard.db", "anycard.db-wal", "anycard.db-shm"):
        assert stat.S_IMODE((paths.home / name).stat().st_mode) == 0o600, name


def test_a_home_that_others_may_read_is_closed_to_them(paths: Paths) -> None:
    paths.home.mkdir(mode=0o755)
    paths.home.chmod(0o755)
    Store.open(paths).close()
    assert stat.S_IMODE(paths.home.stat().st_mode) == 0o711


def test_the_disk_is_asked_to_keep_each_turn(sqlite_store: Store) -> None:
    with sqlite_store.write() as cursor:
        for pragma, wanted in (("journal_mode", "wal"), ("synchronous", 2)):
            cursor.execute(f"PRAGMA {pragma}")
            assert cursor.fetchone()[0] == wanted


_COLUMNS = {
    "state": st.sampled_from(["queued", "running", "succeeded"]),
    "attempts": st.integers(0, 2**31 - 1),
    "not_before": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
    "values_json": st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    "exit_code": st.none() | st.integers(0, 255),
}
_KEY = st.tuples(st.integers(1, 4), st.integers(0, 3))
_VALUES = st.fixed_dictionaries({}, optional=_COLUMNS)
_TURNS = st.lists(st.lists(st.tuples(_KEY, _VALUES), max_size=12), max_size=6)


@settings(max_examples=60, deadline=None)
@given(turns=_TURNS)
def test_any_turns_leave_what_a_plain_model_says(turns: list[list[tuple[tuple[int, int], dict[str, Any]]]]) -> None:
    model: dict[tuple[int, int], dict[str, Any]] = {}
    happened: list[str] = []
    nothing = dict.fromkeys(metadata.tables["items"].c.keys())
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Paths(Path(folder) / "home"))
        for turn in turns:
            changes = Changes()
            for key, values in turn:
                if key in model:
                    changes.update("items", key, **values)
                    model[key].update(values)
                else:
                    row = {"job_id": key[0], "item": key[1], "state": "queued", "attempts": 0, **values}
                    changes.insert("items", row)
                    model[key] = {**nothing, **row}
                happened.append(f"{key}")
                changes.event({"at": 0.0, "boot_s": 0.0, "boot_id": "", "kind": f"{key}", "tenant": "", "user": ""})
            store.commit(changes)
        store.close()
        store = Store.open(Paths(Path(folder) / "home"))
        with store.read() as connection:
            items, events = metadata.tables["items"], metadata.tables["events"]
            found = {(row["job_id"], row["item"]): dict(row) for row in connection.execute(select(items)).mappings()}
            assert found == model
            assert list(connection.execute(select(events.c.kind).order_by(events.c.seq)).scalars()) == happened
        store.close()
