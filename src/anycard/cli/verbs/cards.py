"""cards: this machine's cards, from the daemon when one runs (it knows who holds them), else looked at here."""

from __future__ import annotations

import os

from anycard.api.client import Json
from anycard.api.transport import NoDaemonError
from anycard.cli import options
from anycard.cli.cardtable import card_head, card_rows, problem_lines
from anycard.cli.output import document, note, say
from anycard.cli.session import session
from anycard.cli.tables import table


def cards(json: options.Json = False) -> int:
    try:
        seen = session.client(start=False).cards()
    except NoDaemonError:
        seen = _look()
    if json:
        document(seen)
        return 0
    for line in table(card_head(), card_rows(seen["cards"])):
        say(line)
    for problem in seen["problems"]:
        for line in problem_lines(problem):
            note(line)
    return 0


def _look() -> Json:
    from anycard.cards.probe import probe
    from anycard.cards.views import SCHEMA, card_json, problem_json
    from anycard.host.live import LiveHost

    inventory = probe(LiveHost())
    return {
        "schema": SCHEMA,
        "host": os.uname().nodename,
        "cards": [card_json(card) for card in inventory.cards],
        "problems": [problem_json(problem) for problem in inventory.problems],
    }
