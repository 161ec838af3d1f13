"""The store is looked after while the daemon runs: a backup a day, and a full read of a store that was too large to be read at its open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from anycard.config import Paths
from anycard.errors import AnycardError
from anycard.jobs.board import Board
from anycard.model.text import Text
from anycard.store.backup import rolling_backup
from anycard.store.engine import Store, StoreDamagedError
from anycard.store.sqlite import CHECKED_AT_OPEN_BYTES

log = logging.getLogger("anycard.store")

BACKUP_AGE_S = 86_400.0
_LOOK_S = 600.0


async def look_after_store(
    store: Store, where: Paths, board: Callable[[], Board], damaged: Callable[[Text], None]
) -> None:
    """For ever, in worker threads. ``damaged`` is told when the store is found to be. A PostgreSQL server is its operator's to care for."""
    if store.backend.dialect.name != "sqlite":
        return
    if where.database.stat().st_size > CHECKED_AT_OPEN_BYTES:
        found = await asyncio.to_thread(_find_damage, store)
        if found is not None:
            log.error("%s (%s)", found, found.to_json()["hint"])
            damaged(Text(found.message, {name: str(value) for name, value in found.params.items()}))
            return  # a copy of it would push a good backup out
    while True:
        if board().next_job > 1:  # an empty store's backup would only put off the first one that matters
            await asyncio.to_thread(_back_up, where)
        await asyncio.sleep(_LOOK_S)


def _find_damage(store: Store) -> StoreDamagedError | None:
    try:
        return store.find_damage()
    except AnycardError as error:
        log.warning("the store could not be checked: %s", error)
        return None


def _back_up(where: Paths) -> None:
    """One that cannot be written (disk full) is tried again at the next look."""
    try:
        made = rolling_backup(where, older_than_s=BACKUP_AGE_S)
    except (AnycardError, OSError) as error:
        log.warning("no backup of the store could be made: %s", error)
        return
    if made is not None:
        log.info("backup of the store: %s", made)
