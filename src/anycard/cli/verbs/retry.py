"""retry: queue failed items again."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, say
from anycard.cli.session import session
from anycard.errors import UsageError
from anycard.i18n import _, words


def retry(
    job: options.JobRef,
    items: Annotated[list[int] | None, typer.Argument(metavar="ITEM...", help=_("Numbers of items"))] = None,
    failed: Annotated[bool, typer.Option("--failed", help=_("All that failed"))] = False,
    json: options.Json = False,
) -> int:
    if bool(items) == failed:
        raise UsageError("say which items: their numbers, or --failed", hint="anycard retry {job} --failed", job=job)
    queued = session.client().retry(job, items=items or None)
    if json:
        document(queued)
    else:
        say(words.told(words.title(queued), words.counts(queued["counts"])))
    return 0
