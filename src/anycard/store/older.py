"""A store that is older than the files beside it: a backup put in its place, or one that lost its last commits (a deleted write-ahead
log, an older copy). What it does not know may still be on the disk, or alive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from anycard.config import Paths
from anycard.i18n import N_
from anycard.model.text import Text
from anycard.store import ids
from anycard.store.backup import BACKUP_MARK, newest_backup
from anycard.store.tables import jobs, meta

_ID_GAP = 1_000_000  # ids of attempts and grants that are left out: given out after the store's last moment, they may be in use
_MISSING = N_(
    "the store {store} ends at job {last}, but {folder} holds jobs up to {highest}: it lost its newest entries (was anycard.db-wal deleted,"
    " or an older copy put back?); no backup of it was found"
)
_MISSING_WITH_BACKUP = N_(
    "the store {store} ends at job {last}, but {folder} holds jobs up to {highest}: it lost its newest entries (was anycard.db-wal deleted,"
    " or an older copy put back?); the newest backup is {backup}"
)


@dataclass(frozen=True, slots=True)
class Older:
    """``floors``: no id below these is given out any more. ``kind`` and ``data`` of the event that notes it. ``missing``: what to say of
    jobs that ran and are not in the store; None when there are none."""

    floors: Mapping[str, int]
    kind: str
    data: Mapping[str, Any]
    missing: Text | None


def look(connection: Connection, paths: Paths, store: str) -> Older | None:
    """None: nothing says that the store is older, or it was noted already. ``store``: its name, to be said."""
    made_at = connection.execute(select(meta.c.value).where(meta.c.key == BACKUP_MARK)).scalar()
    last = connection.execute(select(func.max(jobs.c.id))).scalar() or 0
    beyond = [number for number in ids.folders(paths) if number > max(last, ids.floors(connection).get("jobs", 1) - 1)]
    ran = any(_ran(paths, number) for number in beyond)
    if made_at is None and not ran:
        return None
    free = ids.next_ids(connection, paths)
    floors = {"jobs": free.job, "attempts": free.attempt + _ID_GAP, "grants": free.grant + _ID_GAP}
    kind = "store.older" if made_at is None else "store.restored"
    data = {"backup_made_at": made_at, "last_job": last, "highest_folder": max(beyond, default=last)}
    return Older(floors, kind, data, _missing(paths, store, last, max(beyond)) if ran else None)


def _missing(paths: Paths, store: str, last: int, highest: int) -> Text:
    backup = newest_backup(paths)
    params: dict[str, str | int] = {"store": store, "last": last, "highest": highest, "folder": str(paths.jobs)}
    return Text(_MISSING, params) if backup is None else Text(_MISSING_WITH_BACKUP, {**params, "backup": str(backup)})


def _ran(paths: Paths, job: int) -> bool:
    """Whether an attempt of it began. A job's folder alone proves nothing: it is made before the job is recorded, and the daemon may be
    killed in between."""
    return (paths.home / "outputs" / str(job)).is_dir() or any(name.endswith(".log") for name in _files(paths.job(job)))


def _files(folder: Path) -> Iterator[str]:
    """Names in a job's folder and in the attempts' own folders below it, which a shared daemon makes."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
                if entry.is_dir(follow_symlinks=False) and not entry.name.endswith((".output", ".checkpoint")):
                    yield from (path.name for path in Path(entry.path).iterdir())
    except OSError:  # an output has no folder in jobs/; a program's may be closed to us: then nothing is proven by it
        return
