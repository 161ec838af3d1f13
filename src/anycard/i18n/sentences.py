"""Sentences for any face, translated and filled, with what strangers wrote in them made harmless."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from anycard.i18n import _, show


def safe(text: object) -> str:
    """``text`` on one line, with whatever could steer a terminal written out (``\\x1b``): names and reasons come from strangers."""
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(char if _harmless(char) else _escaped(char) for char in raw)


def _harmless(char: str) -> bool:
    """Python calls control, format (also what reorders text), separator and unassigned characters unprintable; of these only blanks
    stay."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def sentence(msgid: str, params: Mapping[str, Any] | None = None) -> str:
    """``msgid`` translated and filled, its params made safe."""
    fields: dict[str, Any] = {
        name: value if isinstance(value, int | float) else safe(value) for name, value in (params or {}).items()
    }
    if "state" in fields:  # by convention a state's slug, never a person's words
        fields["state"] = show(str(fields["state"]))
    return show(msgid, fields)


def fault_line(fault: Mapping[str, Any]) -> str:
    """``file:line:col: message (nearest: ...)``, as editors and people read it."""
    place = ":".join(safe(fault[part]) for part in ("file", "line", "column") if fault.get(part))
    msgid = fault.get("msgid")
    text = sentence(msgid, fault.get("params")) if msgid else safe(fault.get("message", ""))
    nearest = fault.get("nearest")
    meant = _(" (nearest: {spelling})", spelling=safe(nearest)) if nearest else ""
    return f"{place}: {text}{meant}" if place else f"{text}{meant}"
