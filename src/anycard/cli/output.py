"""What is written to the person or program that called: sentences for a terminal, JSON as one document."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from anycard.errors import AnycardError
from anycard.i18n import _
from anycard.i18n.sentences import fault_line
from anycard.i18n.sentences import safe as safe
from anycard.i18n.sentences import sentence as sentence


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
        note(fault_line(fault))
    said = _("nothing was submitted") if error.code == "job-file" else sentence(error.message, error.params)
    note(f"anycard: {said}")
    if error.hint:
        note("  " + sentence(error.hint, error.params))
    if as_json:
        document({"schema": "anycard.error/1", "error": error.to_json(), "faults": [dict(fault) for fault in faults]})
