"""A Host that keeps what was looked at through it, and what the machine answered."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from anycard.host.bundle import Bundle
from anycard.host.host import CommandResult, FileRead, Host, Json, NodeStat, ProcessSeen, Session
from anycard.units import MIB


class RecordingHost:
    """See ``Host``. ``keep_lines``: of these paths and programs only the lines that match are kept (and answered), because the rest is
    nobody's business. Of a process the program's name is kept, never its arguments."""

    def __init__(self, host: Host, keep_lines: Mapping[str, re.Pattern[bytes]] | None = None) -> None:
        self._host = host
        self._keep_lines = keep_lines or {}
        self._lock = threading.Lock()
        self.bundle = Bundle(platform=host.platform, environ_names=sorted(host.environ))

    @property
    def platform(self) -> str:
        return self._host.platform

    @property
    def environ(self) -> Mapping[str, str]:
        return self._host.environ

    def keep_environ(self, names: Sequence[str]) -> None:
        """Keeps the values of these variables, of no others."""
        environ = self._host.environ
        self.bundle.environ = {name: environ[name] for name in names if name in environ}

    def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
        result = self._host.run(argv, timeout_s)
        pattern = self._keep_lines.get(argv[0])
        if pattern is not None:
            result = CommandResult(
                result.argv,
                result.exit_code,
                _matching(result.stdout, pattern),
                result.stderr,
                timed_out=result.timed_out,
                truncated=result.truncated,
                error=result.error,
            )
        with self._lock:
            self.bundle.commands[result.argv] = result
        return result

    def read(self, path: str, limit_bytes: int = MIB) -> FileRead:
        read = self._host.read(path, limit_bytes)
        pattern = self._keep_lines.get(path)
        if pattern is not None and read.data is not None:
            read = FileRead(_matching(read.data, pattern), truncated=read.truncated)
        with self._lock:
            self.bundle.files[path] = read
        return read

    def list_folder(self, path: str) -> tuple[str, ...] | None:
        names = self._host.list_folder(path)
        with self._lock:
            self.bundle.folders[path] = names
        return names

    def list_matching(self, path: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """The names in a folder that match; the bundle keeps only these."""
        names = self._host.list_folder(path)
        kept = None if names is None else tuple(name for name in names if pattern.match(name))
        with self._lock:
            self.bundle.folders[path] = kept
        return kept or ()

    def readlink(self, path: str) -> str | None:
        target = self._host.readlink(path)
        with self._lock:
            self.bundle.links[path] = target
        return target

    def exists(self, path: str) -> bool:
        return self._host.exists(path)

    def node(self, path: str) -> NodeStat | None:
        node = self._host.node(path)
        with self._lock:
            self.bundle.nodes[path] = node
        return node

    def process(self, pid: int) -> ProcessSeen | None:
        process = self._host.process(pid)
        if process is not None:
            process = ProcessSeen(process.pid, process.user, _program(process.command))
        with self._lock:
            self.bundle.processes[pid] = process
        return process

    def ask(self, library: str) -> Json:
        answer = self._host.ask(library)
        with self._lock:
            self.bundle.libraries[library] = answer
        return answer

    def session(self, library: str) -> Session:
        """Not kept: a bundle holds one look, by ``ask``."""
        return self._host.session(library)


def _matching(data: bytes, pattern: re.Pattern[bytes]) -> bytes:
    return b"".join(line for line in data.splitlines(keepends=True) if pattern.search(line))


def _program(command: str | None) -> str | None:
    """``python3`` of ``/home/bob/venv/bin/python3 train.py --key=...``."""
    words = (command or "").split()
    return PurePath(words[0]).name if words else None
