"""Reading the event log from a place on, for those who follow it. Each function takes a connection of ``Store.read``."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from anycard.store.changes import Row
from anycard.store.tables import events


def last_event(connection: Connection) -> int:
    """The ``seq`` of the newest event, 0 when there is none."""
    return connection.execute(select(func.max(events.c.seq))).scalar() or 0


def events_between(connection: Connection, after: int, last: int, *, kinds: Collection[str], limit: int) -> list[Row]:
    """Events of these kinds with ``after`` < ``seq`` <= ``last``, oldest first."""
    query = (
        select(events)
        .where(events.c.seq > after, events.c.seq <= last, events.c.kind.in_(kinds))
        .order_by(events.c.seq)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def latest_of_kind(connection: Connection, kind: str, limit: int) -> list[Row]:
    """The latest events of one kind, newest first."""
    query = select(events).where(events.c.kind == kind).order_by(events.c.seq.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]
