"""Starts the supervisor: detached, in a session of its own, with no descriptor of the daemon's but its log."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

from anycard.config import Paths
from anycard.engines.local.descriptors import narrow_descriptors
from anycard.errors import UnavailableError
from anycard.host.clock import boot_id

_HANDED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_MAIN = Path(__file__).with_name("supervisor") / "__main__.py"


def home_key(paths: Paths) -> str:
    """Short name of this home: in the mark of its attempts' processes and in its control groups. It goes by the home's lock file, so it
    stays when the home is moved, and another home made in its place has one of its own. OSError when the home is not there."""
    descriptor = os.open(paths.home / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return hashlib.sha256(f"{found.st_dev}:{found.st_ino}".encode()).hexdigest()[:12]


def private_folder(folder: Path) -> None:
    """Makes ``folder`` 0700. UnavailableError when it is someone else's or open to others: whoever made it could listen in."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise UnavailableError(
            "{folder} is not a folder of yours",
            hint="remove it, or set XDG_RUNTIME_DIR to a folder of yours",
            folder=folder,
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def launch(paths: Paths, idle_exit_s: float = 60.0) -> subprocess.Popen[bytes]:
    """Starts a supervisor for this home; one that finds another there ends at once. OSError when it cannot be started."""
    private_folder(paths.supervisor_socket.parent)
    paths.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(paths.home / "supervisor.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # -I -S: neither the user's nor any site-packages; it needs the standard library alone and stays small.
        started = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-X", "utf8", str(_MAIN)),
                *(str(paths.home), home_key(paths), str(paths.supervisor_socket), boot_id(), str(idle_exit_s)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={name: os.environ[name] for name in _HANDED_ON if name in os.environ},
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(log)
    with contextlib.suppress(ProcessLookupError):  # it found another here and has ended
        narrow_descriptors(started.pid)
    return started
