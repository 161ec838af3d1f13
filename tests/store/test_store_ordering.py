"""Lists in every order: nothing twice, nothing left out, on both databases."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from anycard.errors import UsageError
from anycard.store import queries
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.ordering import ITEM_SORTS, JOB_SORTS, Sort, sorting

NOW = 5_000.0
STATES = ("queued", "running", "succeeded", "failed", "cancelled")


def _took(row: dict[str, Any]) -> float:
    began = row.get("first_granted_at", row.get("started_at"))
    if row.get("run_s") is not None and row["ended_at"] is not None:
        return float(row["run_s"])
    return -1.0 if began is None else (NOW if row["ended_at"] is None else row["ended_at"]) - began


JOB_KEYS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "items": lambda row: row["n_items"],
    "failed": lambda row: row["n_failed"],
    "submitted": lambda row: row["submitted_at"],
    "took": _took,
}
ITEM_KEYS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "why": lambda row: row["end_reason"] or "",
    "ended": lambda row: row["ended_at"] or 0.0,
    "took": _took,
}


@pytest.fixture
def full(store: Store, rows: Any) -> Store:
    """Jobs and items of many kinds, many of them equal in something."""
    dice = random.Random(7)
    for job_id in range(1, 41):
        began = dice.choice([None, 100.0, 200.0, 300.0])
        rows.commit_job(
            store, job_id, state=dice.choice(STATES), user=dice.choice("ab"), name=dice.choice(["x", "Y", "z,\"'", "中"]),
            priority=dice.randrange(3), n_failed=dice.randrange(3), items=dice.randrange(1, 4), first_granted_at=began,
            ended_at=dice.choice([None, began + 50.0]) if began else None, submitted_at=float(dice.randrange(5)),
        )  # fmt: skip
    rows.commit_job(store, 41, items=60)
    changes = Changes()
    for item in range(60):
        began = dice.choice([None, 100.0, 200.0])
        ended = dice.choice([None, began + 50.0]) if began else None
        changes.update(
            "items", (41, item), state=dice.choice(STATES), attempts=dice.randrange(3), started_at=began, ended_at=ended,
            end_reason=dice.choice([None, "program-error", "bad-input"]), run_s=dice.choice([None, 10.0, 20.0]),
        )  # fmt: skip
    store.commit(changes)
    return store


def _all(store: Store, read: Callable[..., queries.Page], *where: Any, sort: Sort, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    moment = sort.now
    while True:
        with store.read() as connection:
            later = Sort(sort.by, sort.descending, moment)  # as time goes on, of no matter to those who turn pages
            page = read(connection, *where, sort=later, limit=limit, cursor=cursor)
        moment += 1_000.0
        found += page.rows
        cursor = page.next_cursor
        if cursor is None:
            return found
        assert len(page.rows) == limit


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("by", sorted(JOB_SORTS))
def test_pages_of_jobs_in_an_order(full: Store, by: str, descending: bool) -> None:
    key = JOB_KEYS.get(by, lambda row: row[by])
    for limit in (1, 7, 41, 100):
        found = _all(full, queries.jobs_page, sort=Sort(by, descending, NOW), limit=limit)
        assert sorted(row["id"] for row in found) == list(range(1, 42))
        assert found == sorted(found, key=lambda row: (key(row), row["id"]), reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("by", sorted(ITEM_SORTS))
def test_pages_of_items_in_an_order(full: Store, by: str, descending: bool) -> None:
    key = ITEM_KEYS.get(by, lambda row: row[by])
    for limit in (1, 7, 60, 100):
        found = _all(full, queries.items_page, 41, sort=Sort(by, descending, NOW), limit=limit)
        assert sorted(row["item"] for row in found) == list(range(60))
        assert found == sorted(found, key=lambda row: (key(row), row["item"]), reverse=descending)


def test_an_order_keeps_the_filter(full: Store) -> None:
    sort = Sort("took", True, NOW)
    with full.read() as connection:
        some = queries.jobs_page(connection, states=["failed"], user="a", sort=sort, limit=1000).rows
        everyone = queries.jobs_page(connection, sort=sort, limit=1000).rows
        assert some == [row for row in everyone if row["state"] == "failed" and row["user"] == "a"] != []
        failed = queries.items_page(connection, 41, states=["failed"], sort=sort, limit=1000).rows
        assert {row["state"] for row in failed} == {"failed"}


@pytest.mark.parametrize(
    "cursor",
    ["", "7", "[]", "null", '["took",1,1]', '["name","x",1,5]', '["took","x",1,5]', '["took",1,true,5]', '["took",1,1e999,5]',
     '["took",1e999,1,5]', '["took",1,99999999999999999999999,5]', "[" * 5000, '["took",1,1,null]'],
)  # fmt: skip
def test_a_cursor_that_is_none(full: Store, cursor: str) -> None:
    with pytest.raises(UsageError, match="no cursor"), full.read() as connection:
        queries.jobs_page(connection, sort=Sort("took", False, NOW), cursor=cursor)


def test_what_can_be_asked_for() -> None:
    assert sorting(None, None, JOB_SORTS, NOW) is None is sorting("", "", JOB_SORTS, NOW)
    assert sorting("took", "desc", JOB_SORTS, NOW) == Sort("took", True, NOW)
    assert sorting("took", None, JOB_SORTS, NOW) == Sort("took", False, NOW)
    with pytest.raises(UsageError, match="nothing is sorted by"):
        sorting("spec_json", None, JOB_SORTS, NOW)
    with pytest.raises(UsageError, match="no order"):
        sorting("took", "up", JOB_SORTS, NOW)


@pytest.mark.parametrize(
    "value", [1.5, 2**31, 2**62, -(2**62), 1e300, True, "\0", "a\0b", "\ud800", "'; drop table jobs; --", "%s %(x)s"]
)
@pytest.mark.parametrize("last", [1, 2**31, 2**62, -5])
def test_a_cursor_of_values_that_no_row_can_hold(full: Store, value: object, last: int) -> None:
    """It finds rows or is refused as a cursor; the database is never asked what it cannot read."""
    for sorts, read, where in ((JOB_SORTS, queries.jobs_page, ()), (ITEM_SORTS, queries.items_page, (41,))):
        for by in sorts:
            with contextlib.suppress(UsageError), full.read() as connection:
                read(connection, *where, sort=Sort(by, False, NOW), cursor=json.dumps([by, value, last, NOW]))


def test_items_after_a_number_that_no_item_can_have(full: Store) -> None:
    with full.read() as connection:
        assert queries.items_page(connection, 41, cursor=str(2**31)) == queries.Page([], None)
