"""backup: a consistent copy of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, safe, say
from anycard.cli.session import session
from anycard.i18n import _
from anycard.units import format_bytes


def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_("Where to write it"))], json: options.Json = False
) -> int:
    answer = session.client().backup(Path.cwd() / file)
    if json:
        document(answer)
    else:
        say(_("{path}, {size}", path=safe(answer["path"]), size=format_bytes(answer["bytes"])))
    return 0
