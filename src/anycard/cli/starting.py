"""Starting the daemon, detached, so that it outlives this process and holds nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from anycard.api.client import Client
from anycard.api.transport import NoDaemonError
from anycard.config import Paths, paths
from anycard.errors import ConflictError, UnavailableError

_READY_S = 20.0  # it is ready in under 2 s; a loaded machine is given more before it counts as failed
_LOOK_S = 0.02
_TAIL_BYTES = 4000
_DAEMONS_OWN = frozenset(
    ("ANYCARD_HOME", "ANYCARD_DATABASE_URL", "ANYCARD_DISK_PAUSE_BYTES", "ANYCARD_TOKEN_FILE")
)  # what it reads itself


def daemon_argv(home: Paths, *, shared: bool = False, port: int | None = None, page_link: bool = False) -> list[str]:
    argv = [sys.executable, "-m", "anycard.daemon", "--home", str(home.home)]
    if shared:
        argv.append("--shared")
    if port is not None:
        argv += ["--port", str(port)]
    if page_link:
        argv.append("--page-link")
    return argv


def daemon_environment() -> dict[str, str]:
    """Ours, without what a job's program gets: a daemon started from within an attempt must not carry the mark by which the attempt's
    processes are found and ended."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("ANYCARD_") or name in _DAEMONS_OWN
    }


def start_daemon(home_flag: str | None, *, shared: bool = False, port: int | None = None) -> str:
    """Starts the daemon of this home and returns once it answers. Its standard input is empty, its messages go to daemon.log, and every
    other descriptor is closed: a caller's ``$( )`` ends when the caller does.

    Returns what it said on stdout: with ``port``, the address and the token, which go into no log. Raises UnavailableError, naming the
    log, when it does not come up.
    """
    home = paths(home_flag)
    if not shared and os.path.exists(home.shared_mark):  # noqa: PTH110  Path.exists raises where a folder is closed to us
        raise UnavailableError(
            "the shared daemon of {home} does not run",
            hint="an administrator starts it (anycard up --shared -d); with ANYCARD_HOME=~/.local/share/anycard you have one of your own",
            home=home.home,
        )
    try:
        home.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(home.daemon_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise UnavailableError(
            "{home} cannot be written: {why}",
            hint="name a folder of yours: --home FOLDER, or ANYCARD_HOME",
            home=home.home,
            why=error.strerror or str(error),
        ) from error
    with tempfile.TemporaryFile(
        dir=home.home
    ) as said:  # a file without a name: the daemon may keep it, nobody else can open it
        try:
            log_offset = os.fstat(log).st_size
            child = subprocess.Popen(
                daemon_argv(home, shared=shared, port=port),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                cwd=home.home,
                env=daemon_environment(),
                start_new_session=True,
                close_fds=True,
            )
        finally:
            os.close(log)
        _await_answer(home, child, log_offset)
        said.seek(0)
        return said.read().decode(errors="replace").strip()


def _await_answer(home: Paths, child: subprocess.Popen[bytes], log_offset: int) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        ended = child.poll() is not None
        if _answers(home):
            return
        # Another call may have started one a moment before us: ours then ends as the second, and theirs is awaited.
        second = ended and child.returncode in (0, ConflictError.exit_code) and _held(home.daemon_lock)
        if ended and not second:
            raise UnavailableError(
                "the daemon did not start: {why}",
                hint="its log: {log}",
                why=_last_line(home.daemon_log, log_offset) or f"exit {child.returncode}",
                log=home.daemon_log,
            )
        time.sleep(_LOOK_S)
    raise UnavailableError(
        "the daemon did not answer within {seconds} s",
        hint="its log: {log}",
        seconds=round(_READY_S),
        log=home.daemon_log,
    )


def _held(lock: Path) -> bool:
    """Whether a daemon holds the home."""
    import fcntl

    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False  # it ended before it came to that
    return False


def _answers(home: Paths) -> bool:
    with Client(home.home) as client:
        try:
            client.status()
        except (NoDaemonError, UnavailableError):
            return False
        return True


def _last_line(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(offset, size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last.partition(" anycard.daemon: ")[2] or last  # without the log's time and level
