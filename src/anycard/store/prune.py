"""Takes away what jobs that ended long ago left on the disk: logs and failed outputs, results, checkpoints, cached environments.

Of such a job the store keeps its row (with ``pruned_at``), its grants and its events, for money and audit; the rows of its items and
attempts go. Open jobs are never touched, links are never followed. A dry run does the same reckoning and removes nothing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from anycard.config import Paths
from anycard.host import clock
from anycard.store.engine import Store
from anycard.store.queries import ENDED_JOB_STATES
from anycard.store.tables import jobs

_BATCH = 50  # jobs in one transaction: turns wait less than 10 ms for it
_ENVIRONMENTS = "environments"
_SETUP_MARKS = "setups"


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is over, with what its folders take on the disk, in bytes."""

    id: int
    ended_at: float
    logs_bytes: int
    outputs_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.logs_bytes + self.outputs_bytes


def plan_prune(ended: Sequence[EndedJob], *, ended_before: float, max_bytes: int | None = None) -> tuple[EndedJob, ...]:
    """Which go, oldest end first: all that ended before ``ended_before`` (UTC seconds), then more until what the rest takes together is
    at most ``max_bytes``. Pure."""
    oldest_first = sorted(ended, key=lambda job: (job.ended_at, job.id))
    left = sum(job.total_bytes for job in oldest_first)
    chosen: list[EndedJob] = []
    for job in oldest_first:
        if job.ended_at >= ended_before and (max_bytes is None or left <= max_bytes):
            break
        chosen.append(job)
        left -= job.total_bytes
    return tuple(chosen)


