"""Jobs and items in other orders than by number, page by page: by name, by how long they ran, by how often they were tried, ...

The sorted values and numbers are read first, the rows themselves only of the page: a sweep's long rows are not moved about. What is equal
is ordered by number. A cursor is the sorted value and the number of a page's last row, and the moment that lengths were counted to: else
what runs meanwhile would change its place between two pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Integer, Select, and_, bindparam, case, func, or_
from sqlalchemy.types import TypeEngine

from anycard.errors import UsageError
from anycard.store.tables import items, jobs

ASCENDING, DESCENDING = "asc", "desc"
_FAR = 2.0**62  # seconds; no moment and no length is beyond
_NEVER = -1.0  # sorted as the length of what never began
_NOW = bindparam("now", type_=items.c.started_at.type)


@dataclass(frozen=True, slots=True)
class Sort:
    """``by`` one of JOB_SORTS or ITEM_SORTS; ``now``: UTC seconds, what still runs is as long as it ran until then."""

    by: str
    descending: bool
    now: float


def _length(began: Column[Any], ended: Column[Any]) -> ColumnElement[Any]:
    return case((began.is_(None), _NEVER), else_=func.coalesce(ended, _NOW) - began)


# What an order sorts by is never null: a null is in no order.
JOB_SORTS: Mapping[str, ColumnElement[Any]] = {
    "id": jobs.c.id,
    "name": jobs.c.name,
    "state": jobs.c.state,
    "user": jobs.c.user,
    "items": jobs.c.n_items,
    "failed": jobs.c.n_failed,
    "priority": jobs.c.priority,
    "submitted": jobs.c.submitted_at,
    "took": _length(jobs.c.first_granted_at, jobs.c.ended_at),
}
ITEM_SORTS: Mapping[str, ColumnElement[Any]] = {
    "item": items.c.item,
    "state": items.c.state,
    "attempts": items.c.attempts,
    "why": func.coalesce(items.c.end_reason, ""),
    "ended": func.coalesce(items.c.ended_at, 0.0),
    # As words.took shows it: all attempts together once it is over, since its first one while it runs.
    "took": case(
        (and_(items.c.ended_at.is_not(None), items.c.run_s.is_not(None)), items.c.run_s),
        else_=_length(items.c.started_at, items.c.ended_at),
    ),
}


def sorting(by: str | None, order: str | None, known: Mapping[str, Any], now: float) -> Sort | None:
    """What was asked for; None for nothing. UsageError for what cannot be sorted by."""
    if order not in (None, "", ASCENDING, DESCENDING):
        raise UsageError("{given} is no order", hint="the orders are asc and desc", given=order)
    if not by:
        return None
    if by not in known:
        raise UsageError(
            "nothing is sorted by {given}", hint="it can be one of {known}", given=by, known=", ".join(sorted(known))
        )
    return Sort(by, order == DESCENDING, now)


def numbers(
    connection: Connection,
    query: Select[Any],
    key: ColumnElement[Any],
    number: Column[int],
    sort: Sort,
    limit: int,
    cursor: str | None,
) -> tuple[list[int], str | None]:
    """The numbers of one page of ``query``'s rows, and the cursor of the next page. UsageError for a bad cursor."""
    after, now = (None, sort.now) if cursor is None else _read(cursor, key, number, sort)
    query = query.with_only_columns(key.label("sorted"), number.label("number"))
    if after is not None:
        value, last = after
        further = key < value if sort.descending else key > value
        beyond = number < last if sort.descending else number > last
        query = query.where(or_(further, and_(key == value, beyond)))
    ways = [part.desc() if sort.descending else part.asc() for part in (key, number)]
    rows = connection.execute(query.order_by(*ways).limit(limit + 1), {"now": now}).all()
    page = rows[:limit]
    following = None
    if len(rows) > limit:
        following = json.dumps([sort.by, page[-1].sorted, page[-1].number, now], separators=(",", ":"))
    return [row.number for row in page], following


def _read(cursor: str, key: ColumnElement[Any], number: Column[int], sort: Sort) -> tuple[tuple[Any, int], float]:
    """((value, number), moment) of a cursor of the same order."""
    try:
        by, value, last, now = json.loads(cursor)
    except (ValueError, TypeError, RecursionError):
        raise _none(cursor) from None
    right = by == sort.by and type(last) is int and type(now) in (int, float)
    if not right or not (_can_be(value, key.type) and _can_be(last, number.type) and abs(now) < _FAR):
        raise _none(cursor)
    return (value, last), float(now)


def _can_be(value: object, kind: TypeEngine[Any]) -> bool:
    """Whether a column of the type can hold it: PostgreSQL refuses the whole query else, and no database takes what is no UTF-8."""
    if kind.python_type is str:
        return isinstance(value, str) and "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)
    if isinstance(kind, Integer):
        return type(value) is int and abs(value) < (2**63 if isinstance(kind, BigInteger) else 2**31)
    return type(value) in (int, float) and abs(cast(float, value)) < _FAR


def _none(cursor: str) -> UsageError:
    return UsageError("{cursor} is no cursor", hint="Use the next_cursor of the page before, as it is.", cursor=cursor)
