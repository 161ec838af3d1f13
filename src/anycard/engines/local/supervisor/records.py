"""The small files of an attempt through which a result outlives everybody: ``STEM.record`` (claim, then end) and ``STEM.stop``.

docs/attempts.md describes them. In shared mode their folder is the user's, so nothing here follows a link, blocks on a FIFO,
or trusts a number beyond that user's own attempt.
"""

from __future__ import annotations

import errno
import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_BYTES = 65536
_END = re.compile(r"exited (\d{1,9})|cannot-start (.*)")


class Started:
    """Who claimed the attempt: pid and start time (clock ticks since boot, /proc/PID/stat field 22; 0 when not written, as by the shim)
    in one boot.

    ``pid`` 0: the supervisor claimed it so that nobody can start it any more."""

    __slots__ = ("boot_id", "note", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int, boot_id: str, note: dict[str, Any]) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.boot_id = boot_id
        self.note = note


class Incomplete(Exception):
    """The attempt is claimed, but the claim is not (or not readably) written."""


def read_started(stem: str) -> Started | None:
    """The claim; None when there is none. Incomplete when it is half-written; OSError when the folder cannot be read."""
    text = _read(stem + ".record")
    if text is None:
        return None
    lines = text.split("\n")
    if len(lines) < 5:
        raise Incomplete
    try:
        note = json.loads(lines[3])
        start_ticks = int(lines[1].rpartition(")")[2].split()[19]) if lines[1] else 0
        return Started(int(lines[0]), start_ticks, lines[2], note if isinstance(note, dict) else {})
    except (ValueError, IndexError, RecursionError):  # RecursionError: brackets without end
        raise Incomplete from None


def claim(stem: str, boot_id: str) -> bool:
    """Takes the claim so that no shim can: True if it was free. OSError when the folder cannot be written."""
    try:
        descriptor = os.open(stem + ".record", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    try:
        os.write(descriptor, f"0\n\n{boot_id}\n{{}}\n".encode())
    finally:
        os.close(descriptor)
    return True


def read_exit(stem: str) -> tuple[int | None, str | None, float] | None:
    """(exit code, None, when) or (None, why it could not be started, when), ``when`` in UTC seconds; None when not (wholly) written.

    Of several ends the last counts: the shim writes after its program."""
    text = _read(stem + ".record", from_end=True)
    for line in reversed((text or "").split("\n")[:-1]):
        end = _END.fullmatch(line)
        if end is not None:
            try:
                when = os.lstat(stem + ".record").st_mtime
            except OSError:
                return None
            return (int(end[1]) & 0xFF, None, when) if end[1] else (None, end[2], when)
    return None


def write_exit(stem: str, exit_code: int) -> None:
    """Records the end that the system told us, in place of what is there below the claim: nothing or a part, for the shim was killed,
    or what the program wrote in the shim's stead. OSError when it cannot be written."""
    claim = (_read(stem + ".record") or "").split("\n")[:4]
    _replace(stem, "record", "\n".join([*claim, *[""] * (4 - len(claim)), f"exited {exit_code}\n"]))


def read_stop(stem: str) -> dict[str, Any] | None:
    """What ``write_stop`` wrote, or None."""
    text = _read(stem + ".stop")
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("why"), str) else None


def write_stop(stem: str, why: str, kill_at: float, *, told: bool) -> None:
    """Remembers that the attempt is being stopped, so that a later supervisor goes on with it. ``kill_at`` in boot seconds;
    ``told``: the stop signal was sent."""
    _replace(stem, "stop", json.dumps({"why": why, "kill_at": kill_at, "told": told}) + "\n")


def _read(path: str, *, from_end: bool = False) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    try:
        if from_end and (size := os.fstat(descriptor).st_size) > _MOST_BYTES:
            os.lseek(descriptor, size - _MOST_BYTES, os.SEEK_SET)
        return os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _replace(stem: str, name: str, text: str) -> None:
    temporary = f"{stem}.{name}.{os.getpid()}"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        owner = os.stat(os.path.dirname(stem))
        if owner.st_uid != os.getuid():
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    os.rename(temporary, f"{stem}.{name}")
