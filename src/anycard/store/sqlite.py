"""The store in one file: WAL, synchronous=FULL, one writer, readers beside it. The file is 0600, its folder 0700."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import QueuePool

from anycard.config import Paths
from anycard.errors import AnycardError
from anycard.store.backup import backup_file, newest_backup
from anycard.store.failures import (
    StoreAccessError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreRefusedError,
    StoreVersionError,
    damaged,
    disk_full,
)
from anycard.store.files import APPLICATION_ID, VERSION_TABLE, make_private_file, make_private_folder

_BUSY_TIMEOUT_S = 10.0
_HEADER = b"SQLite format 3\0"  # https://www.sqlite.org/fileformat.html, 1.3
CHECKED_AT_OPEN_BYTES = 256 * 1024 * 1024  # quick_check takes 1.5 ms a MiB; a larger file is checked later
_WAL_KEPT_BYTES = 32 * 1024 * 1024
_PROBE_BYTES = 64 * 1024


class Sqlite:
    begin = "BEGIN IMMEDIATE"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._path = paths.database
        self.name = str(self._path)
        self.url = URL.create("sqlite+pysqlite", database=str(self._path))
        self.dialect = SQLiteDialect_pysqlite(paramstyle="qmark")

    def prepare(self) -> None:
        try:
            make_private_folder(self._paths.home)
            is_new = make_private_file(self._path)
        except OSError as error:
            raise self._explain_os(error) from error
        if is_new:
            return
        size = self._path.stat().st_size
        if size == 0 and self._has_jobs():
            raise damaged(self._path, "the file is empty, yet there are jobs", newest_backup(self._paths))
        with self._path.open("rb") as handle:
            start = handle.read(len(_HEADER))
        if start and start != _HEADER:
            raise damaged(self._path, "it does not start as a database", newest_backup(self._paths))
        self._check(size)

    def connect_writer(self) -> Any:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":
                raise StoreAccessError(
                    "{path} lies on a file system that cannot hold the store (no write-ahead log: {mode})",
                    hint="Set ANYCARD_HOME to a folder on a local disk.",
                    path=self._path,
                    mode=mode,
                )
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA journal_size_limit={_WAL_KEPT_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def is_usable(self, writer: Any) -> bool:
        return True  # a file does not hang up

    def readers(self) -> Engine:
        engine = sqlalchemy.create_engine(
            "sqlite+pysqlite://", creator=self._connect_reader, poolclass=QueuePool, pool_size=4, max_overflow=4
        )
        sqlalchemy.event.listen(engine, "begin", _begin_read)
        return engine

    def explain(self, error: BaseException) -> AnycardError | None:
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        detail = str(error)
        if primary == sqlite3.SQLITE_FULL:
            return disk_full(self._path, detail)
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return damaged(self._path, detail, newest_backup(self._paths))
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusyError(
                "another program holds the store {path} ({detail})",
                hint="See who has it open: fuser -v {path}",
                path=self._path,
                detail=detail,
            )
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
            return self._no_access(detail)
        if primary == sqlite3.SQLITE_CONSTRAINT:
            return StoreRefusedError("the store refused a row: {detail}", detail=detail)
        if primary == sqlite3.SQLITE_IOERR:
            return self._explain_input_output(detail, getattr(error, "sqlite_errorname", ""))
        return StoreError("the store {path} failed: {detail}", path=self._path, detail=detail)

    def find_damage(self) -> StoreDamagedError | None:
        """Reads every page (``PRAGMA quick_check``) on a connection of its own; what is wrong, or None."""
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            first = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            explained = self.explain(error)
            if not isinstance(explained, StoreDamagedError):
                raise (explained or error) from error
            return explained
        finally:
            connection.close()
        if first == "ok":
            return None
        return damaged(self._path, " ".join(first.split()), newest_backup(self._paths))

    def backup(self, target: Path) -> int:
        return backup_file(self._paths, target)

    def _check(self, size: int) -> None:
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.Error as error:
            raise (self.explain(error) or error) from error
        finally:
            connection.close()
        if tables and application != APPLICATION_ID:
            if "jobs" in tables and VERSION_TABLE in tables:
                raise damaged(self._path, "its header was overwritten", newest_backup(self._paths))
            raise StoreVersionError(
                "{path} is a database of another program",
                hint="Set ANYCARD_HOME to another folder, or move that file away.",
                path=self._path,
            )
        if size <= CHECKED_AT_OPEN_BYTES:
            found = self.find_damage()
            if found is not None:
                raise found

    def _connect_reader(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only=1")
        return connection

    def _has_jobs(self) -> bool:
        try:
            return any(entry.name.isdigit() for entry in os.scandir(self._paths.jobs))
        except FileNotFoundError:
            return False

    def _explain_os(self, error: OSError) -> AnycardError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return disk_full(self._path, os.strerror(error.errno))
        return self._no_access(error.strerror or str(error))

    def _no_access(self, detail: str) -> StoreAccessError:
        return StoreAccessError(
            "the store {path} cannot be opened for writing: {detail}",
            hint="It must be yours, and so must its folder: ls -ld {folder} {path}",
            path=self._path,
            folder=self._path.parent,
            detail=detail,
        )

    def _explain_input_output(self, detail: str, name: str) -> AnycardError:
        """A full quota and a full disk under the -shm file come as plain I/O errors: ask the disk itself."""
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return disk_full(self._path, os.strerror(error.errno))
        return StoreError(
            "the disk that holds the store {path} failed: {detail} ({name})",
            hint="Look for disk errors: dmesg | tail",
            path=self._path,
            detail=detail,
            name=name,
        )


def _begin_read(connection: sqlalchemy.Connection) -> None:
    """The driver begins nothing for a SELECT: without this each statement would see another moment."""
    connection.exec_driver_sql("BEGIN")
