"""Pages, look-ups and the rebuild of the daemon's memory, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from anycard.errors import NotFoundError, UsageError
from anycard.store import queries
from anycard.store.changes import Changes
from anycard.store.engine import Store


def _pages(store: Store, **arguments: Any) -> list[int]:
    """Ids of all pages, one after the other."""
    found: list[int] = []
    cursor = None
    while True:
        with store.read() as connection:
            page = queries.jobs_page(connection, cursor=cursor, **arguments)
        assert 0 < len(page.rows) <= arguments["limit"] or (not page.rows and not found)
        found += [row["id"] for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_pages_of_jobs_newest_first_and_by_filter(store: Store, rows: Any) -> None:
    states = ["queued", "running", "succeeded", "partly-failed", "failed", "cancelled"]
    for job_id in range(1, 31):
        rows.commit_job(
            store, job_id, state=states[job_id % 6], user="ann" if job_id % 2 else "bob", name=f"n{job_id % 3}"
        )
    everything = range(30, 0, -1)
    for limit in (1, 7, 30, 31):
        assert _pages(store, limit=limit) == list(everything)
    assert _pages(store, limit=4, states=["failed"]) == [n for n in everything if n % 6 == 4]
    assert _pages(store, limit=4, states=["open"]) == [n for n in everything if n % 6 in (0, 1)]
    assert _pages(store, limit=4, states=["ended", "queued"]) == [n for n in everything if n % 6 != 1]
    assert _pages(store, limit=4, user="bob", name="n0") == [n for n in everything if n % 6 == 0]
    assert _pages(store, limit=4, user="nobody") == []


def test_a_page_brings_the_options_and_not_the_whole_spec(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1)
    with store.read() as connection:
        row = queries.jobs_page(connection).rows[0]
        assert "spec_json" not in row
        assert row["options"] == [{"cpus": 1.0, "memory_bytes": None, "card_count": 0, "card": None}]
        assert queries.job(connection, 1)["options"] == row["options"]


@pytest.mark.parametrize("cursor", ["", "-1", "1;DROP TABLE jobs", "９", "1" * 30])
def test_a_cursor_that_is_none(store: Store, cursor: str) -> None:
    with pytest.raises(UsageError, match="no cursor"), store.read() as connection:
        queries.jobs_page(connection, cursor=cursor)


def test_limits_are_bounded(store: Store) -> None:
    with store.read() as connection:
        with pytest.raises(UsageError):
            queries.jobs_page(connection, limit=0)
        assert queries.jobs_page(connection, limit=10**9).rows == []


def test_a_job_by_id_or_by_its_latest_name(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1, name="train")
    rows.commit_job(store, 2, name="train")
    rows.commit_job(store, 3, name="1")
    rows.commit_job(store, 4, name="77")
    with store.read() as connection:
        assert queries.job(connection, "train")["id"] == 2
        assert queries.job(connection, "1")["id"] == 1, "an id goes before a name"
        assert queries.job(connection, 77)["id"] == 4, "no such id: the name"
        for ref in ("nothing", "99999999999999999999999", "", "-1", "１"):
            with pytest.raises(NotFoundError):
                queries.job(connection, ref)


@pytest.mark.parametrize("odd", ["a\0b", "\0", "\ud800"])
def test_what_no_column_can_hold_is_not_there(store: Store, rows: Any, odd: str) -> None:
    rows.commit_job(store, 1, name="train", user="ana")
    with store.read() as connection:
        for asked in ({"name": odd}, {"user": odd}):
            assert queries.jobs_page(connection, **asked).rows == []
        with pytest.raises(NotFoundError):
            queries.job(connection, odd, "ana")


def test_items_come_with_their_last_attempt(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1, items=5)
    rows.commit_job(store, 2)
    changes = Changes()
    changes.insert("attempts", rows.attempt(10, 1, 2, 1, stem="/f/2.1"))
    changes.insert("attempts", rows.attempt(11, 1, 2, 2, stem="/f/2.2", engine="slurm"))
    changes.insert("attempts", rows.attempt(12, 1, -1, 1, stem="/f/prepare"))
    changes.insert("grants", rows.grant(1, 10, 1, cards_json='["nvidia:a"]'))
    changes.insert("grants", rows.grant(2, 11, 1, cards_json='["nvidia:b"]'))
    changes.update("items", (1, 2), state="running", attempts=2)
    store.commit(changes)
    with store.read() as connection:
        page = queries.items_page(connection, 1, limit=3)
        assert [row["item"] for row in page.rows] == [0, 1, 2]
        assert page.rows[0]["stem"] is None
        last = page.rows[2]
        assert (last["attempt_id"], last["attempt_number"], last["stem"]) == (11, 2, "/f/2.2")
        assert (last["engine"], last["cards_json"], last["state"]) == ("slurm", '["nvidia:b"]', "running")
        rest = queries.items_page(connection, 1, limit=3, cursor=page.next_cursor)
        assert ([row["item"] for row in rest.rows], rest.next_cursor) == ([3, 4], None)
        assert [row["item"] for row in queries.items_page(connection, 1, states=["running"]).rows] == [2]
        assert [row["attempt_id"] for row in queries.items_by_number(connection, 1, [4, 2])] == [11, None]
        with pytest.raises(NotFoundError, match="job 1 has no item 5"):
            queries.items_by_number(connection, 1, [2, 5])


def test_events_after(store: Store, rows: Any) -> None:
    changes = Changes()
    for number in range(10):
        changes.event(rows.event(f"k{number}", number % 2))
    store.commit(changes)
    with store.read() as connection:
        first = queries.events_after(connection, 0, limit=4)
        assert [row["kind"] for row in first] == ["k0", "k1", "k2", "k3"]
        rest = queries.events_after(connection, first[-1]["seq"])
        assert [row["kind"] for row in rest] == [f"k{number}" for number in range(4, 10)]
        assert [row["kind"] for row in queries.events_after(connection, 0, job_id=1)] == ["k1", "k3", "k5", "k7", "k9"]


def test_counts_by_state(store: Store, rows: Any) -> None:
    for job_id, state in enumerate(["queued", "queued", "failed"], start=1):
        rows.commit_job(store, job_id, state=state)
    with store.read() as connection:
        assert queries.counts_by_state(connection) == {"queued": 2, "failed": 1}


def test_load_open_brings_all_that_is_not_over_and_nothing_else(store: Store, rows: Any) -> None:
    rows.commit_job(store, 1, state="succeeded")
    rows.commit_job(store, 2, state="running", items=5)
    rows.commit_job(store, 3, state="queued", items=2)
    changes = Changes()
    changes.update("items", (1, 0), state="failed", attempts=1)
    changes.insert("attempts", rows.attempt(1, 1, 0, 1, state="ended"))
    changes.insert("grants", rows.grant(1, 1, 1, to_utc=2.0))
    for item, state in enumerate(["succeeded", "running", "failed", "cancelled", "queued"]):
        changes.update("items", (2, item), state=state, attempts=1 if item < 4 else 0)
    for item in range(4):
        attempt_id = 10 + item
        changes.insert("attempts", rows.attempt(attempt_id, 2, item, 1, state="ended"))
        changes.insert("grants", rows.grant(attempt_id, attempt_id, 2, to_utc=2.0))
    changes.insert("attempts", rows.attempt(20, 2, 1, 2))
    changes.insert("grants", rows.grant(20, 20, 2))
    changes.update("items", (2, 1), attempts=2)
    changes.insert("attempts", rows.attempt(21, 3, -1, 1, state="starting"))
    changes.insert("grants", rows.grant(21, 21, 3))
    store.commit(changes)

    with store.read() as connection:
        found = queries.load_open(connection)
    assert [row["id"] for row in found.jobs] == [2, 3]
    assert found.jobs[0]["spec_json"].startswith("{")
    assert [(row["job_id"], row["item"]) for row in found.items] == [(2, 1), (2, 2), (2, 3), (2, 4), (3, 0), (3, 1)]
    assert [row["id"] for row in found.attempts] == [11, 20, 12, 13, 21]
    assert [row["id"] for row in found.grants] == [11, 12, 13, 20, 21]


def test_load_open_of_an_empty_store(store: Store) -> None:
    with store.read() as connection:
        assert queries.load_open(connection) == queries.OpenState([], [], [], [])
