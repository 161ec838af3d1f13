"""The little in which SQLite and PostgreSQL differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.engine import URL, Dialect, Engine

from anycard.errors import AnycardError
from anycard.store.failures import StoreDamagedError


class Cursor(Protocol):
    """The part of a DBAPI cursor that the writer uses."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...

    def executemany(self, sql: str, parameters: Any, /) -> Any: ...

    def fetchone(self) -> Any: ...


class Connection(Protocol):
    """A DBAPI connection in autocommit: transactions are begun and ended by statements."""

    def cursor(self) -> Cursor: ...

    def close(self) -> None: ...


class Backend(Protocol):
    """``dialect`` has positional placeholders. ``begin`` opens a write transaction at once, so that it never fails half-way as locked.
    ``name`` is for people and holds no password."""

    name: str
    begin: str
    errors: tuple[type[Exception], ...]

    @property
    def url(self) -> URL: ...

    @property
    def dialect(self) -> Dialect: ...

    def prepare(self) -> None:
        """Before anything is opened: folders and files with their modes, proof that what is there is a whole store."""

    def connect_writer(self) -> Connection: ...

    def is_usable(self, writer: Connection) -> bool:
        """False: the writer is gone for good and must be connected again."""

    def readers(self) -> Engine:
        """A pool of connections that only read, each transaction seeing one moment."""

    def find_damage(self) -> StoreDamagedError | None:
        """Reads everything and says what is wrong; None also where the server checks its own pages."""

    def backup(self, target: Path) -> int:
        """Writes one consistent moment to ``target``; its bytes. UsageError where the server has its own tool for that."""

    def explain(self, error: BaseException) -> AnycardError | None:
        """The error for people that a driver's ``error`` means; None when it is not the database's."""
