"""The store: one writer that commits a turn's changes as one transaction, readers beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby

import sqlalchemy

from anycard.config import Paths
from anycard.errors import UsageError
from anycard.host import clock
from anycard.model.text import Text
from anycard.store import ids, older, schema
from anycard.store.backend import Backend, Connection, Cursor
from anycard.store.backup import BACKUP_MARK, backup_before_migration
from anycard.store.changes import Changes, Row
from anycard.store.failures import DiskFullError, StoreDamagedError, StoreError
from anycard.store.ids import NextIds
from anycard.store.sqlite import Sqlite
from anycard.store.statements import Parameters, Statement, Statements
from anycard.store.tables import metadata

__all__ = ["DiskFullError", "Store", "StoreDamagedError"]

_ORDER = ("jobs", "items", "attempts", "grants", "meta")


class Store:
    """``commit`` and ``write`` are called one at a time or from several threads: they queue. Reads never wait for them.

    Everything raises the errors of failures.py; after one nothing of that transaction is in the store.
    """

    def __init__(self, backend: Backend, paths: Paths) -> None:
        self.backend = backend
        self.paths = paths
        self._statements = Statements(backend.dialect)
        self._lock = threading.Lock()
        self._writer: Connection | None = None
        self._cursor: Cursor | None = None
        self._readers = backend.readers()
        self.missing: Text | None = None  # said once: what ran and is not in it, because it is older than that

    @staticmethod
    def open(paths: Paths, url: str | None = None) -> Store:
        """The store of this home, created or migrated where needed. ``url``: a PostgreSQL database instead of the file.

        Raises StoreDamagedError, StoreVersionError, StoreAccessError, StoreBusyError, DiskFullError; UsageError for a URL of another kind.
        """
        backend = open_backend(paths, url)
        backend.prepare()
        store = Store(backend, paths)
        try:
            with store._explained(), store._lock:
                schema.bring_up_to_date(
                    backend, store._writer_cursor(), lambda revision: backup_before_migration(backend, paths, revision)
                )
            store._note_older()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Ends all connections; the write-ahead log is folded into the file."""
        self._readers.dispose()
        with self._lock:
            self._drop_writer()

    def commit(self, changes: Changes) -> None:
        """Writes one turn, all of it or nothing, and returns once it is on the disk. Inserts first, then updates, then events in order.

        Raises DiskFullError, StoreBusyError, StoreDamagedError, StoreRefusedError, StoreError.
        """
        if not changes:
            return
        with self.write() as cursor:
            for table in _ORDER:
                rows = changes.inserts.get(table)
                if rows:
                    self._insert(cursor, table, rows.values())
            for table in _ORDER:
                updates = changes.updates.get(table)
                if updates:
                    self._update(cursor, table, updates)
            if changes.events:
                self._insert(cursor, "events", changes.events)

    @contextmanager
    def write(self) -> Iterator[Cursor]:
        """A write transaction: committed at the end of the block, rolled back by an exception."""
        with self._explained(), self._lock:
            cursor = self._writer_cursor()
            try:
                cursor.execute(self.backend.begin)
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                self._roll_back(cursor)
                raise

    @contextmanager
    def read(self) -> Iterator[sqlalchemy.Connection]:
        """A connection on which every query sees the same moment. To be used by one thread."""
        with self._explained(), self._readers.begin() as connection:
            yield connection

    def next_ids(self) -> NextIds:
        """Where the daemon goes on counting."""
        with self.read() as connection:
            return ids.next_ids(connection, self.paths)

    def find_damage(self) -> StoreDamagedError | None:
        """Reads the whole store (about a second per GiB in memory, longer from the disk) and says what is wrong. ``open`` did it already
        for a file of up to 256 MiB."""
        with self._explained():
            return self.backend.find_damage()

    def _insert(self, cursor: Cursor, table: str, rows: Iterable[Row]) -> None:
        """Rows of one shape that follow each other go together, so their order is kept."""
        for columns, group in groupby(rows, tuple):
            statement = self._statements.insert(table, columns)
            _run(cursor, statement, [statement.take(row) for row in group])

    def _update(self, cursor: Cursor, table: str, updates: dict[Parameters, Row]) -> None:
        key_names = tuple(column.name for column in metadata.tables[table].primary_key.columns)
        groups: dict[tuple[str, ...], list[Row]] = {}
        for key, values in updates.items():
            if not values:
                continue
            groups.setdefault(tuple(values), []).append({**values, **dict(zip(key_names, key, strict=True))})
        for columns, rows in groups.items():
            statement = self._statements.update(table, columns)
            _run(cursor, statement, [statement.take(row) for row in rows])
            if cursor.rowcount != len(rows):
                raise StoreError(
                    "{missing} of {count} rows of {table} to be changed are not in the store",
                    hint="The turn was not written.",
                    missing=len(rows) - cursor.rowcount,
                    count=len(rows),
                    table=table,
                )

    def _writer_cursor(self) -> Cursor:
        if self._writer is not None and not self.backend.is_usable(self._writer):
            self._drop_writer()
        if self._cursor is None:
            self._writer = self.backend.connect_writer()
            self._cursor = self._writer.cursor()
        return self._cursor

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = self._cursor = None

    def _roll_back(self, cursor: Cursor) -> None:
        """A full disk or a lost server has ended the transaction by itself: then there is nothing left to roll back."""
        with suppress(*self.backend.errors):
            cursor.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlalchemy.exc.DBAPIError as error:
            self._raise_explained(error.orig or error, error)
        except self.backend.errors as error:
            self._raise_explained(error, error)

    def _raise_explained(self, cause: BaseException, error: Exception) -> None:
        explained = self.backend.explain(cause)
        if explained is None:
            raise error
        raise explained from error

    def _note_older(self) -> None:
        """A store that is older than what lies beside it notes that once; what came after its last moment is unknown, so ids jump."""
        with self.read() as connection:
            found = older.look(connection, self.paths, self.backend.name)
        if found is None:
            return
        self.missing = found.missing
        now = clock.now()
        changes = Changes()
        changes.insert("meta", {"key": ids.IDS_FROM, "value": json.dumps(dict(found.floors))})
        changes.event(
            {
                "at": now.utc_s,
                "boot_s": now.boot_s,
                "boot_id": now.boot_id,
                "kind": found.kind,
                "tenant": "default",
                "user": "anycard",
                "data_json": json.dumps(dict(found.data)),
            }
        )
        with self.write() as cursor:
            cursor.execute(f"DELETE FROM meta WHERE key IN ('{BACKUP_MARK}', '{ids.IDS_FROM}')")  # noqa: S608  constants
            self._insert(cursor, "meta", changes.inserts["meta"].values())
            self._insert(cursor, "events", changes.events)


def _run(cursor: Cursor, statement: Statement, parameters: list[Parameters]) -> None:
    if len(parameters) == 1:
        cursor.execute(statement.sql, parameters[0])
    else:
        cursor.executemany(statement.sql, parameters)


def open_backend(paths: Paths, url: str | None) -> Backend:
    """What the store of this home lies in; nothing is opened yet. UsageError for a URL of a kind that is not supported."""
    if url is None:
        return Sqlite(paths)
    if url.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        try:
            from anycard.store.postgres import Postgres
        except ModuleNotFoundError as error:
            raise UsageError("PostgreSQL needs one more package", hint="pip install 'anycard[postgres]'") from error
        return Postgres(url)
    raise UsageError(
        "{url} is no database that anycard can use",
        hint="Leave it out for SQLite, or give postgresql://USER@HOST/DATABASE",
        url=url.split("@")[-1],
    )
