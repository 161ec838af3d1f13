"""A followed job as a live view on a terminal. Imports Rich: only where there is a terminal to draw on."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from anycard.api.client import Json
from anycard.i18n import _, words
from anycard.units import format_duration

_OTHER_LINES = 10  # of the view, beside the running items
_SHOWN_FAILURES = 3
_BAR_COLUMNS = 30


class LiveView:
    """Progress, running items with their cards, the last failures, and why the job waits; redrawn four times a second."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._console = Console(file=stream)
        self._job: Json | None = None
        self._running: dict[int, Json] = {}
        self._failed: dict[int, Json] = {}
        self._live: Live | None = None

    def __enter__(self) -> LiveView:
        """May be entered again once left: a fresh drawing then, below whatever was written meanwhile."""
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, job: Json, items: list[Json]) -> None:
        running, failed = dict(self._running), dict(self._failed)
        for item in items:
            number = item["item"]
            for shown in (running, failed):
                shown.pop(number, None)
            if item["state"] in words.HOLDING:
                running[number] = item
            elif item["state"] == "failed":
                failed[number] = item
        # Replaced whole: the drawing thread reads them meanwhile.
        self._job, self._running, self._failed = job, running, failed

    def _draw(self) -> RenderableType:
        job = self._job
        if job is None:
            return Text("")
        parts: list[RenderableType] = [self._head(job)]
        if job["counts"]["items"] > 1:
            parts.append(self._bar(job))
        parts.append(self._items())
        parts += [self._failure(item) for item in list(self._failed.values())[-_SHOWN_FAILURES:]]
        if job["state"] == "queued" and (why := words.reason(job)):
            parts.append(Text(why, style="yellow"))
            if hint := words.sooner(job):
                parts.append(Text(hint, style="dim"))
        parts.append(Text(_("Ctrl-C: leave it running, or cancel it"), style="dim"))
        return Group(*parts)

    def _head(self, job: Json) -> Text:
        elapsed = words.seconds_between(job.get("started_at"), job.get("ended_at"))
        head = Text(words.title(job), style="bold")
        head.append(f"  {words.state(job['state'], held=job['held'])}", style="cyan")
        if elapsed is not None:
            head.append(f"  {format_duration(elapsed)}", style="none")
        return head

    def _bar(self, job: Json) -> RenderableType:
        numbers = job["counts"]
        bar, share = self._progress(job), Text(f"{words.done(numbers)}/{numbers['items']}")
        told = Text(words.counts(numbers), style="dim", no_wrap=True, overflow="ellipsis")
        row = Table.grid(padding=(0, 1))
        if _BAR_COLUMNS + share.cell_len + told.cell_len + 3 <= self._console.width:
            row.add_row(bar, share, told)
            return row
        row.add_row(bar, share)  # on a narrow screen the counts have a line of their own: none breaks in a phrase
        return Group(row, told)

    @staticmethod
    def _progress(job: Json) -> ProgressBar:
        """Red only once something failed, yellow once something was cancelled: Rich's own bar is pink while all is well."""
        numbers = job["counts"]
        colour = "red" if numbers["failed"] else "yellow" if numbers["cancelled"] else "green"
        return ProgressBar(
            total=numbers["items"],
            completed=words.done(numbers),
            width=_BAR_COLUMNS,
            complete_style=colour,
            finished_style=colour,
        )

    def _items(self) -> RenderableType:
        rows = max(3, self._console.size.height - _OTHER_LINES)
        table = Table.grid(padding=(0, 2))
        items = sorted(self._running.values(), key=lambda item: int(item["item"]))
        for item in items[:rows]:
            tries = _("attempt {number}", number=item["attempts"]) if item["attempts"] > 1 else ""
            cells = (
                f"  {item['item']}",
                words.values(item),
                words.state(item["state"]),
                words.took(item),
                tries,
                words.cards(item),
            )
            table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
        if len(items) > rows:
            table.add_row(Text(_("  and {count} more", count=len(items) - rows), style="dim"))
        return table

    def _failure(self, item: Json) -> Text:
        told = _("item {item} failed: {why}", item=item["item"], why=words.reason(item) or "?")
        return Text(told, style="red", no_wrap=True, overflow="ellipsis")
