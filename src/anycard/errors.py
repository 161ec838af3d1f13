"""Errors meant for people: each says what happened and what to do next, and knows its exit code.

Exit codes (docs/cli.md): 1 an item failed or a fault was found; 2 usage or a bad job file; 3 not found or undecided;
124 wait timed out; 125 anycard itself failed.
"""

from __future__ import annotations

from typing import Any


class AnycardError(Exception):
    """Base. ``message`` is an English template (a gettext key) filled from ``params``; ``hint`` likewise says what to do next.

    ``code`` is the stable slug in the API's ``error.code``.
    """

    code = "internal"
    exit_code = 125
    http_status = 500

    faults: tuple[Any, ...] = ()  # of a job file; in a client as the API's JSON

    def __init__(self, message: str, /, *, hint: str | None = None, **params: Any) -> None:
        self.message = message
        self.hint = hint
        self.params = params
        super().__init__(_fill(message, params))

    def to_json(self) -> dict[str, Any]:
        """The API's ``error`` object."""
        return {
            "code": self.code,
            "message": str(self),
            "hint": _fill(self.hint, self.params) if self.hint else None,
            "msgid": self.message,
            "hint_msgid": self.hint,
            "params": {
                name: value if isinstance(value, int | float) else str(value) for name, value in self.params.items()
            },
        }


class UsageError(AnycardError):
    """The request itself is wrong: a bad argument, a bad job file, an impossible demand."""

    code = "usage"
    exit_code = 2
    http_status = 400


class NotFoundError(AnycardError):
    """There is no such job, item, card or file."""

    code = "not-found"
    exit_code = 3
    http_status = 404


class ConflictError(AnycardError):
    """The thing is in a state in which this cannot be done."""

    code = "conflict"
    exit_code = 2
    http_status = 409


class ForbiddenError(AnycardError):
    """It exists, but is someone else's."""

    code = "forbidden"
    exit_code = 2
    http_status = 403


class UnavailableError(AnycardError):
    """anycard cannot do this now (disk full, no daemon, store damaged)."""

    code = "unavailable"
    exit_code = 125
    http_status = 503


def _fill(template: str, params: dict[str, Any]) -> str:
    try:
        return template.format_map(params)
    except (KeyError, IndexError, ValueError):
        return template
