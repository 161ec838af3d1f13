"""logs: the bytes that an item's program wrote, as it wrote them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anycard.api.client import SETUP_ITEM, Client
from anycard.cli import options
from anycard.cli.session import session
from anycard.errors import UsageError
from anycard.i18n import N_, _

_NAMED = 10  # so many failed items are named

MORE = N_("Raw bytes on stdout, of the last attempt unless told.")


def logs(
    job: options.JobRef,
    item: Annotated[int | None, typer.Argument(metavar="ITEM", min=0, help=_("Number of the item"))] = None,
    setup: Annotated[bool, typer.Option("--setup", help=_("The log of the job's setup"))] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help=_("Go on until the attempt is over"))] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", min=1, help=_("Which attempt"))] = None,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help=_("Only the last N lines"))] = None,
) -> int:
    client = session.client()
    ref: int | str = job
    if setup:
        item = SETUP_ITEM
    if item is None:
        found = client.job(job)
        ref, count = found["id"], found["counts"]["items"]
        if count > 1 and not found.get("pruned_at"):  # then no number helps: the daemon says what became of them
            raise _which(client, ref, count)
    for chunk in client.log(ref, item or 0, attempt=attempt, follow=follow, tail=tail):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    return 0


def _which(client: Client, number: int | str, count: int) -> UsageError:
    """Asks for an item; those that failed are what most are looking for."""
    failed = [item["item"] for item in client.items(number, state="failed", limit=_NAMED)["items"]]
    if failed:
        return UsageError(
            "job {job} has {count} items: say which",
            hint="anycard logs {job} {item} (failed: {failed})",
            job=number,
            count=count,
            item=failed[0],
            failed=", ".join(map(str, failed)),
        )
    return UsageError("job {job} has {count} items: say which", hint="anycard logs {job} 0", job=number, count=count)
