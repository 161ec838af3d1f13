"""Cards are locked machine-wide, so that a second daemon says who holds them instead of taking them."""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path


class CardLocks:
    """One flock a card, in a folder that every user may write to; the holder's name stands in the file. Kernel-released on death."""

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
        path = self._path(card_id)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"another anycard daemon (its lock cannot be read: {error.strerror})"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(descriptor, 500).decode("utf-8", "replace").strip() or "another anycard daemon"
        else:
            return None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.give_back(list(self._held))

    def _path(self, card_id: str) -> Path:
        return self._folder / (re.sub(r"[^A-Za-z0-9._-]", "_", card_id) + ".lock")

    def _try(self, card_id: str) -> int | None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path(card_id), flags, 0o666)
        except PermissionError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(
            descriptor, f"the anycard daemon of {getpass.getuser()} (pid {os.getpid()}, {self._home})\n".encode(), 0
        )
        return descriptor


def _shared_folder() -> Path:
    """``/run/lock/anycard`` where it can be had, else the same in the temporary folder; sticky and open to all, as /tmp is."""
    candidates = (Path("/run/lock"), Path(tempfile.gettempdir()))
    base = next((path for path in candidates if path.is_dir() and os.access(path, os.W_OK)), candidates[-1])
    folder = base / "anycard"
    try:
        folder.mkdir(mode=0o1777)
        folder.chmod(0o1777)  # mkdir's mode is cut by the umask
    except FileExistsError:
        return folder
    return folder
