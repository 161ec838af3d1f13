"""Translation for the faces (CLI, page). Pure code returns Text values; logs and JSON stay English."""

from __future__ import annotations

import gettext as _gettext
import os
from collections.abc import Mapping
from pathlib import Path

LOCALES = Path(__file__).parent / "locales"
_current: _gettext.NullTranslations = _gettext.NullTranslations()
_language = "en"


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
    _current = _gettext.translation("anycard", LOCALES, languages=[language], fallback=True)


def language() -> str:
    return _language


def _(msgid: str, /, **params: object) -> str:
    """``msgid`` in the chosen language, its ``{fields}`` filled from ``params``."""
    text = _current.gettext(msgid) if msgid else msgid
    return text.format_map(params) if params else text


def N_(msgid: str) -> str:
    """Marks ``msgid`` for the catalogues without translating it here: it is translated where it is shown."""
    return msgid


def show(msgid: str, params: Mapping[str, object] | None = None) -> str:
    """A sentence that came from elsewhere (an error, a reason) in the chosen language. A template that does not match its params is shown
    bare, never an exception."""
    template = _current.gettext(msgid) if msgid else msgid
    try:
        return template.format_map(params or {})
    except (KeyError, IndexError, ValueError, AttributeError):
        return template
