"""A rig of real parts: an engine, its own supervisor, real programs. Nothing here stands in for our own code."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anycard.config import Paths
from anycard.engines.local.engine import LocalEngine
from anycard.engines.local.launch import home_key
from anycard.engines.local.supervisor import records
from anycard.engines.protocol import AttemptSpec, AttemptStatus, OpenAttempt, Phase

PATIENCE_S = 60  # not a measure of anything: how long until a hang is called a hang


async def until(condition: Callable[[], Any]) -> Any:
    """Waits until ``condition()`` is true and returns its value."""
    for _ in range(PATIENCE_S * 50):
        value = condition()
        if value:
            return value
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Rig:
    """One home with its supervisor; ``engine`` can be dropped and made anew as a crashed daemon's would be."""

    interpreter = sys.executable
    until = staticmethod(until)
    is_alive = staticmethod(is_alive)

    def __init__(self, base: Path) -> None:
        self.base = base
        self.paths = Paths(base / "home")
        self.engine = LocalEngine(self.paths)
        self.ends: dict[int, list[AttemptStatus]] = {}
        self.runs: dict[int, list[AttemptStatus]] = {}
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Rig:
        await self.connect([])
        return self

    async def __aexit__(self, *_: object) -> None:
        pid = self.engine.supervisor_pid
        await self.drop_engine()
        if pid is not None and is_alive(pid):
            os.kill(pid, signal.SIGTERM)
            await until(lambda: not is_alive(pid))
        self._kill_leftovers()
        log = self.paths.home / "supervisor.log"
        assert "Traceback" not in log.read_text(), log.read_text()

    def _kill_leftovers(self) -> None:
        """Of a test that failed half-way."""
        mark = f"ANYCARD_ATTEMPT_ID={home_key(self.paths)}:".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                continue  # not ours, or gone

    async def connect(self, attempts: list[OpenAttempt]) -> None:
        self._pump = asyncio.create_task(self._take())
        await self.engine.open(attempts)

    async def drop_engine(self) -> None:
        """As if the daemon had died: nothing is said to the supervisor."""
        await self.engine.close()
        if self._pump is not None:
            await self._pump
        self.engine = LocalEngine(self.paths)

    async def _take(self) -> None:
        async for status in self.engine.reports():
            if status.phase is Phase.ENDED:
                self.ends.setdefault(status.id, []).append(status)
            elif status.phase is Phase.RUNNING:
                self.runs.setdefault(status.id, []).append(status)

    def stem(self, attempt_id: int) -> Path:
        return self.base / "the job" / f"{attempt_id}.1"

    def file(self, attempt_id: int, name: str) -> Path:
        """``name`` "log", "record", "stop", "output" or "checkpoint"."""
        return Path(f"{self.stem(attempt_id)}.{name}")

    def recorded_exit(self, attempt_id: int) -> int | None:
        """The program's exit code as the attempt's record has it; None while it has none."""
        ended = records.read_exit(str(self.stem(attempt_id)))
        return None if ended is None else ended[0]

    def spec(self, attempt_id: int, *argv: str, env: dict[str, str] | None = None, **more: Any) -> AttemptSpec:
        more.setdefault("stem", str(self.stem(attempt_id)))
        more.setdefault("cwd", str(self.base))
        return AttemptSpec(id=attempt_id, argv=argv, env={"PATH": os.environ["PATH"], **(env or {})}, **more)

    def sh(self, attempt_id: int, script: str, **more: Any) -> AttemptSpec:
        return self.spec(attempt_id, "/bin/sh", "-c", script, **more)

    def python(self, attempt_id: int, script: str, *arguments: str, **more: Any) -> AttemptSpec:
        return self.spec(attempt_id, self.interpreter, "-S", "-c", script, *arguments, **more)

    async def end_of(self, attempt_id: int) -> AttemptStatus:
        return (await until(lambda: self.ends.get(attempt_id)))[0]

    async def run(self, spec: AttemptSpec) -> AttemptStatus:
        await self.engine.start([spec])
        return await self.end_of(spec.id)

    def log(self, attempt_id: int) -> bytes:
        return self.file(attempt_id, "log").read_bytes()

    async def kill_supervisor(self) -> int:
        """kill -9; its pid. The engine is left to find out by itself."""
        pid = self.engine.supervisor_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    async def replaced(self, old_pid: int) -> None:
        """Waits until the engine has a supervisor other than the killed one."""
        await until(lambda: self.engine.supervisor_pid != old_pid and is_alive(self.engine.supervisor_pid or 0))


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name (AF_UNIX paths end at 108 bytes) that every user may enter."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    folder = Path(tempfile.mkdtemp(prefix="ac-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def rig(base: Path) -> Rig:
    return Rig(base)
