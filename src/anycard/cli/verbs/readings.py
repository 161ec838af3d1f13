"""readings: cards over time, as the daemon kept them: a summary, CSV with nvidia-smi's columns, or JSON."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from anycard.api.client import Json
from anycard.cli import options
from anycard.cli.cardtable import number_of
from anycard.cli.output import document, note, safe, say, sentence
from anycard.cli.readingscsv import csv_lines
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.errors import NotFoundError, UsageError
from anycard.i18n import N_, _
from anycard.units import format_bytes, format_duration

MORE = N_(
    "The last ten minutes unless told. What is older than ten minutes is kept as means of 10 seconds for a day, of a minute for a week, of "
    "ten minutes for a month."
)


def readings(
    card: Annotated[
        list[str] | None,
        typer.Option("--card", metavar="CARD", help=_("Only this card: its id, or its name such as nvidia0")),
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="JOB", help=_("The cards of this job, from its start to its end"))
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help=_("From then on: 30m, 2h (ago), or a time"))
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help=_("Up to then; now unless told"))] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="LENGTH", help=_("A row for so long, such as 10s or 5m"))
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help=_("Print CSV with the columns of nvidia-smi --query-gpu"))] = False,
    json: options.Json = False,
) -> int:
    if csv and json:
        raise UsageError("either --csv or --json, not both")
    client = session.client()
    step_s = options.seconds(step, "--step") if step is not None else None
    if step_s is not None and step_s < 1:
        raise UsageError("--step: {text} is less than a second", text=step)
    cards = client.cards()["cards"]
    if job is not None:
        if card or since or until:
            raise UsageError("--job says which cards and which time already", hint="leave --card, --since and --until")
        seen = client.job_readings(job, step=step_s)
    else:
        chosen = [_find(cards, word) for word in card] if card else None
        seen = client.readings(
            cards=chosen, since=_moment(since, "--since"), until=_moment(until, "--until"), step=step_s
        )
    if json:
        document(seen)
        return 0
    if csv:
        for text in csv_lines(cards, seen, named=bool(card)):
            say(text)
        return 0
    for text in table(_head(), [_row(cards, series) for series in seen["cards"]], right=frozenset(range(1, 8))):
        say(text)
    for mark in seen["marks"]:
        at = datetime.fromisoformat(mark["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        say(f"{at}  {safe(mark['card'] or '')}  {sentence(mark['text_msgid'], mark['text_params'])}")
    if sys.stdout.isatty():
        note(_("A row stands for {length}; --csv and --json print them all.", length=format_duration(seen["step_s"])))
    return 0


def _head() -> list[str]:
    return [
        _("CARD"), _("BUSY"), _("IDLE"), _("MEMORY"), _("PEAK"), _("TEMP"), _("POWER"), _("SLOWED"), _("LOOKS"),
    ]  # fmt: skip


def _row(cards: list[Json], series: Json) -> list[str]:
    """One card over the whole time: means, and what is worst."""
    total = _highest(series["memory_total_bytes"])
    idle = [share for share in series["utilisation"] or () if share is not None]
    return [
        safe(series["card"]),
        _percent(_mean(series["utilisation"])),
        _percent(sum(share < 0.01 for share in idle) / len(idle) if idle else None),
        format_bytes(None if total is None else round(total)),
        format_bytes(None if (peak := _highest(series["memory_peak_bytes"])) is None else round(peak)),
        _unit(_highest(series["temperature_peak_c"]), "°C"),
        _unit(_mean(series["power_w"]), " W"),
        _percent(_mean(series["throttled"])),
        str(len(series["times"])),
    ]


def _mean(values: list[float | None] | None) -> float | None:
    seen = [value for value in values or () if value is not None]
    return sum(seen) / len(seen) if seen else None


def _highest(values: list[float | None] | None) -> float | None:
    return max((value for value in values or () if value is not None), default=None)


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share * 100:.0f} %"


def _unit(value: float | None, unit: str) -> str:
    return "?" if value is None else f"{value:.0f}{unit}"


def _find(cards: list[Json], word: str) -> str:
    """The id of the card that is meant: by id, UUID, PCI address, or vendor and index (of a MIG instance nvidia0:1). One that is gone may
    be named by its id."""
    for card in cards:
        number = number_of(card, cards)
        names = (card["id"], card["uuid"], card["pci_address"], f"{card['vendor']}{number}")
        if word in names or word == f"{card['vendor']}:{number}":
            return str(card["id"])
    if ":" in word:
        return word
    raise NotFoundError(
        "there is no card {card}",
        hint="`anycard cards` lists them; {known} are here",
        card=word,
        known=", ".join(str(card["id"]) for card in cards),
    )


def _moment(text: str | None, option: str) -> str | None:
    """A length of time ago, or a time; without a zone it is one of this machine's clock."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago = options.seconds(text, option)
        except UsageError as wrong:
            raise UsageError(
                "{option}: {text} is no time; write 30m, 2h (ago) or 2026-11-30T17:20:05Z", option=option, text=text
            ) from wrong
        moment = datetime.fromtimestamp(max(0.0, datetime.now(UTC).timestamp() - ago), UTC)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
