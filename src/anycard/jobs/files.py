"""What jobs keep as files. Every function may be repeated after a crash and then does nothing more."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anycard.errors import UnavailableError
from anycard.jobs.spec import JobSpec
from anycard.store.prune import remove_tree

_TAIL_BYTES = 16_384
_PROGRESS_BYTES = 4096
_LOG_END = b"[anycard] ended "
STAGED = ".new-"  # begins the name of a folder that is to become a job's
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


log = logging.getLogger("anycard.files")

Owner = tuple[int, int]  # uid, gid: whose files they become in shared mode; None: they stay the daemon's


def job_folder(folder: Path, owner: Owner | None) -> None:
    """Makes a folder of a job's: 0700; in shared mode root's, which the owner may list but not change. So nothing in it can be swapped
    for a link by which root would be led elsewhere; what the owner's programs write lies one floor deeper, in folders that are theirs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if owner is not None:
        os.chown(folder, 0, owner[1])
        folder.chmod(0o750)


def owned_folder(folder: Path, owner: Owner | None) -> None:
    """Makes a folder for the job's programs to write in: 0700, the owner's. Its parent is the daemon's, so it is what it is taken for."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if owner is not None:
        os.chown(folder, *owner)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes ``data`` whole or not at all: a temporary file beside it, fsync, rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise


def stage_submission(
    folder: Path, spec: JobSpec, *, source: str | None, secrets: Mapping[str, str], owner: Owner | None
) -> bool:
    """Writes what the job needs as files into ``folder`` (job.yaml, run.sh, setup.sh, secrets.json). False when there is nothing.

    The owner may read and change them, but not the secrets: those are the daemon's to hand out.
    """
    files: dict[str, bytes] = {}
    if source is not None:
        files["job.yaml"] = source.encode("utf-8", "surrogateescape")
    if spec.run is not None:
        files["run.sh"] = spec.run.encode("utf-8", "surrogateescape") + b"\n"
    if spec.setup is not None:
        files["setup.sh"] = spec.setup.encode("utf-8", "surrogateescape") + b"\n"
    if secrets:
        files["secrets.json"] = json.dumps(dict(secrets)).encode()
    if not files:
        return False
    job_folder(folder, owner)
    for name, data in files.items():
        write_private(folder / name, data)
        if owner is not None and name != "secrets.json":
            os.chown(folder / name, *owner)
    return True


def drop_staged(jobs: Path) -> None:
    """Removes what submissions left that a killed daemon never answered."""
    for folder in jobs.glob(f"{STAGED}*"):
        shutil.rmtree(folder, ignore_errors=True)


def read_secrets(job_folder: Path) -> dict[str, str]:
    """The job's secrets. UnavailableError when their file is gone or cannot be read: the job must not run without them."""
    path = job_folder / "secrets.json"
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "it holds no JSON"
        raise UnavailableError("its secrets in {path} cannot be read: {why}", path=str(path), why=why) from error
    if not isinstance(found, dict):
        raise UnavailableError("its secrets in {path} cannot be read: {why}", path=str(path), why="it holds no secrets")
    return {str(name): str(value) for name, value in found.items()}


def open_log(path: Path, flags: int = os.O_RDONLY) -> int | None:
    """A descriptor of a log, or None when there is none. The folder is its program's, so what lies there under that name may be anything:
    only a plain file of the folder's owner counts."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(descriptor)
    try:
        if stat.S_ISREG(found.st_mode) and found.st_uid == path.parent.lstat().st_uid:
            return descriptor
    except OSError:
        log.info("%s went away while it was opened", path.parent)
    os.close(descriptor)
    return None


def read_tail(path: Path, size: int = _TAIL_BYTES) -> str:
    """The last ``size`` bytes of a log as text, whatever is in it; empty when there is no log."""
    return read_ends(path, 0, size)[1]


def read_ends(path: Path, head_bytes: int, tail_bytes: int) -> tuple[str, str]:
    """The first ``head_bytes`` of a log and, of what comes after them, the last ``tail_bytes``: as text, whatever is in it."""
    descriptor = open_log(path)
    if descriptor is None:
        return "", ""
    try:
        head = os.pread(descriptor, head_bytes, 0) if head_bytes else b""
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, tail_bytes, max(head_bytes, size - tail_bytes))
    except OSError:
        return "", ""
    finally:
        os.close(descriptor)
    return _as_text(head), _as_text(tail)


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r", "\n").replace("\0", " ")


def read_progress(checkpoint: Path) -> dict[str, Any] | None:
    """What the program last told by ``anycard.checkpoint.progress``: {done, total, message}; None when it told nothing readable. The file
    is the program's, so only a small plain one with numbers in it counts."""
    try:
        descriptor = os.open(checkpoint / "progress.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        told = json.loads(os.read(descriptor, _PROGRESS_BYTES))
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    done = told.get("done") if isinstance(told, dict) else None
    if not isinstance(done, int | float):
        return None
    total, message = told.get("total"), told.get("message")
    return {
        "done": done,
        "total": total if isinstance(total, int | float) else None,
        "message": message[:200] if isinstance(message, str) else None,
    }


def promote_output(made: Path, output: Path, owner: Owner | None = None) -> None:
    """Makes a succeeded attempt's output folder the item's, by one rename; an empty one stays where it is. So does one that its program
    made impossible to move, and the daemon's log says so: it must not keep others from being recorded."""
    try:
        found = made.lstat()
        if not stat.S_ISDIR(found.st_mode):
            log.warning("the output %s is no folder any more and stays there", made)
            return
        if owner is None and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            made.chmod(stat.S_IMODE(found.st_mode) | stat.S_IRWXU)  # one that is read-only cannot be moved
        if next(made.iterdir(), None) is None:
            return
        job_folder(output.parent, owner)
        if os.path.lexists(output):  # left by an earlier life of the item (retried by hand): keep it aside, never merge
            output.rename(_aside(output))
        made.rename(output)
    except FileNotFoundError:
        return  # promoted before a crash, or removed by its program
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        log.warning("the output %s stays there: %s", made, error)


def _aside(path: Path) -> Path:
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.old{number}")):
        number += 1
    return aside


def end_log(path: Path, line: str) -> None:
    """Adds the closing line once. A log that the program removed stays removed."""
    descriptor = open_log(path, os.O_RDWR | os.O_APPEND)
    if descriptor is None:
        return
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, 512, max(0, size - 512)) if size else b""
        if tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LOG_END):
            return
        start = b"" if not tail or tail.endswith(b"\n") else b"\n"
        os.write(descriptor, start + _LOG_END + line.encode("utf-8", "replace") + b"\n")
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        log.warning("no room for the closing line of %s: %s", path, line)  # the store has it, and needs the room more
    finally:
        os.close(descriptor)


def drop_output(made: Path) -> None:
    """Removes what an attempt wrote before the disk was full: it is no output, and its room is what the next try needs."""
    try:
        remove_tree(made)
    except FileNotFoundError:
        return  # gone before a crash
    except OSError as error:
        log.warning("%s could not be removed: %s", made, error)


def write_failed(folder: Path, rows: Sequence[Mapping[str, Any]], owner: Owner | None = None) -> None:
    """failed.json in the job's folder: the items that failed and why; removed when none did."""
    path = folder / "failed.json"
    if not rows:
        path.unlink(missing_ok=True)
        return
    job_folder(folder, owner)
    document = {"schema": "anycard.failed/1", "items": list(rows)}
    write_private(path, json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace") + b"\n")
    if owner is not None:
        os.chown(path, *owner)
