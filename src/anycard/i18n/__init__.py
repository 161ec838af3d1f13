"""Translation for the faces (CLI, page). Pure code returns Text values; logs and JSON stay English."""

from __future__ import annotations

import gettext as _gettext
import os
from collections.abc import Mapping
from pathlib import Path

_LOCALES = Path(__file__).parent / "locales"
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
    _current = _gettext.translation("anycard", _LOCALES, languages=[language], fallback=True)


def language() -> str:
    return _language


def _(msgid: str, **params: object) -> str:
    """``msgid`` in the chosen language, its ``{fields}`` filled from ``params``."""
    text = _current.gettext(msgid) if msgid else msgid
    return text.format_map(params) if params else text
