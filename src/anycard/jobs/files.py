"""What jobs keep as files. Every function may be repeated after a crash and then does nothing more."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anycard.jobs.spec import JobSpec

_TAIL_BYTES = 16_384
_LOG_END = b"[anycard] ended "


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
    folder: Path, spec: JobSpec, *, source: str | None, secrets: Mapping[str, str], owner: tuple[int, int] | None
) -> bool:
    """Writes what the job needs as files into ``folder`` (job.yaml, run.sh, setup.sh, secrets.json). False when there is nothing.

    ``owner`` (uid, gid): whose files they become in shared mode.
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
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, data in files.items():
        write_private(folder / name, data)
    if owner is not None:
        for path in (*folder.iterdir(), folder):
            os.chown(path, *owner)
    return True


def read_secrets(job_folder: Path) -> dict[str, str]:
    """The job's secrets; none when it has no such file."""
    try:
        found: dict[str, str] = json.loads((job_folder / "secrets.json").read_bytes())
    except FileNotFoundError:
        return {}
    return found


def read_tail(log: Path, size: int = _TAIL_BYTES) -> str:
    """The last ``size`` bytes of a log as text, whatever is in it; empty when there is no log."""
    try:
        with log.open("rb") as handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, end - size))
            data = handle.read(size)
    except OSError:
        return ""
    return data.decode("utf-8", "replace").replace("\r", "\n").replace("\0", " ")


def promote_output(attempt_folder: Path, output: Path) -> None:
    """Makes a succeeded attempt's output folder the item's, by one rename; an empty one is dropped."""
    made = attempt_folder / "output"
    with contextlib.suppress(OSError):
        made.rmdir()  # empty: the common case of a job without outputs
    if not made.exists():  # dropped just now, or promoted before a crash
        return
    output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if output.exists():  # left by an earlier life of the item (retried by hand): keep it aside, never merge
        output.rename(_aside(output))
    made.rename(output)


def _aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.old{number}")).exists():
        number += 1
    return aside


def end_log(log: Path, line: str) -> None:
    """Adds the closing line once. A log that the program removed stays removed."""
    try:
        descriptor = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, 512, max(0, size - 512)) if size else b""
        if tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LOG_END):
            return
        start = b"" if not tail or tail.endswith(b"\n") else b"\n"
        os.write(descriptor, start + _LOG_END + line.encode("utf-8", "replace") + b"\n")
    finally:
        os.close(descriptor)


def write_failed(job_folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """failed.json: the items that failed and why; removed when none did."""
    path = job_folder / "failed.json"
    if not rows:
        path.unlink(missing_ok=True)
        return
    job_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = {"schema": "anycard.failed/1", "items": list(rows)}
    write_private(path, json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace") + b"\n")


def drop_if_empty(folder: Path) -> None:
    """Removes a checkpoint folder that nobody wrote into."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
