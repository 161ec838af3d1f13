"""The home of a shared daemon: everybody may pass through, nobody may look around; what is in it belongs to root or to one user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from anycard.config import Paths
from anycard.errors import UnavailableError

_PASSED_THROUGH = ("jobs", "outputs", "environments")  # users' own folders lie in these
_PASS = 0o711


def open_shared_home(where: Paths) -> None:
    """Makes the home and the folders that users pass through, and marks it as shared. UnavailableError when this is not root, or users
    could not reach the home or its socket."""
    if os.getuid() != 0:
        raise UnavailableError("a shared daemon must run as root: it starts programs as the users who submit them")
    # Its sockets lie in its home: a login's runtime folder goes when the login does, and is closed to everybody else.
    os.environ.pop("XDG_RUNTIME_DIR", None)
    if where.socket.parent != where.home / "run":
        raise UnavailableError("the path {home} is too long: the daemon's socket lies in it", home=where.home)
    where.home.mkdir(parents=True, exist_ok=True)
    for folder in (where.home, *(where.home / name for name in _PASSED_THROUGH)):
        folder.mkdir(exist_ok=True)
        folder.chmod(_PASS)
    closed = _first_closed(where.home)
    if closed is not None:
        raise UnavailableError(
            "other users cannot reach {home}: {folder} is closed to them",
            hint="choose another home (--home), or chmod a+x {folder}",
            home=where.home,
            folder=closed,
        )
    where.shared_mark.touch(mode=0o644)


def _first_closed(home: Path) -> Path | None:
    """The first folder on the way that others may not pass through."""
    for folder in reversed(home.resolve().parents):
        if not stat.S_IMODE(folder.stat().st_mode) & 0o001:
            return folder
    return None
