"""cancel: end jobs, or one item of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.each import each_job
from anycard.errors import UsageError
from anycard.i18n import _


def cancel(
    jobs: options.JobRefs,
    item: Annotated[
        int | None, typer.Option("--item", metavar="ITEM", min=0, help=_("Only this item of the job"))
    ] = None,
    json: options.Json = False,
) -> int:
    if item is not None and len(jobs) > 1:
        raise UsageError("--item goes with one job")
    return each_job(jobs, lambda client, ref: client.cancel(ref, item=item), as_json=json)
