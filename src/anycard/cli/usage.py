"""A wrong command line, said in the chosen language: Typer's messages are English and name no nearest spelling."""

from __future__ import annotations

import difflib
import re
from typing import Any

from anycard.errors import UsageError
from anycard.i18n import N_

_FORMS = (
    (r"No such command '(?P<word>.*)'\.?$", N_("there is no command {word}")),
    (r"No such option: (?P<word>\S+)(?: .*)?$", N_("there is no option {word}")),
    (r"Got unexpected extra argument(?:s|\(s\))? \((?P<word>.*)\)$", N_("too many arguments: {word}")),
    (r"Missing argument '(?P<word>.*)'\.$", N_("argument {word} is missing")),
    (r"Missing option '(?P<word>.*)'\.$", N_("option {word} is missing")),
    (r"Missing command\.$", N_("a command is missing")),
    (r"Invalid value for '(?P<word>.*?)': (?P<why>.*)$", N_("{word}: {why}")),
    (r"Option '(?P<word>.*)' requires an argument\.?$", N_("option {word} needs a value")),
    (r"Option '(?P<word>.*)' does not take a value\.?$", N_("option {word} takes no value")),
)
_HELP = N_("{command} --help lists what there is")
_NEAREST = N_("did you mean {nearest}? {command} --help lists what there is")


def usage_error(error: Any, verbs: tuple[str, ...]) -> UsageError:
    """``error`` (Typer's, whatever class this version of it has) as ours, with the nearest spelling where there is one."""
    text = str(error.format_message()).split("\n")[0]
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "anycard"
    for pattern, message in _FORMS:
        found = re.match(pattern, text)
        if found:
            return _with_hint(message, found.groupdict(), command, _spellings(ctx, message, verbs))
    return UsageError("{text}", hint=_HELP, text=text, command=command)


def _with_hint(message: str, fields: dict[str, str], command: str, spellings: list[str]) -> UsageError:
    near = difflib.get_close_matches(fields.get("word", ""), spellings, n=1)
    if near:
        return UsageError(message, hint=_NEAREST, nearest=near[0], command=command, **fields)
    return UsageError(message, hint=_HELP, command=command, **fields)


def _spellings(ctx: Any, message: str, verbs: tuple[str, ...]) -> list[str]:
    if "{word}" in message and "command" in message:
        return list(verbs)
    if ctx is None or "option" not in message:
        return []
    return [option for param in ctx.command.get_params(ctx) for option in param.opts if option.startswith("-")]
