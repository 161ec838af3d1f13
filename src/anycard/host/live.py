"""The machine that this process runs on."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from anycard.host.host import CommandResult, FileRead, Json, NodeStat, ProcessSeen, Session
from anycard.units import MIB

_OUTPUT_LIMIT = 4 * MIB  # of each stream; the longest honest output seen (nvidia-smi -q of 16 cards) has 0.4 MiB
_REAP_S = 1.0  # a program stuck in the kernel cannot be killed: it is left behind after so long


class LiveHost:
    """See ``Host``."""

    @property
    def platform(self) -> str:
        return sys.platform

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def run(self, argv: Sequence[str], timeout_s: float = 10.0) -> CommandResult:
        argv = tuple(argv)
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C", "LANG": "C"},
                start_new_session=True,  # so that its children can be ended with it
            )
        except OSError as error:
            return CommandResult(argv, None, error=_errno_name(error))
        assert process.stdout and process.stderr
        out, err = _Drain(process.stdout), _Drain(process.stderr)
        timed_out = False
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        out.wait(0 if timed_out else _REAP_S)  # a child that it left may hold the pipes open for ever
        err.wait(0 if timed_out else _REAP_S)
        if timed_out or out.is_open or err.is_open:
            _end(process)
        code = None if timed_out or process.returncode is None else process.returncode
        if code is not None and code < 0:
            code = 128 - code
        return CommandResult(
            argv, code, out.taken(), err.taken(), timed_out=timed_out, truncated=out.truncated or err.truncated
        )

    def read(self, path: str, limit_bytes: int = MIB) -> FileRead:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)  # never waits on a fifo
        try:
            descriptor = os.open(path, flags)
            with open(descriptor, "rb", buffering=0) as file:
                data = b""
                while len(data) <= limit_bytes:
                    more = file.read(limit_bytes + 1 - len(data))
                    if not more:
                        return FileRead(data)
                    data += more
        except OSError as error:
            return FileRead(None, error=_errno_name(error))
        return FileRead(data[:limit_bytes], truncated=True)

    def list_folder(self, path: str) -> tuple[str, ...] | None:
        try:
            return tuple(sorted(entry.name for entry in Path(path).iterdir()))
        except OSError:
            return None

    def readlink(self, path: str) -> str | None:
        try:
            return str(Path(path).readlink())
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def node(self, path: str) -> NodeStat | None:
        try:
            seen = Path(path).stat()
        except OSError:
            return None
        device = getattr(seen, "st_rdev", 0)
        major, minor = (os.major(device), os.minor(device)) if hasattr(os, "major") else (0, 0)
        return NodeStat(seen.st_mode, _user_name(seen.st_uid), _group_name(seen.st_gid), major, minor)

    def process(self, pid: int) -> ProcessSeen | None:
        import psutil

        try:
            process = psutil.Process(pid)
            user, command = None, None
            try:
                user = process.username()
                command = " ".join(process.cmdline()) or process.name()
            except psutil.AccessDenied:
                command = command or process.name()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return ProcessSeen(pid, user, command)

    def ask(self, library: str) -> Json:
        return importlib.import_module(f"anycard.host.libraries.{library}").look()

    def session(self, library: str) -> Session:
        session: Session = importlib.import_module(f"anycard.host.libraries.{library}").open_session()
        return session


class _Drain:
    """Reads a pipe on a thread of its own, keeps the first part, and goes on emptying it so that the writer is not held up."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.truncated = False
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._empty, args=(pipe,), daemon=True, name="command output")
        self._thread.start()

    def _empty(self, pipe: IO[bytes]) -> None:
        with pipe:
            while more := os.read(pipe.fileno(), 65536):
                room = _OUTPUT_LIMIT - len(self._kept)
                self._kept += more[:room]
                self.truncated = self.truncated or len(more) > room

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def taken(self) -> bytes:
        self._thread.join(0.05)  # what was written before the program ended is already in the pipe
        return bytes(self._kept)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program and what it left in its process group."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        return  # nothing is left
    try:
        process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        return  # stuck in the kernel: no signal reaches it


def _errno_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "EIO")


def _user_name(uid: int) -> str | None:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _group_name(gid: int) -> str | None:
    try:
        import grp

        return grp.getgrgid(gid).gr_name
    except (ImportError, KeyError):
        return str(gid)
