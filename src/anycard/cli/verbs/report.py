"""report: what a job made of its cards, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from anycard.api.client import Json
from anycard.cli import options
from anycard.cli.output import document, safe, say, sentence
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.i18n import N_, _, words
from anycard.units import format_bytes, format_duration

MORE = N_("Of a running job: so far.")
_STRETCHES = 3
_CAUSES = {
    "cpu-bound": N_("the CPU worked"),
    "storage-bound": N_("data came from storage"),
    "waiting": N_("the CPU idled, too"),
}


def report(
    job: Annotated[str, typer.Argument(metavar="JOB", help=_("Number or name"))], json: options.Json = False
) -> int:
    told = session.client().report(job)
    if json:
        document(told)
        return 0
    say(
        _(
            "{subject}: {text}",
            subject=words.title({"id": told["job"], "name": told["name"]}),
            text=words.state(told["state"]),
        )
    )
    if told["cards"]:
        head = [_("CARD"), _("HELD"), _("BUSY"), _("IDLE"), _("MEMORY"), _("SLOWED"), _("HOTTEST"), _("POWER")]
        for line in table(head, [_row(card) for card in told["cards"]]):
            say(line)
    if told["cpu_cores"] is not None:
        say(_("CPUs: {cores} of {cpus} busy", cores=f"{told['cpu_cores']:.1f}", cpus=f"{told['cpus']:.3g}"))
    for found in told["findings"]:
        say()
        for line in _finding(found, told):
            say(line)
    return 0


def _row(card: Json) -> list[str]:
    peak = card["memory_peak_bytes"]
    memory = "-" if peak is None else f"{format_bytes(peak)} / {format_bytes(card['memory_total_bytes'])}"
    heat, power = card["temperature_peak_c"], card["power_w"]
    return [
        safe(card["name"] or card["card"]),
        format_duration(card["held_s"]),
        _percent(card["utilisation"]),
        _percent(card["idle_share"]),
        memory,
        _percent(card["throttled_share"]),
        "-" if heat is None else f"{heat:.0f} °C",
        "-" if power is None else f"{power:.0f} W",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _finding(found: Json, told: Json) -> Iterator[str]:
    others = len(found["cards"]) - 1
    more = _(" (and of {count} more cards)", count=others) if others > 0 else ""
    yield f"* {sentence(found['msgid'], found['params'])}{more}"
    if found["kind"] in _CAUSES:
        yield from _when(found, told)
    if found["advice_msgid"]:
        yield f"  {sentence(found['advice_msgid'], found['advice_params'])}"


def _when(found: Json, told: Json) -> Iterator[str]:
    """The longest stretches of it, by how long after the job's start."""
    card = next(card for card in told["cards"] if card["card"] == found["cards"][0])
    began = datetime.fromisoformat(told["since"])
    mine = [
        [(datetime.fromisoformat(one[end]) - began).total_seconds() for end in ("since", "until")]
        for one in card["idle_stretches"]
        if one["cause"] == found["kind"]
    ]
    longest = sorted(sorted(mine, key=lambda pair: pair[0] - pair[1])[:_STRETCHES])
    if longest:
        spans = _(", ").join(f"{format_duration(since)} - {format_duration(until)}" for since, until in longest)
        yield "  " + _("longest, by the time since its start: {spans}", spans=spans)
