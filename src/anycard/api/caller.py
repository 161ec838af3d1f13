"""Who calls: by the kernel's word on a unix socket, by token on loopback TCP."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
import pwd
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import Request

from anycard.errors import ForbiddenError, UsageError
from anycard.jobs.files import write_private

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FILE_NAMED_BY = "ANYCARD_TOKEN_FILE"  # in the daemon's environment
_TOKEN_LEAST = 20  # characters; a random one of letters and digits then has more than 100 bits
PEER = "uid"  # scope["client"] is ("uid:UID:GID", pid) for a unix socket, see server.py


@dataclass(frozen=True, slots=True)
class Caller:
    """``admin`` may act on everybody's jobs: root, and the daemon's own user."""

    uid: int
    gid: int
    user: str
    admin: bool


class Gate:
    """Decides who a request is from. ``shared`` False: only the daemon's own user and root may come in at all."""

    def __init__(self, token_file: Path, *, shared: bool) -> None:
        self._token_file = token_file
        self._shared = shared

    def caller(self, request: Request) -> Caller:
        """Raises ForbiddenError when the caller is nobody we let in."""
        host, _ = request.scope.get("client") or ("", 0)
        if host.startswith(f"{PEER}:"):
            _, uid, gid = host.split(":")
            return self._known(int(uid), int(gid))
        self._check_origin(request)
        self._check_token(request.headers.get("authorization", ""))
        return self.own()

    def own(self) -> Caller:
        """The daemon's own user."""
        return self._known(os.getuid(), os.getgid())

    def drop_token(self) -> None:
        """No token is good any more."""
        self._token_file.unlink(missing_ok=True)

    def make_token(self) -> str:
        """The token for TCP: what stands in the file that ANYCARD_TOKEN_FILE names, else a fresh one. Only its hash is kept.
        UsageError for a file that will not do."""
        given = os.environ.get(_FILE_NAMED_BY)
        token = secrets.token_urlsafe(32) if given is None else _token_of(Path(given))
        write_private(self._token_file, _digest(token).encode())
        return token

    def _known(self, uid: int, gid: int) -> Caller:
        own = uid in (os.getuid(), 0)
        if not own and not self._shared:
            raise ForbiddenError(
                "this daemon serves only the user it runs as",
                hint="a shared daemon is started with `anycard up --shared`",
            )
        return Caller(uid, gid, user_name(uid), own)

    def _check_token(self, header: str) -> None:
        kind, _, token = header.partition(" ")
        try:
            known = self._token_file.read_text().strip()
        except FileNotFoundError:
            known = ""
        if kind.lower() != "bearer" or not known or not hmac.compare_digest(known, _digest(token)):
            raise ForbiddenError(
                "a valid token is needed over TCP",
                hint="send `Authorization: Bearer TOKEN`; `anycard up --port` prints one",
            )

    def _check_origin(self, request: Request) -> None:
        """A page of another site must not reach us through the visitor's browser (DNS rebinding, CSRF)."""
        host = _host_of("//" + request.headers.get("host", ""))
        if host not in _LOOPBACK:
            raise ForbiddenError(
                "requests for the host {host} are not answered",
                hint="use 127.0.0.1 or localhost",
                host=request.headers.get("host", ""),
            )
        origin = request.headers.get("origin")
        if origin is not None and _host_of(origin) not in _LOOPBACK:
            raise ForbiddenError("requests from {origin} are not answered", origin=origin)


def _token_of(file: Path) -> str:
    try:
        with file.open() as opened:
            open_to_all = stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & 0o007
            token = opened.read(10_000).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError("the token of {file} cannot be read: {why}", file=file, why=why) from None
    if open_to_all:
        raise UsageError("{file} may be read by everybody, and it holds a token", hint="chmod o= {file}", file=file)
    if len(token) < _TOKEN_LEAST or not token.isascii() or len(token.split()) != 1:
        raise UsageError(
            "{file} holds no token: it must be one word of at least {least} characters", file=file, least=_TOKEN_LEAST
        )
    return token


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


@functools.lru_cache(maxsize=1000)
def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
