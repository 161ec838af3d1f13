"""Checks submissions with their users' rights: a small process of root's that has everything imported and forks for each, since an
interpreter of its own would cost a submission half a second.

`python -m anycard.jobs.checkserver FD`. Over FD come messages of JSON [uid, gid, [group...]], each with a connection: on it the forked
child, which has given its rights away, reads the request and writes the answer. It starts as root, because users need not be able to read
our installation. It ends when the daemon does, or when for a minute nobody submits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence

from anycard.errors import UnavailableError
from anycard.jobs.files import Owner

CHECK_TIMEOUT_S = 60.0
_IDLE_S = 60.0
_AT_ONCE = 4  # checks of one user; more wait, so that one cannot take everybody's turn
_MOST_BYTES = 1 << 16  # of a message: groups, at most 65,536 of which the kernel gives a user
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM


class CheckServer:
    """The daemon's side; starts the process when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._turns: dict[int, asyncio.Semaphore] = {}

    async def ask(self, request: bytes, owner: Owner) -> bytes:
        """What the check says of ``request``. UnavailableError when it takes too long or says nothing."""
        async with self._turns.setdefault(owner[0], asyncio.Semaphore(_AT_ONCE)):
            for last in (False, True):
                answer = await self._try(request, owner)
                if answer:
                    return answer
                if last or not self._ended():
                    break
        raise UnavailableError(
            "the job file could not be read as its user: {why}",
            hint="{limit} s is the most that it may take",
            why="it was ended before it was done",
            limit=round(CHECK_TIMEOUT_S),
        )

    async def _try(self, request: bytes, owner: Owner) -> bytes:
        """Empty when the check was ended for its time, or the process was just leaving."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._started(), [json.dumps([*owner, _groups(*owner)]).encode()], [theirs.fileno()])
            except OSError:
                ours.close()
                return b""
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            writer.write(request)
            writer.write_eof()
            async with asyncio.timeout(CHECK_TIMEOUT_S + 5.0):  # it ends by itself before that
                return await reader.read()
        except (TimeoutError, ConnectionError):
            return b""
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _started(self) -> socket.socket:
        if self._control is None or self._ended():
            if self._control is not None:
                self._control.close()
            self._control, theirs = socket.socketpair(socket.AF_UNIX, _KIND)
            self._control.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-s", "-P", "-m", "anycard.jobs.checkserver", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env={
                        "PATH": "/usr/bin:/bin",
                        "LC_ALL": "C.UTF-8",
                        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    },
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        return self._control


def _groups(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]


def serve(control: socket.socket) -> int:
    """Until the daemon is gone or nobody asked for a while."""
    from anycard.jobs import checking

    checking.load_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    while select.select([control], [], [], _IDLE_S)[0]:
        message, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES * 16, 1)
        if not message:
            break
        if os.fork() == 0:
            control.close()
            uid, gid, groups = json.loads(message)
            _check_as(uid, gid, groups, descriptors[0])
        os.close(descriptors[0])
    return 0


def _check_as(uid: int, gid: int, groups: Sequence[int], connection: int) -> None:
    """The child: nothing of the request is read before the rights are gone."""
    from anycard.jobs import checking

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(round(CHECK_TIMEOUT_S))
        os.setsid()
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        with os.fdopen(connection, "r+b", buffering=0) as stream:
            request = b"".join(iter(lambda: stream.read(1 << 20), b""))
            answer = memoryview(checking.answer(request))
            while answer:
                answer = answer[stream.write(answer) :]
        code = 0
    finally:
        if code:
            traceback.print_exc()  # into the daemon's log
        os._exit(code)


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
