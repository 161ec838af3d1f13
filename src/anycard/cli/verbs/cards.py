"""cards: this machine's cards, from the daemon when one runs (it knows who holds them), else looked at here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anycard.api.client import Json
from anycard.api.transport import NoDaemonError
from anycard.cli import options
from anycard.cli.cardtable import card_head, card_rows, other_line, problem_lines, topology_lines
from anycard.cli.output import document, note, say
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.i18n import _

_LOOK_S = 2.6  # whatever hangs, the rest is shown 3 s after the command was given


def cards(
    topology: Annotated[bool, typer.Option("--topology", help=_("Show how the cards reach each other"))] = False,
    watch: Annotated[bool, typer.Option("--watch", help=_("Show their readings every second, until Ctrl-C"))] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1, help=_("With --watch: seconds between two looks"))
    ] = 1.0,
    json: options.Json = False,
) -> int:
    if watch:
        return _watch(every, as_json=json)
    try:
        seen = session.client(start=False).cards()
    except NoDaemonError:
        seen = _look()
    if json:
        document(seen)
        return 0
    if topology:
        for line in topology_lines(seen["cards"], seen.get("links", ())):
            say(line)
        return 0
    for line in table(card_head(), card_rows(seen["cards"])):
        say(line)
    for device in seen.get("other_devices", ()):
        note(other_line(device))
    for problem in seen["problems"]:
        for line in problem_lines(problem):
            note(line)
    return 0


def _watch(every: float, *, as_json: bool) -> int:
    from anycard.cli import watching

    try:
        ticks = watching.of_daemon(session.client(start=False), every)
    except NoDaemonError:
        ticks = watching.of_this_process(every)
    if as_json or not sys.stdout.isatty():
        return watching.show_lines(ticks, as_json=as_json)
    return watching.show_live(ticks)


def _look() -> Json:
    import platform

    from anycard.cards.probe import probe
    from anycard.cards.views import SCHEMA, around_json, card_json
    from anycard.host.live import LiveHost

    inventory = probe(LiveHost(), time_limit_s=_LOOK_S)
    return {
        "schema": SCHEMA,
        "host": platform.node(),
        "cards": [card_json(card) for card in inventory.cards],
        **around_json(inventory),
    }
