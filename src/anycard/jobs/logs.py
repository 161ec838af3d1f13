"""Reading logs: whole, the tail, or followed while the program writes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from anycard.errors import NotFoundError
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.files import open_log
from anycard.store import queries
from anycard.store.engine import Store

CHUNK_BYTES = 256 * 1024
_POLL_S = 0.2  # a followed log is looked at so often: a file has no event that works on every file system


async def read_log(
    dispatcher: Dispatcher, store: Store, job_id: int, item: int, *, attempt: int | None, follow: bool, tail: int | None
) -> AsyncIterator[bytes]:
    """The log of ``attempt`` (the last one when None) of ``item``; ``follow``: on through later attempts until the item is over.

    NotFoundError when nothing was ever started and ``follow`` is False, or the log was pruned.
    """
    stem = await asyncio.to_thread(_stem_of, store, job_id, item, attempt)
    if stem is None and not follow:
        raise NotFoundError("item {item} of job {job} has not started: there is no log yet", item=item, job=job_id)
    there = stem is not None and await asyncio.to_thread(os.path.exists, f"{stem}.log")
    if stem is not None and not there and not _open(dispatcher, job_id, item):
        raise NotFoundError(
            "the log of item {item} of job {job} is gone (pruned, or removed by hand)", item=item, job=job_id
        )
    if not follow:
        return _whole(Path(f"{stem}.log"), tail)
    return _follow(dispatcher, store, job_id, item, attempt, tail)


async def _whole(log: Path, tail: int | None) -> AsyncIterator[bytes]:
    position = await asyncio.to_thread(tail_offset, log, tail)
    while chunk := await asyncio.to_thread(_read, log, position):
        position += len(chunk)
        yield chunk


async def _follow(
    dispatcher: Dispatcher, store: Store, job_id: int, item: int, attempt: int | None, tail: int | None
) -> AsyncIterator[bytes]:
    done: set[str] = set()
    while True:
        over = not _open(
            dispatcher, job_id, item
        )  # asked before the last look, so that nothing written meanwhile is missed
        stem = await asyncio.to_thread(_stem_of, store, job_id, item, attempt)
        if stem is not None and stem not in done:
            log = Path(f"{stem}.log")
            position = await asyncio.to_thread(tail_offset, log, tail)
            tail = None
            while True:
                ended = not _running(dispatcher, job_id, item, stem)
                while chunk := await asyncio.to_thread(_read, log, position):
                    position += len(chunk)
                    yield chunk
                if ended:
                    break
                await asyncio.sleep(_POLL_S)
            done.add(stem)
            if attempt is not None:
                return
        elif over:
            return
        else:
            await asyncio.sleep(_POLL_S)


def log_of(store: Store, job_id: int, item: int, attempt: int | None) -> Path | None:
    """The file of an attempt's log (the last one's when None), there or not; None when nothing was started."""
    stem = _stem_of(store, job_id, item, attempt)
    return None if stem is None else Path(f"{stem}.log")


def _open(dispatcher: Dispatcher, job_id: int, item: int) -> bool:
    """Whether the item may still write a log."""
    job = dispatcher.board.jobs.get(job_id)
    return job is not None and (
        item in job.running or item in job.ready or any(number == item for _, number in job.delayed)
    )


def _running(dispatcher: Dispatcher, job_id: int, item: int, stem: str) -> bool:
    job = dispatcher.board.jobs.get(job_id)
    attempt = job.running.get(item) if job is not None else None
    return attempt is not None and attempt.stem == stem


def _stem_of(store: Store, job_id: int, item: int, attempt: int | None) -> str | None:
    with store.read() as connection:
        kept = queries.attempt_stem(connection, job_id, item, attempt)
    return None if kept is None else store.paths.absolute(kept)


def _read(log: Path, position: int) -> bytes:
    descriptor = open_log(log)
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, CHUNK_BYTES, position)
    finally:
        os.close(descriptor)


def tail_offset(log: Path, lines: int | None) -> int:
    """Where the last ``lines`` lines begin; 0 for all (None) or a log that is not there."""
    if lines is None:
        return 0
    descriptor = open_log(log)
    if descriptor is None:
        return 0
    try:
        with os.fdopen(descriptor, "rb") as handle:
            end = handle.seek(0, os.SEEK_END)
            position, found = end, 0
            while position > 0:
                size = min(CHUNK_BYTES, position)
                position -= size
                handle.seek(position)
                chunk = handle.read(size)
                for at in range(len(chunk) - 1, -1, -1):
                    if chunk[at] == 10 and position + at != end - 1:
                        found += 1
                        if found == lines:
                            return position + at + 1
            return 0 if lines else end
    except OSError:
        return 0