def prune(
    store: Store, paths: Paths, ended_before: float, *, max_bytes: int | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Prunes by age and, where given, by total size. Returns, for the API: ``jobs`` (ids), ``freed_bytes``, the same
    by kind, and ``failed`` (paths that could not be removed, with the reason). Raises what ``Store`` raises.
    """
    chosen = plan_prune(_inventory(store, paths), ended_before=ended_before, max_bytes=max_bytes)
    environments = _unused_environments(store, paths, ended_before)
    removal = _Removal(paths.home, dry_run)
    done: list[int] = []
    for start in range(0, len(chosen), _BATCH):
        batch = chosen[start : start + _BATCH]
        ids = [job.id for job in batch] if dry_run else _forget_rows(store, [job.id for job in batch])
        for job_id in ids:
            for kind, path in _folders(paths, job_id):
                removal.remove(kind, path)
        done += ids
    if environments and not dry_run:
        for mark in _entries(paths.home / _SETUP_MARKS):
            mark.unlink(missing_ok=True)  # a setup must run again in an environment that is made anew
    for environment in environments:
        removal.remove("environments", environment)
    return {
        "jobs": done,
        "freed_bytes": sum(removal.freed.values()),
        **{f"{kind}_bytes": size for kind, size in removal.freed.items()},
        "failed": removal.failed,
    }


class _Removal:
    """Removes trees below ``home`` and counts what that frees; nothing outside it, whatever links point where."""

    def __init__(self, home: Path, dry_run: bool) -> None:
        self._home = home.resolve()
        self._dry_run = dry_run
        self.freed = {"logs": 0, "outputs": 0, "environments": 0}
        self.failed: list[dict[str, str]] = []

    def remove(self, kind: str, path: Path) -> None:
        if not os.path.lexists(path):
            return
        if path.parent.resolve() != self._home / path.parent.name:
            self.failed.append({"path": str(path), "reason": "its folder is a link that leads out of ANYCARD_HOME"})
            return
        try:
            size = tree_bytes(path)
            if not self._dry_run:
                remove_tree(path)
            self.freed[kind] += size
        except (OSError, RecursionError) as error:
            self.failed.append({"path": str(path), "reason": getattr(error, "strerror", None) or str(error)})


def tree_bytes(path: Path) -> int:
    """Bytes on the disk that removing ``path`` frees. Links count as themselves, files with other names elsewhere count nothing."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    total = _freed_by(found)
    waiting = [os.fspath(path)] if stat.S_ISDIR(found.st_mode) else []
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += _freed_by(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, PermissionError):  # it went away, or is closed: what cannot be seen is not counted
            continue
    return total


def remove_tree(path: Path) -> None:
    """Removes ``path`` and what is below, by descriptors: a folder swapped for a link meanwhile is not followed. OSError as it comes."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        path.unlink()
        return
    for _, folders, files, descriptor in os.fwalk(path, topdown=False, onerror=_raise):
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700 != 0o700:
            os.fchmod(descriptor, 0o700)  # programs leave read-only folders behind
        for name in files:
            os.unlink(name, dir_fd=descriptor)
        for name in folders:
            if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=descriptor)
            else:
                os.unlink(name, dir_fd=descriptor)
    path.rmdir()


def _inventory(store: Store, paths: Paths) -> list[EndedJob]:
    """Ended jobs that have anything left to prune; one whose rows went before a crash still has its folders."""
    query = select(jobs.c.id, jobs.c.ended_at, jobs.c.submitted_at, jobs.c.pruned_at).where(
        jobs.c.state.in_(ENDED_JOB_STATES)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    found = []
    for row in rows:
        sizes = {f"{kind}_bytes": tree_bytes(path) for kind, path in _folders(paths, row.id)}
        if row.pruned_at is None or any(os.path.lexists(path) for _, path in _folders(paths, row.id)):
            found.append(EndedJob(row.id, row.submitted_at if row.ended_at is None else row.ended_at, **sizes))
    return found


def _folders(paths: Paths, job_id: int) -> Iterator[tuple[str, Path]]:
    yield "logs", paths.job(job_id)
    yield "outputs", paths.output(job_id, 0).parent


def _forget_rows(store: Store, ids: Collection[int]) -> list[int]:
    """Drops the rows of items and attempts of those ``ids`` that are still over: a job may have been asked for again meanwhile."""
    mark = "%s" if store.backend.dialect.paramstyle == "format" else "?"
    ended = ", ".join(f"'{state}'" for state in ENDED_JOB_STATES)
    forgotten = []
    with store.write() as cursor:
        for job_id in ids:
            cursor.execute(
                f"UPDATE jobs SET pruned_at = {mark} WHERE id = {mark} AND state IN ({ended})",  # noqa: S608  our own constants
                (clock.now().utc_s, job_id),
            )
            if cursor.rowcount == 1:
                cursor.execute(f"DELETE FROM items WHERE job_id = {mark}", (job_id,))  # noqa: S608
                cursor.execute(f"DELETE FROM attempts WHERE job_id = {mark}", (job_id,))  # noqa: S608
                forgotten.append(job_id)
    return forgotten


def _unused_environments(store: Store, paths: Paths, before: float) -> list[Path]:
    """Cached environments older than ``before`` whose name no job that is open, or that ended since, has in its file."""
    old = [path for path in _entries(paths.home / _ENVIRONMENTS) if path.lstat().st_mtime < before]
    if not old:
        return []
    still_used = (jobs.c.ended_at.is_(None)) | (jobs.c.ended_at >= before)
    with store.read() as connection:
        specs = connection.execute(
            select(jobs.c.uid, jobs.c.spec_json).where(still_used, jobs.c.spec_json.contains("setup_environment"))
        )
        used = {
            f"{prefix}{name}" for uid, spec in specs if (name := _environment_of(spec)) for prefix in ("", f"{uid}-")
        }
    return [path for path in old if path.name not in used]


def _environment_of(spec_json: str) -> str | None:
    name: str | None = json.loads(spec_json).get("setup_environment")
    return name


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _freed_by(found: os.stat_result) -> int:
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        return 0
    return found.st_blocks * 512  # st_blocks counts 512-byte units whatever the file system's block is (POSIX)


def _raise(error: OSError) -> None:
    raise error
