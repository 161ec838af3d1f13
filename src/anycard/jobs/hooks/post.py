"""One POST to an address outside: with a time limit over all of it, and no redirect followed."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

from anycard.errors import UnavailableError
from anycard.jobs.hooks.shapes import Message

TIME_LIMIT_S = 10.0
ANSWER_BYTES_MAX = 65_536
# ValueError: http.client lets it out for a chunk of a negative length
_NO_ANSWER = (OSError, http.client.HTTPException, ValueError)


def post(message: Message, *, time_limit_s: float = TIME_LIMIT_S) -> tuple[int, bytes]:
    """(status, the answer's first ``ANSWER_BYTES_MAX`` bytes). UnavailableError when there is no answer; it never says the address.

    Goes by HTTPS_PROXY and NO_PROXY of the daemon's environment.
    """
    wire = _Wire()
    opener = urllib.request.build_opener(_Plain(wire), _Tls(wire), _NoRedirect())
    request = urllib.request.Request(message.url, message.body, dict(message.headers), method="POST")  # noqa: S310  settings.py knows the scheme
    clock = threading.Timer(time_limit_s, wire.cut)
    clock.daemon = True
    clock.start()
    try:
        with opener.open(request, timeout=time_limit_s) as answer:
            return answer.status, answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, _rest(answer)
    except _NO_ANSWER as error:
        raise UnavailableError("no answer: {why}", why=_why(error, wire, time_limit_s)) from None
    finally:
        clock.cancel()


def _rest(answer: urllib.error.HTTPError) -> bytes:
    """The status is known already: what cannot be read of the body is not missed."""
    with contextlib.suppress(*_NO_ANSWER):
        return answer.read(ANSWER_BYTES_MAX)
    return b""


def _why(error: Exception, wire: _Wire, time_limit_s: float) -> str:
    """Of the error only what the system or the TLS library says: other messages may repeat the address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError) else error
    if wire.is_cut or isinstance(cause, TimeoutError):
        return f"none within {time_limit_s:g} s"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(cause).__name__


class _Wire:
    """The socket in use, so that another thread may end what goes on on it."""

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.is_cut = False

    def cut(self) -> None:
        self.is_cut = True
        if self.socket is not None:
            with contextlib.suppress(OSError):  # closed meanwhile
                self.socket.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def http_open(self, req: urllib.request.Request) -> Any:
        wire = self._wire

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                wire.socket = self.sock

        return self.do_open(Connection, req)


class _Tls(urllib.request.HTTPSHandler):
    def __init__(self, wire: _Wire) -> None:
        super().__init__()
        self._wire = wire

    def https_open(self, req: urllib.request.Request) -> Any:
        wire = self._wire

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                wire.socket = self.sock

        return self.do_open(Connection, req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the message, and with it names of jobs, to where nobody sent it."""

    def redirect_request(self, *_: Any) -> None:
        return None
