"""One daemon a home: a lock that the kernel drops with the process, and by which the daemon knows its home again."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anycard.config import Paths
from anycard.errors import ConflictError

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class HomeLock:
    """The lock while it is held."""

    path: Path
    descriptor: int

    def is_in_place(self) -> bool:
        """Whether the file that we hold is still the home's. False only on proof: another file there, or none. The system gives the number
        of a file that is open to no other one."""
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # cannot be seen now, which says nothing
            return True
        return os.path.samestat(there, os.fstat(self.descriptor))

    async def until_lost(self) -> None:
        """Returns once the home was moved or deleted."""
        while True:
            if not self.is_in_place():
                return
            await asyncio.sleep(_LOOK_S)


@contextlib.contextmanager
def held(where: Paths) -> Iterator[HomeLock]:
    """Takes the home's lock for the block. ConflictError when another daemon has it."""
    descriptor = os.open(where.daemon_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "?"
            raise ConflictError(
                "a daemon for {home} is running already (pid {pid})",
                hint="`anycard down` ends it",
                home=str(where.home),
                pid=pid,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield HomeLock(where.daemon_lock, descriptor)
    finally:
        os.close(descriptor)
