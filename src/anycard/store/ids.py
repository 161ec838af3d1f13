"""Ids are given out by the one daemon that writes: it asks once, at start, where to go on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from anycard.config import Paths
from anycard.store.tables import attempts, grants, jobs, meta

IDS_FROM = "ids_from"  # in meta: no id below these is given out, see engine.py on restored backups


@dataclass(frozen=True, slots=True)
class NextIds:
    """The next free id of each."""

    job: int
    attempt: int
    grant: int


def next_ids(connection: Connection, paths: Paths) -> NextIds:
    """One more than any id in the store or, for jobs, than any folder a job ever had: an older store put back in place must not give a
    new job the folder of another."""
    floors: dict[str, Any] = {}
    kept = connection.execute(select(meta.c.value).where(meta.c.key == IDS_FROM)).scalar()
    if kept is not None:
        floors = json.loads(kept)
    highest = {
        table.name: connection.execute(select(func.max(table.c.id))).scalar() or 0 for table in (jobs, attempts, grants)
    }
    return NextIds(
        job=max(highest["jobs"], _highest_folder(paths)) + 1,
        attempt=max(highest["attempts"] + 1, floors.get("attempts", 1)),
        grant=max(highest["grants"] + 1, floors.get("grants", 1)),
    )


def _highest_folder(paths: Paths) -> int:
    highest = 0
    for parent in (paths.jobs, paths.home / "outputs"):
        try:
            names = [entry.name for entry in os.scandir(parent)]
        except FileNotFoundError:
            continue
        highest = max([highest, *(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)])
    return highest
