"""Translation for the faces (CLI, page). Pure code returns Text values; logs and JSON stay English."""

from __future__ import annotations

import functools
import gettext as _gettext
import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path

LOCALES = Path(__file__).parent / "locales"
_current: _gettext.NullTranslations = _gettext.NullTranslations()
_language = "en"
_spoken: ContextVar[str | None] = ContextVar(
    "spoken", default=None
)  # in answer to this request: the page speaks to many at once


def choose(flag: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """``"zh"`` or ``"en"``: the flag, else ANYCARD_LANG, else the locale variables in their POSIX order."""
    env = os.environ if environ is None else environ
    for value in (flag, env.get("ANYCARD_LANG"), env.get("LC_ALL"), env.get("LC_MESSAGES"), env.get("LANG")):
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def use(language: str) -> None:
    """Sets the language of this process's face."""
    global _current, _language
    _language = language
    _current = _catalogue(language)


def speak(language: str) -> None:
    """Sets the language for the rest of this task (a request), whatever the process's is."""
    _spoken.set(language)


def language() -> str:
    return _spoken.get() or _language


@functools.cache
def _catalogue(language: str) -> _gettext.NullTranslations:
    return _gettext.translation("anycard", LOCALES, languages=[language], fallback=True)


def _translated(msgid: str) -> str:
    spoken = _spoken.get()
    catalogue = _current if spoken is None else _catalogue(spoken)
    return catalogue.gettext(msgid) if msgid else msgid


def _(msgid: str, /, **params: object) -> str:
    """``msgid`` in the chosen language, its ``{fields}`` filled from ``params``."""
    text = _translated(msgid)
    return text.format_map(params) if params else text


def N_(msgid: str) -> str:
    """Marks ``msgid`` for the catalogues without translating it here: it is translated where it is shown."""
    return msgid


def show(msgid: str, params: Mapping[str, object] | None = None) -> str:
    """A sentence that came from elsewhere (an error, a reason) in the chosen language. A template that does not match its params is shown
    bare, never an exception."""
    template = _translated(msgid)
    try:
        return template.format_map(params or {})
    except (KeyError, IndexError, ValueError, AttributeError):
        return template


def show_in(language: str, msgid: str, params: Mapping[str, object] | None = None) -> str:
    """As ``show``, for a reader whose language is not this process's: a message that goes to somebody else."""
    template = _catalogue(language).gettext(msgid) if msgid else msgid
    try:
        return template.format_map(params or {})
    except (KeyError, IndexError, ValueError, AttributeError):
        return template
