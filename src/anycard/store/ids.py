"""Ids are given out by the one daemon that writes: it asks once, at start, where to go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from anycard.config import Paths
from anycard.store.tables import attempts, grants, jobs, meta

IDS_FROM = "ids_from"  # in meta: no id below these is given out, see older.py
_FOLDER_DIGITS = 10  # a longer number is no job's: somebody else made that folder


@dataclass(frozen=True, slots=True)
class NextIds:
    """The next free id of each."""

    job: int
    attempt: int
    grant: int


def next_ids(connection: Connection, paths: Paths) -> NextIds:
    """One more than any id in the store or, for jobs, than any folder a job ever had: an older store put back in place must not give a
    new job the folder of another."""
    kept = floors(connection)
    highest = {
        table.name: connection.execute(select(func.max(table.c.id))).scalar() or 0 for table in (jobs, attempts, grants)
    }
    return NextIds(
        job=max(highest["jobs"] + 1, max(folders(paths), default=0) + 1, kept.get("jobs", 1)),
        attempt=max(highest["attempts"] + 1, kept.get("attempts", 1)),
        grant=max(highest["grants"] + 1, kept.get("grants", 1)),
    )


def floors(connection: Connection) -> Mapping[str, int]:
    """By table, the id from which on new ones are given out, where it is not the highest one's successor."""
    kept = connection.execute(select(meta.c.value).where(meta.c.key == IDS_FROM)).scalar()
    return {} if kept is None else {str(name): int(value) for name, value in json.loads(kept).items()}


def folders(paths: Paths) -> set[int]:
    """The numbers of jobs that have a folder."""
    found: set[int] = set()
    for parent in (paths.jobs, paths.home / "outputs"):
        try:
            names = [entry.name for entry in os.scandir(parent)]
        except FileNotFoundError:
            continue
        found |= {int(name) for name in names if name.isascii() and name.isdigit() and len(name) < _FOLDER_DIGITS}
    return found
