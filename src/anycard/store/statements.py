"""SQL text for rows of a given shape, compiled once by SQLAlchemy and then run as it is: the same code speaks to SQLite and PostgreSQL,
and a commit pays for no expression building."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam, insert, update
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from anycard.store.changes import Row
from anycard.store.tables import metadata

Parameters = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """``take`` picks a row's values in the order of the statement's placeholders."""

    sql: str
    take: Callable[[Row], Parameters]


class Statements:
    """The cache, for one dialect with positional placeholders."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._inserts: dict[tuple[str, tuple[str, ...]], Statement] = {}
        self._updates: dict[tuple[str, tuple[str, ...]], Statement] = {}

    def insert(self, table: str, columns: tuple[str, ...]) -> Statement:
        found = self._inserts.get((table, columns))
        if found is None:
            compiled = insert(metadata.tables[table]).inline().compile(dialect=self._dialect, column_keys=list(columns))
            found = self._inserts[table, columns] = _statement(compiled)
        return found

    def update(self, table: str, columns: tuple[str, ...]) -> Statement:
        """``columns`` are set where the primary key is the row's: a row for it also holds the key under its columns' own names."""
        found = self._updates.get((table, columns))
        if found is None:
            target = metadata.tables[table]
            query = update(target).values({name: bindparam(f"set_{name}") for name in columns})
            for column in target.primary_key.columns:
                query = query.where(column == bindparam(f"key_{column.name}"))
            found = self._updates[table, columns] = _statement(query.compile(dialect=self._dialect))
        return found


def _statement(compiled: Any) -> Statement:
    assert isinstance(compiled, SQLCompiler)
    names = tuple(name.removeprefix("set_").removeprefix("key_") for name in compiled.positiontup or ())
    if len(names) == 1:
        only = names[0]
        return Statement(str(compiled), lambda row: (row[only],))
    return Statement(str(compiled), itemgetter(*names))
