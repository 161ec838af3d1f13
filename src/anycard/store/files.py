"""Private files and folders of the store, and the mark by which its databases are known."""

from __future__ import annotations

import os
import stat
from pathlib import Path

APPLICATION_ID = 0x616E7963  # "anyc", in the header of each of our SQLite files (PRAGMA application_id)
VERSION_TABLE = "alembic_version"  # Alembic's name for where a database keeps its revision


def make_private_folder(folder: Path) -> None:
    """``folder`` exists, made 0700, and others cannot list it or write into it. OSError when that cannot be.

    Passing through stays allowed where it was (0711): a shared daemon's users reach their own folders below it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o066:
        folder.chmod(mode & ~0o066)


def make_private_file(path: Path) -> bool:
    """``path`` exists and is 0600. True when it is new. OSError when that cannot be."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        return False
    os.close(descriptor)
    sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Makes new names in ``folder`` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
