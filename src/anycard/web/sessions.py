"""Who looks at the page: a one-time code from `anycard up` becomes a session, a session is known by its cookie. Only hashes are kept."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anycard.jobs.files import write_private

if TYPE_CHECKING:
    from anycard.jobs.caller import Caller

log = logging.getLogger("anycard.web")

CODE_S = 900.0  # a login link is good for so long, and once
SESSION_S = 30 * 86_400.0
_MANY_CODES, _MANY_SESSIONS = 100, 1000  # the oldest goes first


@dataclass(frozen=True, slots=True)
class Session:
    """A caller who logged in. ``csrf`` stands in every form of theirs; ``ends_at`` is UTC seconds."""

    uid: int
    gid: int
    user: str
    admin: bool
    csrf: str
    ends_at: float


class Sessions:
    """``now`` gives UTC seconds. Sessions outlive a restart of the daemon in ``file`` (0600); codes do not."""

    def __init__(self, file: Path, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now
        self._codes: dict[str, tuple[Caller, float]] = {}
        self._sessions = _read(file)

    def code(self, caller: Caller) -> str:
        """A one-time code by which ``caller`` may log in within CODE_S seconds."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = (caller, self._now() + CODE_S)
        while len(self._codes) > _MANY_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> str | None:
        """The cookie's value of a new session; None for a code that is wrong, used or too old."""
        caller, until = self._codes.pop(_digest(code), (None, 0.0))
        if caller is None or until < self._now():
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = Session(
            caller.uid, caller.gid, caller.user, caller.admin, secrets.token_urlsafe(24), self._now() + SESSION_S
        )
        self._keep()
        return cookie

    def find(self, cookie: str) -> Session | None:
        session = self._sessions.get(_digest(cookie))
        return session if session is not None and session.ends_at > self._now() else None

    def end(self, cookie: str) -> None:
        if self._sessions.pop(_digest(cookie), None) is not None:
            self._keep()

    def _keep(self) -> None:
        now = self._now()
        alive = [(key, session) for key, session in self._sessions.items() if session.ends_at > now]
        self._sessions = dict(alive[-_MANY_SESSIONS:])
        try:
            write_private(
                self._file, json.dumps({key: asdict(session) for key, session in self._sessions.items()}).encode()
            )
        except OSError as error:
            log.warning("page sessions are not kept, a restart will end them: %s", error)


def _read(file: Path) -> dict[str, Session]:
    try:
        return {key: Session(**kept) for key, kept in json.loads(file.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("page sessions in %s cannot be read, everybody logs in again: %s", file, error)
        return {}


def _digest(secret: str) -> str:
    """Secrets here are long and random: a plain hash is enough, and looking one up by it leaks nothing of its bytes."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
