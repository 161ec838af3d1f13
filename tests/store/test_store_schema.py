"""What tables/ says, what a fresh store gets and what the migrations make are the same; other databases are told apart."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from anycard.config import Paths
from anycard.errors import UsageError
from anycard.store.backup import is_backup
from anycard.store.engine import Store, open_backend
from anycard.store.failures import StoreAccessError, StoreBusyError, StoreError, StoreVersionError
from anycard.store.files import VERSION_TABLE, make_private_folder
from anycard.store.migrate import configuration
from anycard.store.schema import REVISIONS, migrate
from anycard.store.tables import metadata


def _migrate(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anycard.store.migrate", url], capture_output=True, text=True, timeout=120
    )


def _differences(url: str) -> list[Any]:
    engine = sqlalchemy.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool
    )
    with engine.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)


def _sql_of(path: Path) -> dict[str, set[str]]:
    """Each table's and index's statement as a set of lines: constraints may stand in another order."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: {" ".join(line.strip(" ,").split()) for line in sql.splitlines()} for name, sql in found}


def test_migrations_make_the_tables_of_this_code(tmp_path: Path, database_url: str | None) -> None:
    url = database_url or f"sqlite:///{tmp_path / 'migrated.db'}"
    done = _migrate(url.replace("postgresql://", "postgresql+psycopg://"))
    assert done.returncode == 0, done.stderr
    assert _differences(url) == []


def test_a_fresh_store_has_the_tables_of_this_code(store: Store, database_url: str | None, paths: Paths) -> None:
    assert _differences(database_url or f"sqlite:///{paths.database}") == []


def test_created_and_migrated_are_the_same_text(tmp_path: Path, paths: Paths) -> None:
    Store.open(paths).close()
    assert _migrate(f"sqlite:///{tmp_path / 'migrated.db'}").returncode == 0
    assert _sql_of(paths.database) == _sql_of(tmp_path / "migrated.db")


def test_the_list_of_revisions_is_that_of_the_files() -> None:
    script = ScriptDirectory.from_config(configuration("sqlite://"))
    assert tuple(revision.revision for revision in reversed(list(script.walk_revisions()))) == REVISIONS


def test_the_store_migrates_in_a_child(paths: Paths, rows: Any, database_url: str | None) -> None:
    backend = open_backend(paths, database_url)
    backend.prepare()
    migrate(backend)
    store = Store.open(paths, database_url)
    rows.commit_job(store, 1)
    store.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was_and_a_backup(
    sqlite_store: Store, paths: Paths, rows: Any
) -> None:
    rows.commit_job(sqlite_store, 1)
    with sqlite_store.write() as cursor:
        cursor.execute(
            f"DELETE FROM {VERSION_TABLE}"
        )  # as if the first revision were still to come: its tables are in the way
    sqlite_store.close()
    before = _sql_of(paths.database)
    with pytest.raises(StoreError, match=r"could not be brought to this version: .*already exists"):
        Store.open(paths)
    assert _sql_of(paths.database) == before
    assert is_backup(paths.home / "anycard.before-migration-from-nothing.db")


def test_a_newer_store_is_refused(store: Store, paths: Paths, database_url: str | None) -> None:
    with store.write() as cursor:
        cursor.execute(f"UPDATE {VERSION_TABLE} SET version_num = 'r9999'")
    store.close()
    with pytest.raises(StoreVersionError, match=r"written by a newer anycard .*r9999.*r0001"):
        Store.open(paths, database_url)


def test_another_programs_database_is_left_alone(paths: Paths) -> None:
    make_private_folder(paths.home)
    with closing(sqlite3.connect(paths.database)) as connection:
        connection.execute("CREATE TABLE recipes (name)")
    before = paths.database.read_bytes()
    with pytest.raises(StoreVersionError, match="another program"):
        Store.open(paths)
    assert paths.database.read_bytes() == before


def test_an_unknown_kind_of_url_is_said(paths: Paths) -> None:
    with pytest.raises(UsageError) as caught:
        Store.open(paths, "mysql://bob:secret@host/db")
    assert "secret" not in str(caught.value)


def test_an_unreachable_server_is_said_without_its_password(paths: Paths, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreAccessError) as caught:
        Store.open(paths, f"postgresql://bob:secret@/db?host={tmp_path}")
    assert "secret" not in str(caught.value) + str(caught.value.to_json())


def test_a_second_daemon_on_one_server_is_refused(
    paths: Paths, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anycard.store.postgres._LOCK_WAIT_S", 0.05)
    first = Store.open(paths, postgres_url)
    with pytest.raises(StoreBusyError, match="another anycard daemon"):
        Store.open(paths, postgres_url)
    monkeypatch.undo()
    first.close()
    Store.open(paths, postgres_url).close()
