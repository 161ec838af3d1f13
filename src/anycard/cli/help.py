"""Help pages in the chosen language. Typer prints its own words in English and cuts Chinese at the wrong column, so the page is
written here, from what Typer knows of the command."""

from __future__ import annotations

import re
import shutil
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from anycard.cli.tables import pad, width, wrap
from anycard.i18n import N_, _

_MAX_COLUMNS = 100
_NAME_COLUMNS = 30
# Typer's own words, which come to us in English; N_ puts them into the catalogue.
_SHOW_HELP = N_("Show this message and exit.")
_REQUIRED = N_("[required]")
_DEFAULT = N_("[default: {value}]")
_EXTRAS = re.compile(r"\s*\[(?P<extras>(?:default: |required|x[<>]|[\d.]+<=?x).*)\]$")


def page(command: Any, ctx: typer.Context, commands: list[tuple[str, str]]) -> str:
    """The help page of ``command``; ``commands`` are (verb, what it does in a line)."""
    columns = min(_MAX_COLUMNS, shutil.get_terminal_size().columns)
    pieces = [_("[OPTIONS]"), *([_("COMMAND [ARGS]...")] if commands else [])]
    pieces += [_argument(param) for param in command.get_params(ctx) if param.param_type_name == "argument"]
    lines = [_("Usage: {command} {pieces}", command=ctx.command_path, pieces=" ".join(pieces)), ""]
    for paragraph in (command.help or "").split("\n"):
        lines += [f"  {text}".rstrip() for text in wrap(paragraph, columns - 2)]
    records = {"argument": [], "option": []}  # type: dict[str, list[tuple[str, str]]]
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            name = param.metavar if param.param_type_name == "argument" else record[0]
            records[param.param_type_name].append((name, _words(record[1])))
    lines += _section(_("Arguments"), records["argument"], columns)
    lines += _section(_("Options"), records["option"], columns)
    lines += _section(_("Commands"), commands, columns)
    return "\n".join(lines) + "\n"


def _argument(param: Any) -> str:
    name = str(param.metavar)
    return name if param.required or name.startswith("[") else f"[{name}]"


def _words(text: str) -> str:
    if text == _SHOW_HELP:
        return _(_SHOW_HELP)
    found = _EXTRAS.search(text)
    if found is None:
        return text
    told = [text[: found.start()]]
    for extra in found["extras"].split("; "):  # a range (x>=1) is said where it is broken
        if extra == "required":
            told.append(_(_REQUIRED))
        elif extra.startswith("default: "):
            told.append(_(_DEFAULT, value=extra.removeprefix("default: ").removesuffix(".0")))
    return "  ".join(told)


def _section(title: str, records: list[tuple[str, str]], columns: int) -> list[str]:
    if not records:
        return []
    first = min(_NAME_COLUMNS, max(width(name) for name, _text in records))
    lines = ["", _("{title}:", title=title)]
    for name, text in records:
        wrapped = wrap(text, max(20, columns - first - 4))
        if width(name) > first:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {pad(name, first)}  {wrapped.pop(0)}".rstrip())
        lines += [" " * (first + 4) + more for more in wrapped if more]
    return lines


class Verb(TyperCommand):
    """A verb with its page in the chosen language."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx, []))


class VerbGroup(TyperGroup):
    """The page of all verbs; subclasses say which."""

    def lines(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx, self.lines()))
