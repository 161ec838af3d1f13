"""uvicorn on our own sockets: a unix socket whose peers the kernel names, and optionally loopback TCP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from anycard.api.caller import PEER
from anycard.errors import ConflictError, UnavailableError

MAX_HEAD_BYTES = 64 * 1024  # of a request: its address and headers. The parser itself has no limit.
HEAD_S = 30.0  # over TCP, a request's head must be whole so soon after its connection or its first byte
# At once over TCP, where whoever is on this machine may connect, and of each user of a shared daemon. A hundred open pages hold a hundred
# streams and some connections more; jobs need descriptors, too.
MAX_CONNECTIONS = 400


class _PeerProtocol(HttpToolsProtocol):
    """Puts the peer's credentials where ASGI has the client's address; a TCP client's comes from the kernel, too, so none is forged.
    Ends a connection whose request's head has no end, and those that would leave no descriptors to others."""

    source = ""  # "tcp", or the credentials of a unix socket's peer
    _head_bytes: int | None = None  # of a head that is still coming
    _late: asyncio.TimerHandle | None = None  # ends the connection unless a head comes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if peer is not None and peer.family == socket.AF_UNIX:
            uid, gid, pid = peer_credentials(peer)
            self.client = (f"{PEER}:{uid}:{gid}", pid)
            self.source = f"{PEER}:{uid}" if uid not in (os.getuid(), 0) else ""
        else:
            self.source = "tcp"
        if self.source and self._like_this() > MAX_CONNECTIONS:
            transport.abort()
        elif self.source == "tcp":
            self._late = self.loop.call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        if self._late is None and self.source == "tcp":
            self._late = self.loop.call_later(HEAD_S, self.transport.abort)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._in_time()
        super().on_headers_complete()

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _like_this(self) -> int:
        """How many connections there are from where this one comes."""
        return sum(1 for other in self.connections if getattr(other, "source", None) == self.source)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("the head of the request is too large")


def peer_credentials(peer: socket.socket) -> tuple[int, int, int]:
    """(uid, gid, pid) of the process at the other end of a unix socket; pid 0 where the system does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, gid = struct.unpack(
            "3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        return uid, gid, pid
    # macOS and BSD: LOCAL_PEERCRED (level 0, option 1) answers struct xucred {version, uid, ngroups, groups[16]}
    raw = peer.getsockopt(0, 1, struct.calcsize("IIh16I"))
    _, uid, _, gid = struct.unpack_from("IIhI", raw)
    return uid, gid, 0


def listen_unix(path: Path, mode: int) -> socket.socket:
    """A listening socket at ``path`` with exactly ``mode``; a stale file is replaced, a live daemon is not (ConflictError)."""
    _own_folder(path.parent, shared=mode & 0o006 != 0)
    if path.exists():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fspath(path))
            except OSError:
                path.unlink(missing_ok=True)  # nobody answers: left by a daemon that was killed
            else:
                raise ConflictError("another daemon answers at {path}", hint="`anycard down` ends it", path=str(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177 if mode == 0o600 else 0o111)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    path.chmod(mode)
    listener.listen(512)
    listener.setblocking(False)
    return listener


def listen_loopback(port: int) -> socket.socket:
    """Loopback TCP; UnavailableError when the port is taken."""
    # Named TCP, asyncio sends at once what it has (TCP_NODELAY); else a head and its body are 40 ms apart.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise UnavailableError(
            "port {port} cannot be had: {why}", hint="choose another with --port", port=port, why=str(error)
        ) from error
    listener.listen(512)
    listener.setblocking(False)
    return listener


class Server(uvicorn.Server):
    """Leaves signals to the daemon."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_PeerProtocol,
                loop="asyncio",
                lifespan="off",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=2,
                timeout_keep_alive=75,
                ws="none",
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _own_folder(folder: Path, *, shared: bool) -> None:
    """Makes the socket's folder, ours alone unless shared; refuses one that somebody else made."""
    folder.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)
    found = folder.stat(follow_symlinks=False)
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise UnavailableError(
            "{folder} belongs to somebody else", hint="set XDG_RUNTIME_DIR to a folder of your own", folder=str(folder)
        )
    folder.chmod(0o755 if shared else 0o700)
