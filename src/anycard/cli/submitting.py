"""From the arguments of ``run`` and ``submit`` to a submission."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from anycard.api.client import Client, Json
from anycard.api.submission import submission
from anycard.cli.output import note, safe, sentence
from anycard.cli.session import session
from anycard.errors import UsageError
from anycard.i18n import _


def build(file: str | None, name: str | None, env: Sequence[str], options: dict[str, Any]) -> Json:
    """The body to submit; what stands after ``--`` is the command. UsageError for a wrong combination."""
    given = dict(_variable(word) for word in env)
    if file is not None and session.command:
        raise UsageError("give a job file or a command after --, not both")
    if session.command:
        return submission(command=session.command, name=name, options=options, given=given)
    if file is None:
        raise UsageError("nothing to run", hint="anycard run FILE, or anycard run -- COMMAND")
    if file == "-":
        return submission("<stdin>", text=_standard_input(), name=name, options=options, given=given)
    return submission(file, name=name, options=options, given=given)


def submit(client: Client, body: Json) -> Json:
    """Submits; says on stderr which keys of the file mean nothing here and what else to know."""
    answer = client.submit_body(body)
    if answer.get("ignored"):
        note(_("ignored, as it means nothing here: {keys}", keys=safe(", ".join(answer["ignored"]))))
    for warning in answer.get("warnings") or ():
        told = sentence(warning["msgid"], warning.get("params")) if isinstance(warning, dict) else safe(warning)
        note(_("warning: {text}", text=told))
    return answer


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name.isidentifier():
        raise UsageError("--env: {word} is not NAME=VALUE", word=word)
    if equals:
        return name, value
    passed = os.environ.get(name)
    if passed is None:
        raise UsageError("--env: {name} is not set here", hint="write --env {name}=VALUE", name=name)
    return name, passed


def _standard_input() -> str:
    if sys.stdin.isatty():
        raise UsageError("standard input is the terminal; - expects a job file there")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as binary:
        raise UsageError(
            "{file} is not a text file in UTF-8 (byte {position})", file="-", position=binary.start
        ) from binary
