"""Debian's task-spooler (`tsp`), the yardstick for a queue of small jobs: a C daemon that keeps nothing on disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

IN_FLIGHT = 4  # clients at once: of 1, 2, 4, 8 and 16 the number that serves it best on two cores


def find_tsp() -> str:
    """The program's path. SystemExit that says how to get it."""
    path = shutil.which("tsp")
    if path is None:
        raise SystemExit("task-spooler is the yardstick and is not installed: apt-get install task-spooler")
    return path


class TaskSpooler:
    """One server on a socket of its own, with ``slots`` jobs at once."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.program = find_tsp()
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "TS_SOCKET": str(folder / "tsp.socket"),
            "TS_SLOTS": str(slots),
            "TS_MAXFINISHED": "1000",
        }
        self.slots = slots

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.strip()

    def spawn(self, command: Sequence[str]) -> int:
        """Submits without waiting for the client to end; its pid. The job's number goes to /dev/null."""
        quiet = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        return os.posix_spawn(self.program, [self.program, *command], self.env, file_actions=[quiet])

    def run_all(self, command: Sequence[str], count: int) -> None:
        """Submits ``command`` ``count`` times, IN_FLIGHT clients at a time, and returns once all have ended."""
        under_way: deque[int] = deque()
        for _ in range(count):
            if len(under_way) >= IN_FLIGHT:
                os.waitpid(under_way.popleft(), 0)
            under_way.append(self.spawn(command))
        while under_way:
            os.waitpid(under_way.popleft(), 0)
        while left := self.not_ended():
            self.call("-w", left[-1])

    def run_one(self, command: Sequence[str]) -> str:
        """Submits, waits for the end, returns what it printed. Waiting is not part of what is measured."""
        number = self.call(*command)
        self.call("-w", number)
        return Path(self.call("-o", number)).read_text()

    def clear(self) -> None:
        self.call("-C")

    def not_ended(self) -> list[str]:
        """Numbers of the jobs that wait or run, in order."""
        return re.findall(r"^(\d+)\s+(?:queued|running)", self.call("-l"), re.MULTILINE)

    def ended(self) -> int:
        """Finished jobs since the last ``clear``."""
        return len(re.findall(r"^\d+\s+finished", self.call("-l"), re.MULTILINE))


@contextmanager
def task_spooler(folder: Path, slots: int) -> Iterator[TaskSpooler]:
    folder.mkdir(parents=True, exist_ok=True)
    spooler = TaskSpooler(folder, slots)
    spooler.call("-S", str(slots))  # starts the server
    try:
        yield spooler
    finally:
        spooler.call("-K")
