"""Brings a database to this code's tables, with plain SQL only: an empty one is created in one transaction; an older one is migrated by
Alembic in a child process (its import alone costs 0.4 s and 20 MB); a newer one is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from sqlalchemy.schema import CreateIndex, CreateTable

from anycard.store.backend import Backend, Cursor
from anycard.store.failures import StoreError, StoreVersionError
from anycard.store.files import APPLICATION_ID, VERSION_TABLE
from anycard.store.tables import metadata

REVISIONS = ("r0001",)  # oldest first, one for each file in migrations/versions; the last is what tables/ describes
_MIGRATION_TIMEOUT_S = 3600


def bring_up_to_date(backend: Backend, cursor: Cursor, before_migration: Callable[[str], None]) -> None:
    """Creates or migrates what ``cursor``'s database needs. ``before_migration`` is called with the old revision before one is changed.

    Raises StoreVersionError for a database of a newer anycard, StoreError when a migration failed (the database is then as it was).
    """
    found = _revision(backend, cursor)
    if found is None:
        create(backend, cursor)
    elif found not in ("", *REVISIONS):
        raise StoreVersionError(
            "the store {path} was written by a newer anycard (its revision is {found}, this one knows up to {known})",
            hint="Install the newer anycard again, or put back the backup that was made before it changed the store.",
            path=backend.name,
            found=found,
            known=REVISIONS[-1],
        )
    elif found != REVISIONS[-1]:
        before_migration(found)
        migrate(backend)


def create(backend: Backend, cursor: Cursor) -> None:
    """All tables and the newest revision in an empty database, in one transaction. Another process may have done it meanwhile."""
    cursor.execute(backend.begin)
    try:
        if _revision(backend, cursor) is None:
            for statement in create_statements(backend):
                cursor.execute(statement)
        cursor.execute("COMMIT")
    except BaseException:
        cursor.execute("ROLLBACK")
        raise


def create_statements(backend: Backend) -> list[str]:
    """The SQL that makes an empty database ours."""
    tables = metadata.sorted_tables
    statements = [str(CreateTable(table).compile(dialect=backend.dialect)) for table in tables]
    for table in tables:
        ordered = sorted(table.indexes, key=lambda index: index.name or "")
        statements += [str(CreateIndex(index).compile(dialect=backend.dialect)) for index in ordered]
    version = f"version_num VARCHAR(32) NOT NULL, \n\tCONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)"  # as Alembic makes it
    statements.append(f"CREATE TABLE {VERSION_TABLE} (\n\t{version}\n)")
    statements.append(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{REVISIONS[-1]}')")  # noqa: S608  both are ours
    if backend.dialect.name == "sqlite":
        statements.append(f"PRAGMA application_id = {APPLICATION_ID}")
    return statements


def _revision(backend: Backend, cursor: Cursor) -> str | None:
    """The database's revision; "" when a migration from nothing was begun; None when it is empty."""
    if backend.dialect.name == "sqlite":
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?", (VERSION_TABLE,))
    else:
        cursor.execute("SELECT to_regclass(%s)", (VERSION_TABLE,))
    row = cursor.fetchone()
    if row is None or row[0] is None:
        return None
    cursor.execute(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608  a constant
    row = cursor.fetchone()
    return "" if row is None else str(row[0])


def migrate(backend: Backend) -> None:
    """Runs Alembic in a child; the URL goes by stdin, for it may hold a password and command lines are public. StoreError when it fails."""
    argv = [sys.executable, "-m", "anycard.store.migrate", "-"]
    url = backend.url.render_as_string(hide_password=False)
    done = subprocess.run(
        argv,
        input=url,
        capture_output=True,
        text=True,
        timeout=_MIGRATION_TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no word of why"])[-1]
        raise StoreError(
            "the store {path} could not be brought to this version: {detail}",
            hint="It is as it was before; the backup made first lies beside it.",
            path=backend.name,
            detail=last,
        )
