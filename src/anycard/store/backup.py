"""Consistent backups of the SQLite store while it is in use, and where the newest one is."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from anycard.config import Paths
from anycard.errors import ConflictError, UsageError
from anycard.model.instant import rfc3339
from anycard.store.failures import StoreError, damaged
from anycard.store.files import APPLICATION_ID, make_private_folder, sync_folder

if TYPE_CHECKING:
    from anycard.store.backend import Backend
    from anycard.store.engine import Store

BACKUP_MARK = "backup_made_at"  # in the meta table of a backup only, RFC 3339
_KEPT = 3
_REMEMBERED = 100


def back_up(store: Store, target: Path) -> int:
    """Writes one moment of the store to ``target``, an absolute path, while everything goes on. Returns its bytes.

    Raises as ``backup_file`` does; UsageError with the server's own command for PostgreSQL.
    """
    return store.backend.backup(target)


def backup_file(paths: Paths, target: Path) -> int:
    """Writes one moment of the SQLite store to ``target`` (0600): a temporary file, checked, synced, renamed. Returns its bytes.

    Writers go on meanwhile. Raises UsageError for a target that cannot be, ConflictError for one that exists and is not a backup,
    StoreDamagedError when the store itself is damaged, StoreError when the copy cannot be written or does not pass its check.
    """
    if not target.is_absolute():
        raise UsageError("the backup's path must be absolute, not {path}", path=target)
    if not target.parent.is_dir():
        raise UsageError("there is no folder {folder}", hint="Make it first: mkdir -p {folder}", folder=target.parent)
    if os.path.lexists(target) and not is_backup(target):
        raise ConflictError(
            "{path} exists and is not a backup of anycard, so it is left alone",
            hint="Choose another name.",
            path=target,
        )
    try:
        size = _write(paths.database, target)
        _remember(paths, target)
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged(paths.database, str(error), newest_backup(paths)) from error
        raise _not_written(target, str(error)) from error
    except OSError as error:
        raise _not_written(target, error.strerror or str(error)) from error
    return size


def rolling_backup(paths: Paths, *, older_than_s: float) -> Path | None:
    """A backup in the home's own ``backups`` folder unless the newest there is younger than ``older_than_s``; the newest three are kept.

    Raises as ``backup_file`` does.
    """
    folder = paths.home / "backups"
    make_private_folder(folder)
    kept = sorted(folder.glob("anycard-*.db"))
    if kept and time.time() - kept[-1].stat().st_mtime < older_than_s:
        return None
    target = folder / f"anycard-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.db"
    backup_file(paths, target)
    for old in [*kept, target][:-_KEPT]:
        old.unlink(missing_ok=True)
    return target


def backup_before_migration(backend: Backend, paths: Paths, revision: str) -> None:
    """Beside the store, before Alembic changes it. PostgreSQL needs none: a migration there is one transaction on a server with its own."""
    if backend.dialect.name == "sqlite":
        backup_file(paths, paths.home / f"anycard.before-migration-from-{revision or 'nothing'}.db")


def is_backup(path: Path) -> bool:
    """A whole SQLite file that carries our mark."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            marked = connection.execute("SELECT 1 FROM meta WHERE key = ?", (BACKUP_MARK,)).fetchone()
    except sqlite3.Error:
        return False
    return application == APPLICATION_ID and marked is not None


def newest_backup(paths: Paths) -> Path | None:
    """The last one made that is still there and still a backup."""
    return next((path for path in reversed(_remembered(paths)) if is_backup(path)), None)


def _write(database: Path, target: Path) -> int:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(database, temporary)
        _mark_and_check(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        size = temporary.stat().st_size
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
        temporary.with_name(temporary.name + "-journal").unlink(missing_ok=True)
    sync_folder(target.parent)
    return size


def _copy(source: Path, target: Path) -> None:
    with closing(
        sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=30)
    ) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))


def _mark_and_check(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (BACKUP_MARK, rfc3339(time.time())),
        )
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreError("the backup does not pass its check ({detail}) and was not kept", detail=found)


def _not_written(target: Path, detail: str) -> StoreError:
    return StoreError(
        "the backup {path} could not be written: {detail}",
        hint="The store itself is untouched. Is there space on that disk, and may anycard write there?",
        path=target,
        detail=detail,
    )


def _remember(paths: Paths, target: Path) -> None:
    """``HOME/backups.log``, a JSON array of paths, oldest first: found again when the store itself can no longer be read."""
    known = [os.fspath(path) for path in _remembered(paths) if path != target]
    temporary = paths.home / f".backups.log.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump([*known[1 - _REMEMBERED :], os.fspath(target)], out, indent=0)
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(paths.home / "backups.log")


def _remembered(paths: Paths) -> list[Path]:
    try:
        return [Path(name) for name in json.loads((paths.home / "backups.log").read_text())]
    except (FileNotFoundError, ValueError, TypeError):  # not there, or not ours any more: then nothing is remembered
        return []
