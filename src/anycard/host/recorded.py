"""A machine that was recorded: it answers from a bundle, and says NOT_RECORDED to what nobody looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from anycard.host import bundle as bundles
from anycard.host.bundle import Bundle
from anycard.host.host import NOT_RECORDED, CommandResult, FileRead, Json, NodeStat, ProcessSeen, Session
from anycard.units import MIB


class RecordedHost:
    """See ``Host``. The bundle is not to be changed while it is in use."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    @classmethod
    def open(cls, path: Path) -> RecordedHost:
        """From a tar.gz or folder that ``anycard capture`` made; UsageError when it is none."""
        return cls(bundles.load(path))

    @property
    def platform(self) -> str:
        return self._bundle.platform

    @property
    def environ(self) -> Mapping[str, str]:
        return self._bundle.environ

    def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
        argv = tuple(argv)
        return self._bundle.commands.get(argv) or CommandResult(argv, None, error=NOT_RECORDED)

    def read(self, path: str, limit_bytes: int = MIB) -> FileRead:
        read = self._bundle.files.get(path)
        if read is None:
            return FileRead(None, error=NOT_RECORDED)
        if read.data is not None and len(read.data) > limit_bytes:
            return FileRead(read.data[:limit_bytes], truncated=True)
        return read

    def list_folder(self, path: str) -> tuple[str, ...] | None:
        return self._bundle.folders.get(path)

    def readlink(self, path: str) -> str | None:
        return self._bundle.links.get(path)

    def exists(self, path: str) -> bool:
        """Whether anything that was recorded proves the path."""
        folder, _, name = path.rpartition("/")
        read = self._bundle.files.get(path)
        return bool(
            self._bundle.folders.get(path) is not None
            or self._bundle.links.get(path)
            or self._bundle.nodes.get(path)
            or (read and (read.data is not None or read.error == "EACCES"))
            or name in (self._bundle.folders.get(folder or "/") or ())
        )

    def node(self, path: str) -> NodeStat | None:
        return self._bundle.nodes.get(path)

    def process(self, pid: int) -> ProcessSeen | None:
        return self._bundle.processes.get(pid)

    def ask(self, library: str) -> Json:
        return self._bundle.libraries.get(library)

    def session(self, library: str) -> Session:
        return _RecordedSession(self, library)


class _RecordedSession:
    """The one look that was recorded, again and again."""

    def __init__(self, host: RecordedHost, library: str) -> None:
        self._host = host
        self._library = library

    def look(self) -> Json:
        return self._host.ask(self._library)

    def close(self) -> None:
        """Nothing is open."""
