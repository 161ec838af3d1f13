"""A wrong command line, said in the chosen language: Typer's messages are English and name no nearest spelling."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anycard.cli.submitting import JOB_FILE_ENDINGS, program_words
from anycard.errors import UsageError
from anycard.i18n import N_

_EXTRA = N_("too many arguments: {word}")
_NO_COMMAND = N_("there is no command {word}")
_NO_OPTION = N_("there is no option {word}")
_FORMS = (
    (r"No such command '(?P<word>.*)'\.?$", _NO_COMMAND),
    (r"No such option: (?P<word>\S+)(?: .*)?$", _NO_OPTION),
    (r"Got unexpected extra argument(?:s|\(s\))? \((?P<word>.*)\)$", _EXTRA),
    (r"Missing argument '(?P<word>.*)'\.$", N_("argument {word} is missing")),
    (r"Missing option '(?P<word>.*)'\.$", N_("option {word} is missing")),
    (r"Missing command\.$", N_("a command is missing")),
    (r"Invalid value for '(?P<word>.*?)': (?P<why>.*)$", N_("{word}: {why}")),
    (r"Option '(?P<word>.*)' requires an argument\.?$", N_("option {word} needs a value")),
    (r"Option '(?P<word>.*)' does not take a value\.?$", N_("option {word} takes no value")),
)
_OF_COMMANDS = ("run", "submit")  # verbs that take a command after --
_STOP = N_("anycard cancel JOB ends a job, anycard down ends the daemon")
_COMMAND_HINT = N_("to run a command, put -- before it: {call}")
_HELP = N_("{command} --help lists what there is")
_NEAREST = N_("did you mean {nearest}? {command} --help lists what there is")


def usage_error(error: Any, verbs: tuple[str, ...], words: Sequence[str]) -> UsageError:
    """``error`` (Typer's, whatever class this version of it has) as ours, with the nearest spelling where there is one. ``words``: the verb
    and what follows it, without the global options."""
    text = str(error.format_message()).split("\n")[0]
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "anycard"
    for pattern, message in _FORMS:
        found = re.match(pattern, text)
        if found:
            if message in (_EXTRA, _NO_OPTION) and ctx is not None and ctx.info_name in _OF_COMMANDS:
                call = _as_command(ctx, words[1:])
                if call is not None:
                    return UsageError(message, hint=_COMMAND_HINT, call=call, **found.groupdict())
            return _with_hint(message, found.groupdict(), command, _spellings(ctx, message, verbs))
    return UsageError("{text}", hint=_HELP, text=text, command=command)


def _as_command(ctx: Any, words: Sequence[str]) -> str | None:
    """How the call reads as that of a command, where ``--`` was forgotten: its first word was then taken for a job file, and its options
    for ours. None when the first word may well be a job file."""
    options = {option: param for param in ctx.command.get_params(ctx) for option in param.opts}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        option, given, _value = words[at].partition("=")
        if option not in options:
            return None  # the word that is wrong is no part of a command
        at += 1 if given or getattr(options[option], "is_flag", False) else 2
    if at >= len(words):
        return None
    program = program_words(words[at])
    if program is None:
        if words[at] == "-" or Path(words[at]).suffix in JOB_FILE_ENDINGS or Path(words[at]).is_file():
            return None
        program = (words[at],)
    return f"{ctx.command_path} {shlex.join([*words[:at], '--', *program, *words[at + 1 :]])}"


def _with_hint(message: str, fields: dict[str, str], command: str, spellings: list[str]) -> UsageError:
    if message == _NO_COMMAND and fields["word"] in ("stop", "kill"):
        return UsageError(message, hint=_STOP, **fields)
    near = difflib.get_close_matches(fields.get("word", ""), spellings, n=1)
    if near:
        return UsageError(message, hint=_NEAREST, nearest=near[0], command=command, **fields)
    return UsageError(message, hint=_HELP, command=command, **fields)


def _spellings(ctx: Any, message: str, verbs: tuple[str, ...]) -> list[str]:
    if "{word}" in message and "command" in message:
        return list(verbs)
    if ctx is None or "option" not in message or "missing" in message:
        return []
    return [option for param in ctx.command.get_params(ctx) for option in param.opts if option.startswith("-")]
