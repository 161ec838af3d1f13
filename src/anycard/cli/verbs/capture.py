"""capture: a bundle that shows this machine's hardware to another person."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say, sentence
from anycard.i18n import N_, _
from anycard.units import format_bytes

MORE = N_(
    "Names of people and machines, addresses, serial numbers and secrets are removed. Needs no daemon. Look into it before you send it."
)


def capture(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_("Where to write it, such as capture.tar.gz"))],
    json: options.Json = False,
) -> int:
    from anycard.host.capture import capture as write

    summary = write(file)
    if json:
        fields = {**asdict(summary), "path": str(summary.path), "notes": [text.to_json() for text in summary.notes]}
        document({"schema": "anycard.captured/1", **fields})
        return 0
    for text in summary.notes:
        note(sentence(text.msgid, text.params))
    say(_("{path}, {size}", path=safe(summary.path), size=format_bytes(summary.size_bytes)))
    return 0
