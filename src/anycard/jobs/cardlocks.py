"""Cards are locked machine-wide, so that a second daemon says who holds them instead of taking them."""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from anycard.errors import UnavailableError

# The same for every user of the machine, so not the temporary folder of one. Not every system lets users write to the first.
_PLACES = (Path("/run/lock"), Path("/tmp"))  # noqa: S108  what lies there is looked at before it is used
_ELSEWHERE = "another anycard daemon"
_SHOWN_BYTES = 300


class CardLocks:
    """One flock a card, in a folder that every user may write to; who holds it stands in the file. The kernel releases it on death.

    Everybody may make files there, so nothing in it is believed: links are not followed, and a file is written to only when it is plain,
    has no second name, and is nobody's but ours or a fellow's lock.
    """

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        self._home = home
        self._folder = folder or _shared_folder()
        self._held: dict[str, int] = {}

    def take(self, card_ids: Iterable[str]) -> bool:
        """True when all are ours now; on False none was taken anew."""
        taken: list[str] = []
        for card_id in card_ids:
            if card_id in self._held:
                continue
            descriptor = self._try(card_id)
            if descriptor is None:
                self.give_back(taken)
                return False
            self._held[card_id] = descriptor
            taken.append(card_id)
        return True

    def give_back(self, card_ids: Iterable[str]) -> None:
        for card_id in card_ids:
            descriptor = self._held.pop(card_id, None)
            if descriptor is not None:
                os.close(descriptor)

    def holder(self, card_id: str) -> str | None:
        """Who else holds the card, in words; None when it is ours or nobody's."""
        if card_id in self._held:
            return None
        try:
            descriptor = self._open(card_id)
        except OSError as error:
            return f"{_ELSEWHERE} (its lock cannot be used: {error.strerror})"
        if descriptor is None:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(descriptor, _SHOWN_BYTES, 0).decode("utf-8", "replace").strip()
            return said or _ELSEWHERE
        else:
            return None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.give_back(list(self._held))

    def _path(self, card_id: str) -> Path:
        return self._folder / (re.sub(r"[^A-Za-z0-9._-]", "_", card_id) + ".lock")

    def _try(self, card_id: str) -> int | None:
        try:
            descriptor = self._open(card_id)
            if descriptor is None:
                descriptor = self._make(card_id)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), self._path(card_id).lstat()):
                raise BlockingIOError  # removed, and perhaps made anew, while we took it
        except OSError:
            os.close(descriptor)
            return None
        who = f"the anycard daemon of {getpass.getuser()} (pid {os.getpid()}, {self._home})\n"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, who.encode("utf-8", "replace"), 0)
        return descriptor

    def _open(self, card_id: str) -> int | None:
        """The lock's file; None when there is none. OSError when what is there is no lock of ours."""
        # Without O_CREAT: a kernel that protects files in such folders refuses it for a file that another user made.
        try:
            descriptor = os.open(self._path(card_id), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > _SHOWN_BYTES * 10:
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is no plain file of a lock's kind")
        return descriptor

    def _make(self, card_id: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path(card_id), flags, 0o666)
        os.fchmod(descriptor, 0o666)  # open's mode is cut by the umask; other users' daemons lock it, too
        return descriptor


def _shared_folder() -> Path:
    """``/run/lock/anycard`` where it can be had, else ``/tmp/anycard``; sticky and open to all, as /tmp is. UnavailableError without."""
    for place in _PLACES:
        folder = place / "anycard"
        try:
            folder.mkdir(mode=0o1777)
            folder.chmod(0o1777)  # mkdir's mode is cut by the umask
        except FileExistsError:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode):
                continue
            if found.st_uid == os.getuid():
                folder.chmod(0o1777)
            elif found.st_mode & 0o1003 != 0o1003:
                continue
            return folder
        except OSError:
            continue
        else:
            return folder
    raise UnavailableError(
        "there is no folder in which cards can be locked for the whole machine: {places}",
        hint="an administrator removes what is there under that name",
        places=", ".join(str(place / "anycard") for place in _PLACES),
    )
