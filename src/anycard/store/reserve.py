"""Space kept aside: freed when the disk is full, so that the pause can still be recorded."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from anycard.units import MIB

RESERVE_BYTES = 8 * MIB  # a turn of 50 jobs writes less than 1 MiB to the log


class Reserve:
    """The file ``path``, allocated and not only long."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self.path = path
        self.size = size

    @property
    def is_whole(self) -> bool:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return found.st_size == self.size

    def free(self) -> bool:
        """Gives the space back to the disk; False when there was none. OSError as it comes."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def refill(self) -> bool:
        """Allocates the file where it is not whole. False: the disk has no room for it yet. Other OSErrors as they come."""
        if self.is_whole:
            return True
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _allocate(descriptor, self.size)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.rename(self.path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return False
            raise
        return True


def free_bytes(path: Path) -> int:
    """Bytes that we may still write on the disk that holds ``path``."""
    return shutil.disk_usage(path).free


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    block = bytes(MIB)
    for _ in range(size // MIB):
        os.write(descriptor, block)
    os.ftruncate(descriptor, size)
