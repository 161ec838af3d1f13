"""cancel: end jobs, or one item of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.api.client import Json
from anycard.cli import options
from anycard.cli.each import each_job
from anycard.errors import UsageError
from anycard.i18n import _, words


def cancel(
    jobs: options.JobRefs,
    item: Annotated[
        int | None, typer.Option("--item", metavar="ITEM", min=0, help=_("Only this item of the job"))
    ] = None,
    json: options.Json = False,
) -> int:
    if item is not None and len(jobs) > 1:
        raise UsageError("--item goes with one job")
    return each_job(
        jobs, lambda client, ref: client.cancel(ref, item=item), as_json=json, told=lambda job: _told(job, item)
    )


def _told(job: Json, item: int | None) -> str:
    """What runs is given its grace: the job is still running then, and ``running`` would sound as if nothing had been done."""
    if item is not None:
        return words.told(words.title(job), _("item {item} is cancelled, or ends within its grace", item=item))
    return (
        words.told(words.title(job), words.state("stopping")) if job["state"] not in words.OVER else words.headline(job)
    )
