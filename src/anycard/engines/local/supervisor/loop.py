"""The supervisor's process: one at a time for a home, its socket, its clients, and the wait for whatever comes next.

Both ways a line is one JSON object. To us: ``hello``, ``open``, ``start``, ``stop``, ``forget``, ``leave`` (exit; attempts go on).
From us: ``{"hello": ...}`` and attempt statuses, many a write. A client that is the same user or root is obeyed, nobody else.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import time

from anycard.engines.local.supervisor.attempts import Attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anycard.engines.local.supervisor.attempt import Attempt

PROTOCOL = 1
_READ_BYTES = 1 << 18
_NO_DESCRIPTOR_WAIT_S = 0.1
_LONGEST_WAIT_S = 3600.0  # select takes no timeout of years
_MOST_UNSENT_BYTES = 64 << 20  # a client that does not read is dropped; it asks again when it is back


class _Client:
    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid  # 0 where the system does not tell
        self.received = b""
        self.unsent = bytearray()
        self.opened = False


class Supervisor:
    """``idle_exit_s``: with no client and nothing running for so long, the process ends; what it knew is in the attempts' files."""

    def __init__(self, home_key: str, socket_path: str, boot_id: str, idle_exit_s: float) -> None:
        self._idle_exit_s = idle_exit_s
        self._socket_path = socket_path
        self._leaving = False
        self._clients: dict[int, _Client] = {}
        self._outbox: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._attempts = Attempts(home_key, boot_id, self._report, self._watch, self._unwatch)
        self._listener = _listen(socket_path)
        self._listening = os.stat(socket_path)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._woken)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only so that the wake-up descriptor is written
        signal.signal(signal.SIGTERM, self._leave)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> None:
        """Until told to leave, or idle long enough. Attempts are never touched by leaving."""
        idle_since = time.monotonic()
        while not self._leaving:
            timeout = self._attempts.turn()
            self._flush()
            if self._clients or self._attempts.busy:
                idle_since = time.monotonic()
            else:
                left = self._idle_exit_s - (time.monotonic() - idle_since)
                if left <= 0:
                    break
                timeout = left if timeout is None else min(timeout, left)
            for key, mask in self._selector.select(
                _LONGEST_WAIT_S if timeout is None else min(timeout, _LONGEST_WAIT_S)
            ):
                key.data(key.fileobj, mask)
        self._flush()
        if _is_there(self._socket_path, self._listening):
            _unlink(self._socket_path)
        self._attempts.cgroups.close()

    def _leave(self, *_: object) -> None:
        self._leaving = True

    def _woken(self, reader: socket.socket, _mask: int) -> None:
        try:
            while len(reader.recv(4096)) == 4096:
                continue
        except BlockingIOError:
            return

    # --- clients

    def _accept(self, listener: socket.socket, _mask: int) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptor left; whoever knocks is still there when there is one again
            self._attempts.mishaps.note("could not take in a client", error)
            time.sleep(_NO_DESCRIPTOR_WAIT_S)
            return
        pid, uid = peer(connection)
        if uid not in (os.getuid(), 0):
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection.fileno()] = _Client(connection, pid)
        self._attempts.clients.add(pid)
        self._selector.register(connection, selectors.EVENT_READ, self._serve)

    def _serve(self, connection: socket.socket, mask: int) -> None:
        client = self._clients[connection.fileno()]
        if mask & selectors.EVENT_WRITE:
            self._send(client)
        if not mask & selectors.EVENT_READ or client.connection.fileno() < 0:
            return
        try:
            data = connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._drop(client)
            return
        *lines, client.received = (client.received + data).split(b"\n")
        try:
            for line in lines:
                self._obey(client, json.loads(line))
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            self._attempts.mishaps.note("dropped a client that sent what is no message", error)
            self._drop(client)

    def _obey(self, client: _Client, message: dict[str, Any]) -> None:
        verb = message["do"]
        if verb == "start":
            self._attempts.start(message["spec"])
        elif verb == "stop":
            self._attempts.stop(message["id"], message["why"], message["grace_s"])
        elif verb == "forget":
            self._attempts.forget(message["ids"])
        elif verb == "open":
            client.opened = True
            self._attempts.open(message["attempts"])
        elif verb == "hello":
            hello = {"protocol": PROTOCOL, "pid": os.getpid(), "home": self._attempts.home_key}
            client.unsent += json.dumps({"hello": hello}).encode() + b"\n"
            self._send(client)
        elif verb == "leave":
            self._leaving = True
        else:
            raise ValueError(verb)

    def _report(self, status: dict[str, Any]) -> None:
        self._outbox.append(json.dumps(status))

    def _flush(self) -> None:
        """What a turn brought goes out in one write to each client that has opened."""
        if not self._outbox:
            return
        data = ("\n".join(self._outbox) + "\n").encode()
        self._outbox.clear()
        for client in list(self._clients.values()):
            if client.opened:
                client.unsent += data
                self._send(client)

    def _send(self, client: _Client) -> None:
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._drop(client)
            return
        if len(client.unsent) > _MOST_UNSENT_BYTES:
            self._drop(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self._selector.modify(client.connection, events, self._serve)

    def _drop(self, client: _Client) -> None:
        if client.connection.fileno() >= 0:
            self._selector.unregister(client.connection)
            del self._clients[client.connection.fileno()]
            self._attempts.clients = {other.pid for other in self._clients.values()}
            client.connection.close()

    # --- processes that are not our children

    def _watch(self, pidfd: int, attempt: Attempt) -> None:
        self._selector.register(pidfd, selectors.EVENT_READ, lambda *_: self._attempts.adopted_ended(attempt))

    def _unwatch(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)


def peer(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) at the other end. Where the system cannot say, the socket's 0600 in a 0700 folder is the guard."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0, os.getuid()
    pid, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return pid, uid


def _is_there(path: str, ours: os.stat_result) -> bool:
    """Whether ``path`` is our socket still, and not that of the supervisor of a home made where ours was."""
    try:
        return os.path.samestat(os.stat(path), ours)
    except OSError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _listen(path: str) -> socket.socket:
    _unlink(path)  # a dead supervisor's: we hold the lock
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def _dismiss_if_unreachable(lock: int, home_key: str, socket_path: str) -> None:
    """The supervisor that is there may listen where nobody can reach it: its XDG_RUNTIME_DIR was removed at a logout, or is not ours.
    Told to leave it loses nothing, and the next one started takes its place."""
    for _ in range(40):  # it may only just be starting
        if os.path.exists(socket_path):
            return
        time.sleep(0.05)
    holder = os.pread(lock, 32, 0)
    if holder.isdigit() and _is_supervisor(int(holder), home_key):
        os.kill(int(holder), signal.SIGTERM)


def _is_supervisor(pid: int, home_key: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return home_key.encode() in file.read().split(b"\0")
    except OSError:
        return not os.path.exists("/proc/self/cmdline")  # no /proc: the lock's word is all there is


def main(arguments: list[str]) -> int:
    """``arguments``: home, home key, socket, boot id, seconds of idleness to exit after.

    Runs until it is idle or told to leave. 0 also when another supervisor of this home is there already.
    """
    home, home_key, socket_path, boot_id, idle_exit_s = arguments
    lock = os.open(os.path.join(home, "supervisor.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _dismiss_if_unreachable(lock, home_key, socket_path)
        return 0
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    os.chdir("/")
    Supervisor(home_key, socket_path, boot_id, float(idle_exit_s)).run()
    return 0
