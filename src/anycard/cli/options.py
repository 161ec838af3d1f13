"""Arguments that several verbs share. Imported by a verb only, so after the language is known."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anycard.errors import UsageError
from anycard.i18n import _
from anycard.units import parse_duration

Json = Annotated[bool, typer.Option("--json", help=_("Print one JSON document"))]
JobRef = Annotated[str, typer.Argument(metavar="JOB", help=_("A job's number, or its name (the latest of that name)"))]
JobRefs = Annotated[
    list[str], typer.Argument(metavar="JOB...", help=_("Jobs' numbers, or names (the latest of that name)"))
]

File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|-- COMMAND...", help=_("A job file, - for standard input; or nothing, and -- COMMAND")
    ),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help=_("The job's name"))]
Cpus = Annotated[str | None, typer.Option("--cpus", metavar="N", help=_("CPUs for each item, fractions allowed"))]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help=_("Memory for each item, such as 8GB"))]
Accelerators = Annotated[
    str | None,
    typer.Option("--accelerators", "--gpus", metavar="CARD:N", help=_("Cards for each item, such as A100:2 or any:1")),
]
Priority = Annotated[int | None, typer.Option("--priority", metavar="N", help=_("Higher starts first; 0 unless told"))]
Held = Annotated[bool, typer.Option("--hold", help=_("Do not start it before anycard release"))]
TimeLimit = Annotated[
    str | None, typer.Option("--time-limit", metavar="LENGTH", help=_("Longest run time of an attempt, such as 2h"))
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME=VALUE", help=_("Give the program a variable; NAME alone passes it on")),
]


def seconds(text: str, option: str) -> float:
    """A length of time as written for ``option``. UsageError when it is none."""
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise UsageError(
            "{option}: {text} is no length of time; write 90s, 15m, 2h or 7d", option=option, text=text
        ) from wrong


def asked(**options: Any) -> dict[str, Any]:
    """Those of the command line's options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
