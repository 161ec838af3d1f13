"""From the arguments of ``run`` and ``submit`` to a submission."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anycard.api.client import Client, Json
from anycard.api.submission import submission
from anycard.cli.output import note, safe, sentence
from anycard.cli.session import session
from anycard.errors import UsageError
from anycard.i18n import _, words

_INTERPRETERS = {".py": "python3", ".sh": "sh", ".bash": "bash"}
JOB_FILE_ENDINGS = (".yaml", ".yml")


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
    _no_program(file)
    return submission(file, name=name, options=options, given=given)


def _no_program(file: str) -> None:
    """UsageError for a script or program where a job file belongs: the faults of its "YAML" would help nobody."""
    words = program_words(file)
    if words is not None:
        raise UsageError(
            "{file} is a program, not a job file",
            hint="anycard run -- {command}",
            file=file,
            command=shlex.join(words),
        )


def program_words(file: str) -> tuple[str, ...] | None:
    """How ``file`` is run, when it is a script or a program and no job file."""
    by_ending = _INTERPRETERS.get(Path(file).suffix)
    if by_ending is not None and Path(file).is_file():
        return by_ending, file
    if _begins_as_program(file):
        return (os.path.join(".", file),)  # noqa: PTH118  Path drops the ./
    return None


def _begins_as_program(file: str) -> bool:
    """Whether it begins as a script or an executable does. A job file may begin with #! too, but is called so."""
    if Path(file).suffix in JOB_FILE_ENDINGS:
        return False
    try:
        with Path(file).open("rb") as opened:
            return opened.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:  # what is wrong with it is said where it is read
        return False


def submit(client: Client, body: Json) -> Json:
    """Submits; says on stderr which keys of the file mean nothing here and what else to know."""
    answer = client.submit_body(body)
    if answer.get("ignored"):
        note(_("ignored, as it means nothing here: {keys}", keys=safe(", ".join(answer["ignored"]))))
    for warning in answer.get("warnings") or ():
        told = sentence(warning["msgid"], warning.get("params")) if isinstance(warning, dict) else safe(warning)
        note(_("warning: {text}", text=told))
    for job in answer["jobs"]:
        fit = job.get("fit")
        if fit:
            told = words.reason({"reason_msgid": fit["msgid"], "reason_params": fit["params"]})
            note(told if fit["fit"] == "fits" else _("warning: {text}", text=told))
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
