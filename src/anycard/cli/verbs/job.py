"""job: one job with its items."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document
from anycard.cli.session import session
from anycard.cli.summary import print_summary
from anycard.i18n import _


def job(
    job: options.JobRef,
    all_items: Annotated[bool, typer.Option("--all", help=_("List every item, not only the first 20"))] = False,
    json: options.Json = False,
) -> int:
    client = session.client()
    found = client.job(job)
    if json:
        document({**found, "items": list(client.all_items(found["id"]))})
        return 0
    print_summary(client, found, all_items=all_items)
    return 0
