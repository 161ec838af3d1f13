"""The folders an attempt finds ready. Those that attempts of a moment left empty are handed on to the next ones: on a disk a rename costs a
tenth of a new folder, and it is short attempts that come in numbers."""

from __future__ import annotations

import errno
import os

_MODE = 0o040700
_BRIEF_S = 1.0  # of a longer attempt, somebody may stand in the folder by now
_MOST_SPARE = 32
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


class Folders:
    """For attempts of our own user; in shared mode, folders that were a user's are never another's."""

    def __init__(self) -> None:
        self._spare: list[str] = []

    def make(self, folder: str) -> None:
        """A folder with mode 0700, with the one it lies in; one that is there stays as it is. OSError when it cannot be made."""
        if self._spare and self._takes_spare(folder):
            return
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
        except FileNotFoundError:
            os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
            os.mkdir(folder, 0o700)

    def _takes_spare(self, folder: str) -> bool:
        """Whether one that was handed on stands there now."""
        while self._spare:
            spare = self._spare.pop()
            try:
                try:
                    os.rename(spare, folder)
                except FileNotFoundError:
                    os.mkdir(os.path.dirname(folder), 0o700)  # it was the first of its job
                    os.rename(spare, folder)
                return True
            except OSError as error:
                if error.errno in _TAKEN and os.path.lexists(folder):
                    self._spare.append(spare)
                    return False
                # else it is not there any more, or the folder cannot be made: ``make`` says why
        return False

    def hand_on(self, folders: list[str], ran_s: float) -> None:
        """Nothing runs any more of the attempt that had ``folders`` and ran for ``ran_s`` seconds: keeps those it left as it found them."""
        if ran_s > _BRIEF_S or len(self._spare) >= _MOST_SPARE:
            return
        for folder in folders:
            try:
                found = os.lstat(folder)
                if found.st_mode == _MODE and found.st_uid == os.getuid() and _is_empty(folder):
                    self._spare.append(folder)
            except OSError:
                continue  # its program took it away


def _is_empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None
