"""The read side: pages, look-ups and what the daemon needs to rebuild its memory. Rows are plain dicts, columns as in tables/.

Pages use keys, not offsets: a page costs the same wherever it is. Each function takes a connection of ``Store.read``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Select, and_, cast, func, select, type_coerce

from anycard.errors import NotFoundError, UsageError
from anycard.store.changes import Row
from anycard.store.ordering import ITEM_SORTS, JOB_SORTS, Sort, numbers
from anycard.store.tables import attempts, events, grants, items, jobs

PAGE_ROWS = 100
PAGE_ROWS_MAX = 1000
ENDED_JOB_STATES = ("succeeded", "partly-failed", "failed", "cancelled")
OPEN_ATTEMPT_STATES = ("starting", "running", "stopping")
_ID_DIGITS_MAX = 18  # fits a 64-bit integer
_ITEM_MAX = 2**31 - 1  # of the column


@dataclass(frozen=True, slots=True)
class Page:
    """``next_cursor`` asks for what follows; None: there is no more."""

    rows: list[Row]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class OpenState:
    """What is not over yet. ``items``: of open jobs, all but the succeeded ones (the failed ones too: failed.json names
    them). ``attempts``: every one, ended ones too, of those items and of item -1 (a job's preparation), by number; a retry rule counts
    them. ``grants``: of those attempts."""

    jobs: list[Row]
    items: list[Row]
    attempts: list[Row]
    grants: list[Row]


def jobs_page(
    connection: Connection,
    *,
    states: Collection[str] = (),
    user: str | None = None,
    name: str | None = None,
    limit: int = PAGE_ROWS,
    cursor: str | None = None,
    sort: Sort | None = None,
) -> Page:
    """Jobs, newest first or as ``sort`` says: all columns but ``spec_json``, of which only ``options`` is there, read.

    ``states`` empty: any; ``"open"`` and ``"ended"`` stand for all such states, ``"held"`` for open jobs on hold. UsageError for a
    bad cursor.
    """
    columns = [column for column in jobs.c if column is not jobs.c.spec_json]  # long: a sweep's values are in it
    query = select(*columns, _options(connection)).order_by(jobs.c.id.desc())
    if states:
        query = query.where(_in_states(states))
    if user is not None:
        query = query.where(jobs.c.user == _sought(user))
    if name is not None:
        query = query.where(jobs.c.name == _sought(name))
    if sort is not None:
        key, limit = JOB_SORTS[sort.by], _bounded(limit)
        ids, following = numbers(connection, query.order_by(None), key, jobs.c.id, sort, limit, cursor)
        by_id = jobs_by_id(connection, ids)
        return Page([by_id[job_id] for job_id in ids], following)
    if cursor is not None:
        query = query.where(jobs.c.id < _number(cursor))
    return _page(connection, query, limit, "id")


def job(connection: Connection, ref: str | int, user: str | None = None) -> Row:
    """The job with this id, else the latest of this name, those of ``user`` first; with ``options`` of its spec beside the columns.

    NotFoundError when there is none.
    """
    text = str(ref)
    query = select(jobs, _options(connection))
    if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS_MAX:
        found = _first(connection, query.where(jobs.c.id == int(text)))
        if found is not None:
            return found
    query = query.where(jobs.c.name == _sought(text)).order_by(jobs.c.id.desc()).limit(1)
    found = _first(connection, query.where(jobs.c.user == user)) if user is not None else None
    found = found or _first(connection, query)
    if found is None:
        raise NotFoundError("there is no job {ref}", hint="See them all: anycard jobs", ref=text)
    return found


def _sought(text: str) -> str:
    """No column holds a NUL or half a character, and PostgreSQL refuses to look for one."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def jobs_by_id(connection: Connection, ids: Collection[int]) -> dict[int, Row]:
    """These jobs as ``jobs_page`` gives them, by id; those that are not there are left out."""
    columns = [column for column in jobs.c if column is not jobs.c.spec_json]
    query = select(*columns, _options(connection)).where(jobs.c.id.in_(ids))
    return {row["id"]: row for row in _rows(connection, query)}


def recent_submits(connection: Connection, limit: int) -> dict[str, list[tuple[int, str, int]]]:
    """The latest submits by key, each with (id, name, items) of the jobs it made."""
    query = select(jobs.c.id, jobs.c.name, jobs.c.n_items, jobs.c.submit_key, jobs.c.pipeline)
    found: dict[str, list[tuple[int, str, int]]] = {}
    for row in reversed(_rows(connection, query.order_by(jobs.c.id.desc()).limit(limit))):
        found.setdefault(row["pipeline"] or row["submit_key"], []).append((row["id"], row["name"], row["n_items"]))
    return found


def unsuccessful_items(connection: Connection, job_id: int) -> list[Row]:
    """Items that failed or were cancelled, by number."""
    ended = items.c.state.in_(("failed", "cancelled"))
    return _rows(connection, select(items).where(items.c.job_id == job_id, ended).order_by(items.c.item))


def attempts_of_job(connection: Connection, job_id: int) -> list[Row]:
    """Every try of every item that did not succeed, and of the job's preparation (item -1)."""
    succeeded = select(items.c.item).where(items.c.job_id == job_id, items.c.state == "succeeded")
    query = select(attempts).where(attempts.c.job_id == job_id, attempts.c.item.not_in(succeeded))
    return _rows(connection, query.order_by(attempts.c.item, attempts.c.number))


def attempt_stem(connection: Connection, job_id: int, item: int, number: int | None) -> str | None:
    """The stem of the files of an item's try, the last one when ``number`` is None; None when there is no such try."""
    query = select(attempts.c.stem).where(attempts.c.job_id == job_id, attempts.c.item == item)
    if number is not None:
        query = query.where(attempts.c.number == number)
    return connection.execute(query.order_by(attempts.c.number.desc()).limit(1)).scalar()


def items_page(
    connection: Connection,
    job_id: int,
    *,
    states: Collection[str] = (),
    limit: int = PAGE_ROWS,
    cursor: str | None = None,
    sort: Sort | None = None,
) -> Page:
    """A job's items by number or as ``sort`` says, each with its last attempt: ``attempt_id``, ``stem``, ``engine``,
    ``attempt_number``, ``cards_json`` (null when none was made)."""
    query = _items_with_last_attempt().where(items.c.job_id == job_id).order_by(items.c.item)
    if states:
        query = query.where(items.c.state.in_(states))
    if sort is not None:
        key, limit = ITEM_SORTS[sort.by], _bounded(limit)
        alone = select(items.c.item).where(items.c.job_id == job_id)
        if states:
            alone = alone.where(items.c.state.in_(states))
        chosen, following = numbers(connection, alone, key, items.c.item, sort, limit, cursor)
        by_number = {row["item"]: row for row in items_by_number(connection, job_id, chosen)}
        return Page([by_number[item] for item in chosen], following)
    if cursor is not None:
        query = query.where(items.c.item > min(_number(cursor), _ITEM_MAX))
    return _page(connection, query, limit, "item")


def items_by_number(connection: Connection, job_id: int, numbers: Collection[int]) -> list[Row]:
    """These items as ``items_page`` gives them; NotFoundError for one that is not there."""
    query = _items_with_last_attempt().where(items.c.job_id == job_id, items.c.item.in_(numbers)).order_by(items.c.item)
    found = _rows(connection, query)
    missing = set(numbers) - {row["item"] for row in found}
    if missing:
        raise NotFoundError(
            "job {job} has no item {item}", hint="See its items: anycard job {job}", job=job_id, item=min(missing)
        )
    return found


def cards_of_job(connection: Connection, job_id: int) -> list[str]:
    """Ids of the cards that its attempts held, in no order."""
    held = connection.execute(select(grants.c.cards_json).where(grants.c.job_id == job_id).distinct()).scalars()
    return list({card_id for cards_json in held for card_id in json.loads(cards_json)})


def grants_of_job(connection: Connection, job_id: int, attempt_id: int | None = None) -> list[Row]:
    """What its attempts, or one of them, held (``attempt_id``, ``cards_json``, ``cpus``, ``from_utc``, ``to_utc``), oldest first; ``cpu_s``
    of CPU time went into each, None while it runs, where nobody counted and where the attempt was pruned."""
    wanted = (
        grants.c.attempt_id,
        grants.c.cards_json,
        grants.c.cpus,
        grants.c.from_utc,
        grants.c.to_utc,
        attempts.c.cpu_s,
    )
    held = grants.join(attempts, attempts.c.id == grants.c.attempt_id, isouter=True)
    query = select(*wanted).select_from(held).where(grants.c.job_id == job_id).order_by(grants.c.id)
    return _rows(connection, query if attempt_id is None else query.where(grants.c.attempt_id == attempt_id))


def events_after(connection: Connection, after: int, *, job_id: int | None = None, limit: int = PAGE_ROWS) -> list[Row]:
    """Events with a ``seq`` above ``after``, in order; of one job, or of all."""
    query = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(_bounded(limit))
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    return _rows(connection, query)


def counts_by_state(connection: Connection) -> dict[str, int]:
    """How many jobs are in each state; states without a job are left out."""
    query = select(jobs.c.state, func.count().label("n")).group_by(jobs.c.state)
    return {row["state"]: row["n"] for row in _rows(connection, query)}


def load_open(connection: Connection) -> OpenState:
    """Everything of open jobs that is not over, to rebuild the daemon's memory after a restart."""
    is_open = jobs.c.id.in_(
        select(jobs.c.id).where(jobs.c.state.not_in(ENDED_JOB_STATES))
    )  # the inner one reads only the index
    open_ids = select(jobs.c.id).where(is_open)
    kept = and_(items.c.job_id.in_(open_ids), items.c.state != "succeeded")
    tried = select(items.c.job_id, items.c.item).where(kept, items.c.attempts > 0).subquery()
    of_items = select(attempts).join(tried, and_(attempts.c.job_id == tried.c.job_id, attempts.c.item == tried.c.item))
    of_preparation = select(attempts).where(attempts.c.job_id.in_(open_ids), attempts.c.item == -1)
    left_open = select(attempts).where(attempts.c.state.in_(OPEN_ATTEMPT_STATES))
    found = {row["id"]: row for query in (of_items, of_preparation, left_open) for row in _rows(connection, query)}
    of_jobs = select(grants).where(grants.c.job_id.in_(open_ids))
    held = select(grants).where(grants.c.to_utc.is_(None), grants.c.attempt_id.in_(select(left_open.subquery().c.id)))
    granted = {
        row["id"]: row for query in (of_jobs, held) for row in _rows(connection, query) if row["attempt_id"] in found
    }
    return OpenState(
        jobs=_rows(connection, select(jobs).where(is_open).order_by(jobs.c.id)),
        items=_rows(connection, select(items).where(kept).order_by(items.c.job_id, items.c.item)),
        attempts=sorted(found.values(), key=lambda row: (row["job_id"], row["item"], row["number"])),
        grants=sorted(granted.values(), key=lambda row: int(row["id"])),
    )


def _items_with_last_attempt() -> Select[Any]:
    tries = attempts.alias("tries")
    last = (
        select(func.max(tries.c.number))
        .where(tries.c.job_id == items.c.job_id, tries.c.item == items.c.item)
        .correlate(items)
        .scalar_subquery()
    )
    is_last = and_(attempts.c.job_id == items.c.job_id, attempts.c.item == items.c.item, attempts.c.number == last)
    return select(
        items,
        attempts.c.id.label("attempt_id"),
        attempts.c.number.label("attempt_number"),
        attempts.c.stem,
        attempts.c.engine,
        grants.c.cards_json,
    ).select_from(items.outerjoin(attempts, is_last).outerjoin(grants, grants.c.attempt_id == attempts.c.id))


def _options(connection: Connection) -> ColumnElement[Any]:
    """The list ``options`` of a spec, taken out by the database. SQLite reads JSON from text as it is; PostgreSQL wants a cast."""
    if connection.dialect.name == "sqlite":
        return type_coerce(jobs.c.spec_json, JSON)["options"].label("options")
    return cast(jobs.c.spec_json, JSON)["options"].label("options")


def _in_states(states: Collection[str]) -> ColumnElement[bool]:
    named = [state for state in states if state not in ("open", "ended", "held")]
    if "ended" in states:
        named += ENDED_JOB_STATES
    condition: ColumnElement[bool] = jobs.c.state.in_(named)
    is_open = jobs.c.state.not_in(ENDED_JOB_STATES)
    if "open" in states:
        condition = condition | is_open
    if "held" in states:
        condition = condition | and_(is_open, jobs.c.held)
    return condition


def _page(connection: Connection, query: Select[Any], limit: int, key: str) -> Page:
    limit = _bounded(limit)
    rows = _rows(connection, query.limit(limit + 1))
    if len(rows) <= limit:
        return Page(rows, None)
    return Page(rows[:limit], str(rows[limit - 1][key]))


def _bounded(limit: int) -> int:
    if limit < 1:
        raise UsageError("limit must be at least 1, not {limit}", limit=limit)
    return min(limit, PAGE_ROWS_MAX)


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _ID_DIGITS_MAX):
        raise UsageError(
            "{cursor} is no cursor", hint="Use the next_cursor of the page before, as it is.", cursor=cursor
        )
    return int(cursor)


def _first(connection: Connection, query: Select[Any]) -> Row | None:
    row = connection.execute(query).mappings().first()
    return None if row is None else dict(row)


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    result = connection.execute(query)
    names: Sequence[str] = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result.all()]
