"""What can go wrong with the store, each told apart, in words that say what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

from anycard.errors import AnycardError, UnavailableError


class StoreError(UnavailableError):
    """The database failed in a way that has no name of its own."""

    code = "store-failed"


class DiskFullError(UnavailableError):
    """The disk, or the user's quota on it, is full. Nothing of the turn was written."""

    code = "disk-full"


class StoreBusyError(UnavailableError):
    """Another program holds the store."""

    code = "store-busy"


class StoreAccessError(UnavailableError):
    """The store's file or server does not let us in."""

    code = "store-access"


class StoreDamagedError(UnavailableError):
    """The file is there, but what is in it is not a whole database any more."""

    code = "store-damaged"


class StoreVersionError(UnavailableError):
    """The database is of a newer anycard, or of another program."""

    code = "store-version"


class StoreRefusedError(AnycardError):
    """The database refused a row: a key that is there twice, a value that is missing. A fault of anycard's, never of the disk."""

    code = "store-refused"


def disk_full(path: Path, detail: str) -> DiskFullError:
    return DiskFullError(
        "the disk that holds {path} is full ({detail})",
        hint="Free some space on it, or run `anycard prune`. Running work goes on; new work starts once there is space.",
        path=path,
        detail=detail,
    )


def damaged(database: Path, detail: str, backup: Path | None) -> StoreDamagedError:
    """Names the newest backup and the command that puts it in place; the damaged file is kept beside it."""
    if backup is None:
        return StoreDamagedError(
            "the store {path} is damaged ({detail}) and no backup of it was found",
            hint="Your outputs and logs are untouched. To start with an empty store: {command}",
            path=database,
            detail=detail,
            command=set_aside_command(database),
        )
    return StoreDamagedError(
        "the store {path} is damaged ({detail}); the newest backup is {backup}",
        hint="With anycard down, put the backup in its place: {command}",
        path=database,
        detail=detail,
        backup=backup,
        command=f"{set_aside_command(database)} && cp {shlex.quote(str(backup))} {shlex.quote(str(database))}",
    )


def set_aside_command(database: Path) -> str:
    """The -wal of a damaged store must go with it: SQLite would play it into whatever file comes next."""
    name = str(database)
    quoted = shlex.quote(name)
    return (
        f"mv {quoted} {shlex.quote(name + '.damaged')}; rm -f {shlex.quote(name + '-wal')} {shlex.quote(name + '-shm')}"
    )
