"""What one turn of the loop changes, gathered first and committed as one transaction.

A row inserted and updated in the same turn is written once; several updates of one row become one statement's worth; rows of one shape
go to the database together (executemany).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]
_KEYS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("id",),
    "items": ("job_id", "item"),
    "attempts": ("id",),
    "grants": ("id",),
    "meta": ("key",),
}


class Changes:
    """``inserts`` and ``updates`` by table name and primary key; ``events`` in the order in which they happened."""

    def __init__(self) -> None:
        self.inserts: dict[str, dict[tuple[Any, ...], Row]] = {}
        self.updates: dict[str, dict[tuple[Any, ...], Row]] = {}
        self.events: list[Row] = []

    def __bool__(self) -> bool:
        return bool(self.inserts or self.updates or self.events)

    def __len__(self) -> int:
        """Rows to be written."""
        tables = (*self.inserts.values(), *self.updates.values())
        return sum(map(len, tables)) + len(self.events)

    def insert(self, table: str, row: Row) -> None:
        key = tuple(row[name] for name in _KEYS[table])
        self.inserts.setdefault(table, {})[key] = row

    def update(self, table: str, key: tuple[Any, ...] | int | str, **values: Any) -> None:
        """Sets ``values`` on the row with primary key ``key``; merged into its insert when that is of this turn."""
        full_key = key if isinstance(key, tuple) else (key,)
        inserted = self.inserts.get(table, {}).get(full_key)
        if inserted is not None:
            inserted.update(values)
        else:
            self.updates.setdefault(table, {}).setdefault(full_key, {}).update(values)

    def event(self, row: Row) -> None:
        self.events.append(row)
