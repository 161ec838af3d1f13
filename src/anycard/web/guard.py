"""What every page request passes before a page sees it: Host, Origin, session, form token; and what every answer carries."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anycard import i18n
from anycard.web.sessions import Session, Sessions

LANGUAGE_COOKIE = "anycard_language"
THEME_COOKIE = "anycard_theme"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OPEN = ("/login", "/assets/", "/look/")  # what begins so is answered without a session
_FORM = "application/x-www-form-urlencoded"
_MAX_FORM_BYTES = 20 * 2**20  # a job file of 16 MiB, some of it escaped

Refusal = Callable[[Scope, int, str], Response]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware. Leaves the session (None without one) and a form's fields in ``scope["state"]``.

    ``refuse(scope, status, why)`` makes the answer to those it does not let in: 403 with why "host", "origin" or "form"; 401 "session";
    413 "size".
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions, cookie: str, names: Iterable[str], refuse: Refusal) -> None:
        self._app = app
        self._sessions = sessions
        self._cookie = cookie
        self._names = frozenset((*LOOPBACK, *names))
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookies = cookie_parser(headers.get("cookie", ""))
        state = scope.setdefault("state", {})
        state["cookies"] = cookies
        state["session"] = session = self._sessions.find(cookies.get(self._cookie, ""))
        i18n.speak(_language(cookies.get(LANGUAGE_COOKIE), headers.get("accept-language", "")))
        why = self._why_not(scope, headers, session)
        if why is None and session is not None and scope["method"] not in ("GET", "HEAD"):  # nobody else's body is read
            fields: dict[str, str] = {}
            if _length(headers) > _MAX_FORM_BYTES:
                await self._refuse(scope, 413, "size")(scope, receive, _with_headers(send, assets=False, close=True))
                return
            if headers.get("content-type", "").startswith(_FORM):
                body = await _read(receive)
                fields = dict(_fields(body))
                receive = _again(body, receive)
            given = headers.get("x-csrf-token") or fields.pop("csrf", "")
            if not hmac.compare_digest(given.encode(), session.csrf.encode()):
                why = "form"
            state["form"] = fields
        answer: ASGIApp = self._app
        if why is not None:
            answer = self._refuse(scope, 401 if why == "session" else 403, why)
        await answer(scope, receive, _with_headers(send, assets=scope["path"].startswith("/assets/")))

    def _why_not(self, scope: Scope, headers: Headers, session: Session | None) -> str | None:
        """A page of another site must not reach us through the visitor's browser (DNS rebinding, CSRF)."""
        host = headers.get("host", "")
        if _name("//" + host) not in self._names:
            return "host"
        if scope["method"] not in ("GET", "HEAD"):
            origin = headers.get("origin")
            if origin is None or _place(origin) != host.lower():
                return "origin"
        if session is None and not scope["path"].startswith(_OPEN):
            return "session"
        return None


def _language(chosen: str | None, accepted: str) -> str:
    """What the visitor chose, else the first language of their browser's that is spoken here."""
    if chosen in ("en", "zh"):
        return chosen
    for part in accepted.lower().split(","):
        tag = part.partition(";")[0].strip()[:2]
        if tag in ("en", "zh"):
            return tag
    return "en"


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _length(headers: Headers) -> int:
    told = headers.get("content-length", "0")
    return int(told) if told.isdigit() else 0


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > _MAX_FORM_BYTES:
            return bytes(body)


def _fields(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return []


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already once more."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send, *, assets: bool, close: bool = False) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if close:
                headers["Connection"] = "close"
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "public, max-age=31536000, immutable" if assets else "no-store")
        await send(message)

    return sent
