"""What a job takes along to a rented place, as quote and advise are told it: environment, data in, kept and out."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import typer

from anycard.cli.placing import length
from anycard.cli.sizingwords import decimal
from anycard.i18n import _
from anycard.jobs.places import Luggage

Setup = Annotated[str | None, typer.Option("--setup", metavar="LENGTH", help=_("Making the environment, such as 5m"))]
DownloadGb = Annotated[str | None, typer.Option("--download-gb", metavar="N", help=_("Data and models fetched first"))]
StorageGb = Annotated[str | None, typer.Option("--storage-gb", metavar="N", help=_("Disk kept for the job"))]
Kept = Annotated[str | None, typer.Option("--kept", metavar="LENGTH", help=_("The disk is kept so long afterwards"))]
OutGb = Annotated[str | None, typer.Option("--out-gb", metavar="N", help=_("Results taken out"))]


def luggage(
    setup: str | None, download_gb: str | None, storage_gb: str | None, kept: str | None, out_gb: str | None
) -> Luggage:
    """Raises UsageError for what is no length or no amount."""
    return Luggage(
        setup_s=0 if setup is None else round(length(setup, "--setup")),
        download_gb=decimal(download_gb, "--download-gb") or Decimal(0),
        storage_gb=decimal(storage_gb, "--storage-gb") or Decimal(0),
        stopped_s=0 if kept is None else round(length(kept, "--kept")),
        data_out_gb=decimal(out_gb, "--out-gb") or Decimal(0),
    )
