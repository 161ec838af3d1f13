"""One HTTP connection to the daemon, over its unix socket or over loopback TCP with a token.

Only the standard library: the command line must start fast.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anycard.config import Paths, fits_a_socket
from anycard.errors import (
    AnycardError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
    UsageError,
)

_ANSWER_S = 60.0  # a plain call is answered within this, or the daemon counts as stuck
_LONG_ANSWER_S = 600.0
_LONG = ("/v1/prune", "/v1/backup")  # their work grows with what is stored
_CHUNK_BYTES = 65536
_CLASSES = {
    kind.http_status: kind for kind in (UsageError, NotFoundError, ConflictError, ForbiddenError, UnavailableError)
}
DROPPED = (http.client.RemoteDisconnected, http.client.IncompleteRead, BrokenPipeError, ConnectionResetError)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._path))


class Transport:
    """A kept-alive connection. ``request`` reconnects once when the daemon dropped it and the call is ``repeatable``.

    Not for use by several threads at once: each makes its own (``clone``).
    """

    def __init__(
        self, where: str, sockets: tuple[Path, ...] = (), url: str | None = None, token: str | None = None
    ) -> None:
        self._where = where
        self._sockets = sockets
        self._url = url
        self._token = token
        self._connection: http.client.HTTPConnection | None = None
        self._patience_s = _ANSWER_S  # of the call under way

    def connect(self) -> None:
        """Connects now rather than at the first request."""
        if self._connection is None:
            self._connection = self._connect(_ANSWER_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> dict[str, Any]:
        """The answer's JSON object. Errors of the API are raised as ``anycard.errors``; UnavailableError without a daemon."""
        try:
            self.send(method, path, body)
            return self.receive()
        except DROPPED as dropped:
            self.close()
            if not repeatable:
                raise self._lost() from dropped
        try:
            self.send(method, path, body)
            return self.receive()
        except DROPPED as dropped:
            self.close()
            raise self._lost() from dropped

    def send(self, method: str, path: str, body: Any = None) -> None:
        """The first half of ``request``: returns once the request is written."""
        self.connect()
        assert self._connection is not None
        self._be_patient(_LONG_ANSWER_S if path in _LONG else _ANSWER_S)
        headers = self._headers()
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, payload, headers)
        except DROPPED:
            self.close()
            raise

    def _be_patient(self, seconds: float) -> None:
        assert self._connection is not None
        self._patience_s = seconds
        self._connection.timeout = seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)

    def receive(self) -> dict[str, Any]:
        """The second half of ``request``."""
        if self._connection is None:
            raise self._lost()
        try:
            response = self._connection.getresponse()
            raw = response.read()
        except TimeoutError as late:
            self.close()
            raise UnavailableError(
                "the daemon did not answer within {seconds} s",
                hint="look into its log: {where}/daemon.log",
                seconds=round(self._patience_s),
                where=self._where,
            ) from late
        if response.will_close:
            self.close()
        return _answer(response.status, raw)

    def stream(self, path: str, timeout_s: float | None = None) -> Iterator[bytes]:
        """The answer's bytes as they come, on a connection of its own. Raises UnavailableError when the daemon goes away meanwhile,
        TimeoutError when nothing comes for ``timeout_s``."""
        connection = self._connect(timeout_s)
        try:
            connection.request("GET", path, None, self._headers())
            response = connection.getresponse()
            if response.status >= 400:
                _answer(response.status, response.read())
            while chunk := response.read1(_CHUNK_BYTES):
                yield chunk
        except DROPPED as dropped:
            raise self._lost() from dropped
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        for connection in self._candidates(timeout):
            try:
                connection.connect()
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, TimeoutError, socket.gaierror):
                connection.close()
            except PermissionError as refused:
                connection.close()
                raise ForbiddenError("the daemon of {where} is someone else's", where=self._where) from refused
            except (OSError, UnicodeError) as error:  # no way to that network; a host's name that cannot be one
                connection.close()
                why = getattr(error, "strerror", None) or str(error)
                raise UnavailableError("{where} cannot be reached: {why}", where=self._where, why=why) from error
            else:
                return connection
        raise NoDaemonError("no daemon is running for {where}", hint="start it: anycard up -d", where=self._where)

    def _candidates(self, timeout: float | None) -> Iterator[http.client.HTTPConnection]:
        if self._url is None:
            for path in self._sockets:
                yield _UnixConnection(path, timeout)
            return
        try:
            parts = urlsplit(self._url)
            host, port = parts.hostname, parts.port
            if parts.scheme not in ("http", "https") or not host:
                raise ValueError(self._url)
            by_tls = (
                parts.scheme == "https"
            )  # through a proxy, docs/access.md; certificates are checked, SSL_CERT_FILE adds to them
            kind = http.client.HTTPSConnection if by_tls else http.client.HTTPConnection
            connection = kind(host, port, timeout=timeout)
        except (ValueError, http.client.InvalidURL) as wrong:
            raise UsageError("{url} is not an address like http://127.0.0.1:8080", url=self._url) from wrong
        yield connection

    def _lost(self) -> UnavailableError:
        return UnavailableError(
            "the daemon of {where} closed the connection before it answered",
            hint="anycard status says whether it runs; its log is {where}/daemon.log",
            where=self._where,
        )


class NoDaemonError(UnavailableError):
    """Nothing listens there."""


def sockets_of(paths: Paths) -> tuple[Path, ...]:
    """Where the daemon of this home may listen, likeliest first: it may have been started with another XDG_RUNTIME_DIR than ours (a login
    session's, none under cron, a service's)."""
    name = paths.socket_name()
    places = [paths.socket, paths.home / "run" / name]
    if os.name == "posix":
        places += [Path(f"/run/user/{os.getuid()}/anycard") / name, Path("/tmp") / f"anycard-{os.getuid()}" / name]  # noqa: S108
    return tuple(path for path in dict.fromkeys(places) if fits_a_socket(path) and _trusted(path))


def _trusted(path: Path) -> bool:
    """Below /tmp anybody can make a folder of our name: only one that is ours is believed."""
    if path.parts[:2] != ("/", "tmp") or not path.parent.name.startswith("anycard-"):
        return True
    try:
        return path.parent.stat().st_uid == os.getuid()
    except OSError:
        return False


def _answer(status: int, raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    if status < 400 and isinstance(value, dict):
        return value
    raise error_of(status, value if isinstance(value, dict) else {})


def error_of(status: int, value: dict[str, Any]) -> AnycardError:
    said = value.get("error")
    if not isinstance(said, dict):
        if status == NotFoundError.http_status:  # no route: a name with a slash, or an older daemon
            return NotFoundError("the daemon knows nothing of that")
        return AnycardError("the daemon answered {status} and nothing that could be read", status=status)
    params = {name: param for name, param in (said.get("params") or {}).items() if name != "hint"}
    kind = _CLASSES.get(status, UsageError if status < 500 else AnycardError)
    error = kind(
        str(said.get("msgid") or said.get("message")), hint=said.get("hint_msgid") or said.get("hint"), **params
    )
    error.code = str(said.get("code") or error.code)
    error.faults = tuple(value.get("faults") or ())
    return error
