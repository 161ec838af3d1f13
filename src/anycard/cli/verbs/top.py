"""top: cards and the queue, redrawn until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from anycard.api.client import Client, Json
from anycard.cli.cardtable import card_head, card_rows
from anycard.cli.output import safe, say, sentence
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.errors import UsageError
from anycard.i18n import N_, _, words

MORE = N_("q or Ctrl-C ends it. Without a terminal, or with --once, one frame is printed.")
_SHOWN_JOBS = 100


def top(
    once: Annotated[bool, typer.Option("--once", help=_("Print one frame and end"))] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.2, help=_("Seconds between two frames"))
    ] = 1.0,
) -> int:
    client = session.client()
    if once or not sys.stdout.isatty():
        for line in _frame(client):
            say(line)
        return 0
    if not sys.stdin.isatty():
        raise UsageError("top needs a terminal", hint="anycard top --once")
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with _keys(), Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            lines = _frame(client)[: console.size.height]
            live.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)
            try:
                if _quit_within(every):
                    return 0
            except KeyboardInterrupt:
                return 0


def _frame(client: Client) -> list[str]:
    status, seen = client.status(), client.cards()
    jobs: list[Json] = []
    for state in ("running", "queued"):
        jobs += client.jobs(state=state, limit=_SHOWN_JOBS)["jobs"]
    counted = status.get("jobs") or {}
    told = _(", ").join(
        _("{count} {state}", count=number, state=words.state(slug)) for slug, number in counted.items() if number
    )
    head = [_("anycard on {host}: {jobs}", host=safe(seen["host"]), jobs=told or _("no jobs"))]
    if status.get("paused"):
        head.append(sentence(status["paused_msgid"], status["paused_params"]))
    titles = [_("JOB"), _("NAME"), _("STATE"), _("DONE"), _("RUNNING"), _("USER"), _("TOOK"), _("WHY")]
    rows = [
        [
            str(job["id"]),
            safe(job["name"]),
            words.state(job["state"], held=job["held"]),
            f"{words.done(job['counts'])}/{job['counts']['items']}",
            str(job["counts"]["running"]),
            safe(job["user"]),
            words.took(job),
            words.reason(job),
        ]
        for job in jobs
    ]
    cards = table(card_head(), card_rows(seen["cards"]))
    return [*head, "", *cards, "", *table(titles, rows, right=frozenset((0, 3, 4, 6)))]


@contextmanager
def _keys() -> Iterator[None]:
    """Keys arrive one by one and are not echoed; the terminal is put back afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _quit_within(seconds: float) -> bool:
    ready, _writable, _failed = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and os.read(sys.stdin.fileno(), 64).lower() in (b"q", b"\x1b", b"\x04", b"")
