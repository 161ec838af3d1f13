"""prune: remove logs and outputs of old jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, say
from anycard.cli.session import session
from anycard.i18n import _
from anycard.units import format_bytes


def prune(
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="LENGTH", help=_("Jobs that ended longer ago than this")),
    ] = "30d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_("Only say what it would free"))] = False,
    json: options.Json = False,
) -> int:
    answer = session.client().prune(older_than_s=options.seconds(older_than, "--older-than"), dry_run=dry_run)
    if json:
        document(answer)
        return 0
    size = format_bytes(answer["freed_bytes"])
    say(_("would free {size}", size=size) if dry_run else _("freed {size}", size=size))
    return 0
