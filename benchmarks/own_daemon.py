"""A daemon of our own in a home of its own, so that a benchmark neither sees nor disturbs the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anycard.api.client import Client
from anycard.errors import UnavailableError
from benchmarks.measure import processes_naming, timed

_READY_LIMIT_S = 60.0
_LOOK_S = 0.005
_END_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class OwnDaemon:
    """``ready_s``: from starting the process until it answered."""

    home: Path
    process: subprocess.Popen[bytes]
    client: Client
    ready_s: float

    def pids(self) -> dict[int, str]:
        """The daemon and its supervisor, by pid."""
        return {self.process.pid: "daemon"} | {
            pid: command
            for pid, command in processes_naming(str(self.home)).items()
            if pid != self.process.pid and "anycard" in command
        }


@contextmanager
def own_home() -> Iterator[Path]:
    """A home below the temporary folder; what anycard left running there is ended with it."""
    with tempfile.TemporaryDirectory(prefix="anycard-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        try:
            yield home
        finally:
            _end_all(home)


@contextmanager
def own_daemon(home: Path) -> Iterator[OwnDaemon]:
    """The daemon of ``home`` while the block runs. RuntimeError, with the end of its log, when it does not come up."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANYCARD_", "XDG_RUNTIME_DIR"))}
    os.environ.pop("XDG_RUNTIME_DIR", None)  # the client looks for the socket where the daemon makes it
    log_path = home.parent / "daemon.out"
    with log_path.open("ab") as log:
        began = timed()
        process = subprocess.Popen(
            [sys.executable, "-m", "anycard.daemon", "--home", str(home)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    client = Client(home)
    try:
        _await_answer(client, process, log_path)
        yield OwnDaemon(home, process, client, timed() - began)
    finally:
        client.close()
        process.terminate()
        process.wait(_END_LIMIT_S)


def _await_answer(client: Client, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = timed() + _READY_LIMIT_S
    while timed() < limit and process.poll() is None:
        try:
            client.status()
        except UnavailableError:
            time.sleep(_LOOK_S)
        else:
            return
    raise RuntimeError(f"the daemon did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def _end_all(home: Path) -> None:
    """The supervisor outlives its daemon by design; a benchmark leaves nothing behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        limit = timed() + 3
        left = processes_naming(str(home))
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        while left and timed() < limit:
            time.sleep(0.02)
            left = processes_naming(str(home))
        if not left:
            return
