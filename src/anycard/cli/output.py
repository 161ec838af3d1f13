"""What is written to the person or program that called: text made safe for a terminal, JSON as one document."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any

from anycard.errors import AnycardError
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


def say(text: str = "") -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on stderr: progress, hints, whatever is not the answer itself."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def document(value: Mapping[str, Any]) -> None:
    """The one JSON document on stdout. ASCII, so that no terminal's encoding can spoil it."""
    sys.stdout.write(json.dumps(value, indent=2 if sys.stdout.isatty() else None) + "\n")


def line(value: Mapping[str, Any]) -> None:
    """One of several JSON lines."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def report(error: AnycardError, *, as_json: bool) -> None:
    """Says what went wrong on stderr, and as a JSON document on stdout when the caller asked for JSON."""
    # From the daemon they are the API's JSON already; of a file read here they are what the parser made.
    faults = [fault if isinstance(fault, Mapping) else fault.to_json() for fault in error.faults]
    for fault in faults:
        note(_fault(fault))
    said = _("nothing was submitted") if error.code == "job-file" else sentence(error.message, error.params)
    note(f"anycard: {said}")
    if error.hint:
        note("  " + sentence(error.hint, error.params))
    if as_json:
        document({"schema": "anycard.error/1", "error": error.to_json(), "faults": [dict(fault) for fault in faults]})


def sentence(msgid: str, params: Mapping[str, Any] | None = None) -> str:
    """``msgid`` translated and filled, its params made safe."""
    fields: dict[str, Any] = {
        name: value if isinstance(value, int | float) else safe(value) for name, value in (params or {}).items()
    }
    if "state" in fields:  # by convention a state's slug, never a person's words
        fields["state"] = show(str(fields["state"]))
    return show(msgid, fields)


def _fault(fault: Mapping[str, Any]) -> str:
    """``file:line:col: message (nearest: ...)``, as editors and people read it."""
    place = ":".join(safe(fault[part]) for part in ("file", "line", "column") if fault.get(part))
    msgid = fault.get("msgid")
    text = sentence(msgid, fault.get("params")) if msgid else safe(fault.get("message", ""))
    nearest = fault.get("nearest")
    meant = _(" (nearest: {spelling})", spelling=safe(nearest)) if nearest else ""
    return f"{place}: {text}{meant}" if place else f"{text}{meant}"
