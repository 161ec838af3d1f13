"""`anycard cards --watch`: a second's readings of every card, from the daemon or, where none runs, by looking here."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from anycard.api.client import Client, Json
from anycard.cli.cardtable import short_name
from anycard.cli.output import line, safe, say, sentence
from anycard.cli.tables import table, width
from anycard.i18n import _, words
from anycard.units import format_bytes

_BAR_COLUMNS = 10
_HOT, _BUSY = 85.0, 0.9
_MODEL, _ELASTIC = 1, (1, 7, 8)  # columns: left out on a narrow screen; cut where there is no room
_WIDE = 110


def of_daemon(client: Client, every_s: float) -> Iterator[tuple[Sequence[Json], Json]]:
    """(cards, tick), again and again."""
    after: str | None = None
    while True:
        tick = client.live(after=after)
        if tick["at"] is not None:
            yield client.cards()["cards"], tick
            time.sleep(max(0.0, every_s - 1.0))
        after = tick["at"] or "1970-01-01T00:00:00Z"


def of_this_process(every_s: float) -> Iterator[tuple[Sequence[Json], Json]]:
    """As ``of_daemon``, without one: nobody knows then whose a program is."""
    from anycard.cards.probe import probe
    from anycard.cards.readings import reader_of
    from anycard.cards.readings.sampler import Sampler
    from anycard.cards.readings.views import tick_json
    from anycard.cards.views import card_json
    from anycard.host.clock import now
    from anycard.host.live import LiveHost

    host = LiveHost()
    inventory = probe(host, time_limit_s=3.0)
    sampler = Sampler(lambda vendor: reader_of(vendor, host), lambda tick: None)
    sampler.watch({card.vendor for card in inventory.cards})
    cards = [card_json(card) for card in inventory.cards]
    sampler.tick(now())  # the CPU's utilisation takes two looks
    while True:
        time.sleep(every_s)
        yield cards, tick_json(sampler.tick(now()))


def show_lines(ticks: Iterator[tuple[Sequence[Json], Json]], *, as_json: bool) -> int:
    """A line a card and tick, or the tick as a JSON line."""
    headed = False
    with suppress(KeyboardInterrupt):
        for cards, tick in ticks:
            if as_json:
                line(tick)
                continue
            at = datetime.fromisoformat(tick["at"]).astimezone().strftime("%H:%M:%S")
            for number, text in enumerate(table(head(), rows(cards, tick))):
                if number > 0 or not headed:  # once is enough for whoever reads on
                    say(f"{at}  {text}")
            headed = True
            for text in silent_lines(tick):
                say(f"{at}  {text}")
            sys.stdout.flush()  # so that whoever reads the pipe has each tick when it is made
    return 0


def show_live(ticks: Iterator[tuple[Sequence[Json], Json]]) -> int:
    """A table that is redrawn in place, until Ctrl-C."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    console = Console()
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=False) as live:
        for cards, tick in ticks:
            drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
            told = rows(cards, tick)
            shown = [at for at in range(len(head())) if at != _MODEL or console.width >= _WIDE]
            for at in shown:
                widest = max(width(text) for text in (head()[at], *(row[at] for row in told)))
                drawn.add_column(
                    head()[at], no_wrap=True, overflow="ellipsis", min_width=None if at in _ELASTIC else widest
                )
            for row, reading in zip(told, _by_card(cards, tick), strict=True):
                drawn.add_row(*(Text(row[at], style=_style(at, reading)) for at in shown))
            silent = [Text(text, style="yellow") for text in silent_lines(tick)]
            live.update(Group(drawn, *silent), refresh=True)
    return 0


def _style(column: int, reading: Json | None) -> str:
    if reading is None:
        return "dim"
    busy, degrees = reading["utilisation"], reading["temperature_c"]
    if column == 2 and busy is not None:
        return "green" if busy >= _BUSY else ""
    if column == 4 and degrees is not None and degrees >= _HOT:
        return "red"
    return "yellow" if column == 7 else ""


# ---- the table


def head() -> list[str]:
    return [
        _("CARD"),
        _("MODEL"),
        _("BUSY"),
        _("MEMORY"),
        _("TEMP"),
        _("POWER"),
        _("CLOCK"),
        _("SLOWED BY"),
        _("PROGRAMS"),
    ]


def rows(cards: Sequence[Json], tick: Json) -> list[list[str]]:
    uses: dict[str, list[Json]] = {}
    for use in tick["uses"]:
        uses.setdefault(use["card"], []).append(use)
    return [
        _row(card, cards, reading, uses.get(card["id"], []))
        for card, reading in zip(cards, _by_card(cards, tick), strict=True)
    ]


def _by_card(cards: Sequence[Json], tick: Json) -> list[Json | None]:
    readings: Mapping[str, Json] = {reading["card"]: reading for reading in tick["readings"]}
    return [readings.get(card["id"]) for card in cards]


def _row(card: Json, cards: Sequence[Json], reading: Json | None, uses: Sequence[Json]) -> list[str]:
    name = card["id"] if card["id"] == card["vendor"] else short_name(card, cards)
    if reading is None:
        health = "" if card["health"] == "ok" else words.health(card["health"])
        return [safe(name), safe(card["model"]), "?", "?", "?", "?", "?", health, ""]
    total = reading["memory_total_bytes"] or card["memory_bytes"]
    return [
        safe(name),
        safe(card["model"]),
        bar(reading["utilisation"]),
        f"{format_bytes(reading['memory_used_bytes'])} / {format_bytes(total)}",
        _unit(reading["temperature_c"], "°C"),
        _unit(reading["power_w"], " W"),
        _unit(reading["clock_mhz"], " MHz"),
        " ".join(reading["throttle_reasons"] or ()),
        " ".join(_program(use) for use in uses),
    ]


def _program(use: Json) -> str:
    who = words.place(use) if use["job"] is not None else f"{use['pid']}"
    return f"{who} ({format_bytes(use['memory_bytes'])})"


def bar(share: float | None) -> str:
    """``█████·····  50 %``."""
    if share is None:
        return "?"
    full = round(share * _BAR_COLUMNS)
    return f"{'█' * full}{'·' * (_BAR_COLUMNS - full)} {share * 100:3.0f} %"


def _unit(value: float | None, unit: str) -> str:
    return "?" if value is None else f"{value:.0f}{unit}"


def silent_lines(tick: Json) -> list[str]:
    """Who does not answer: the values of its cards are unknown."""
    return [
        sentence(silent["why_msgid"], silent["why_params"])
        if silent["why_msgid"]
        else _("Reading {vendor} cards does not end: their values are unknown since.", vendor=safe(silent["reader"]))
        for silent in tick["silent"]
    ]
