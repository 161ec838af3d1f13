"""Readings as the rest of the house sees them: the last tick and whose programs it saw, the last ten minutes, and a month that is kept."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from anycard.cards.readings import reader_of
from anycard.cards.readings.kernel import NAME as KERNEL
from anycard.cards.readings.sampler import Sampler
from anycard.cards.readings.shapes import Mark, Tick
from anycard.config import Paths
from anycard.host.clock import now
from anycard.host.host import Host
from anycard.jobs.attribution import Owner, Owners, UseLog
from anycard.jobs.board import Board
from anycard.jobs.upkeep import Upkeep
from anycard.model.card import Health
from anycard.model.series import Series, fold, stepped, values_of
from anycard.store.readinglevels import LEVELS, finest
from anycard.store.readings import CardRow, MarkRow, Readings, UseRow

log = logging.getLogger("anycard.readings")

T = TypeVar("T")

KEPT_STEP_S = LEVELS[0][0]  # seconds that a kept row stands for
_POINTS = 600  # of a chart, when nobody says how fine it shall be
_ROLL_S, _PRUNE_S = 60.0, 3600.0
_LAST_MARKS = 200
_SAME_S = 5.0


@dataclass(frozen=True, slots=True)
class Span:
    """Series of several cards over the same time. ``step_s`` is what was given, which may be coarser than what was asked."""

    since: float
    until: float
    step_s: float
    cards: tuple[Series, ...]
    marks: tuple[MarkRow, ...]
    uses: tuple[UseRow, ...] = ()


class CardReadings:
    """Lives in the daemon's loop; its sampler in a thread of its own. ``board`` gives the board of now; ``machine`` says which cards there
    are, and is told each tick's readings."""

    def __init__(
        self,
        paths: Paths,
        host: Host,
        home_key: str,
        board: Callable[[], Board],
        machine: Upkeep,
    ) -> None:
        self.last: Tick | None = None
        self.owners: Mapping[int, Owner] = {}  # of the last tick's programs, by pid
        self._board = board
        self._machine = machine
        self._path = paths.home / "readings.db"
        self._store: Readings | None = None
        self._resolve = Owners(host, home_key)
        self._log = UseLog()
        self._bucket: list[Tick] = []
        self._recent_marks: list[Mark] = []
        self._unkept = False  # the last write failed; told once
        self._rolled_s = self._pruned_s = 0.0
        self._keeping: asyncio.Task[None] | None = None
        self._next: asyncio.Future[Tick] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sampler = Sampler(lambda name: reader_of(name, host, lambda: machine.cards), self._on_tick)

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            self._store = await asyncio.to_thread(Readings, self._path)
        except (OSError, sqlite3.Error) as error:
            log.warning("readings are not kept: %s: %s", self._path, error)
            self._unkept = True
        self._watch()
        self._sampler.start()

    async def close(self) -> None:
        await asyncio.to_thread(self._sampler.close)
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._store is not None:
            rows, uses, marks = self._take_bucket()
            await asyncio.to_thread(self._keep, rows, uses, marks)
            await asyncio.to_thread(self._store.close)

    def _watch(self) -> None:
        """Every vendor that has a card here with a driver; the kernel's log where there is an accelerator to be spoken of."""
        cards = self._machine.cards
        names = {card.vendor for card in cards if card.health is not Health.NO_DRIVER}
        self._sampler.watch(names | {KERNEL} if any(card.is_accelerator for card in cards) else names)

    async def next(self) -> Tick:
        """The next tick."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._next)

    # ---- a tick

    def _on_tick(self, tick: Tick) -> None:
        """In the sampler's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, tick)

    def _take(self, tick: Tick) -> None:
        board = self._board()
        pids = {use.pid for use in tick.uses}
        self.owners = self._resolve.of(board, pids, tick.boot_s) if pids else {}
        self._machine.readings = {reading.card_id: reading for reading in tick.readings}
        self._watch()
        tick = replace(tick, marks=tuple(mark for mark in tick.marks if self._is_news(mark)))
        self.last = tick
        self._recent_marks = [*self._recent_marks, *tick.marks][-_LAST_MARKS:]
        if self._bucket and tick.at // KEPT_STEP_S != self._bucket[0].at // KEPT_STEP_S:
            self._flush()
        self._bucket.append(tick)
        self._log.add(board, tick, self.owners)
        if self._next is not None and not self._next.done():
            self._next.set_result(tick)

    def _is_news(self, mark: Mark) -> bool:
        """The driver's library and the kernel's log both tell of an Xid: once is enough."""
        number = mark.text.params.get("number")
        return number is None or not any(
            other.kind is mark.kind
            and other.card_id == mark.card_id
            and other.text.params.get("number") == number
            and abs(mark.at - other.at) < _SAME_S
            for other in self._recent_marks
        )

    def _flush(self) -> None:
        if self._keeping is not None and not self._keeping.done():
            log.warning("the disk is slower than the readings: ten seconds are not kept")
            self._take_bucket()
            return
        self._keeping = asyncio.get_running_loop().create_task(asyncio.to_thread(self._keep, *self._take_bucket()))

    def _take_bucket(self) -> tuple[list[Tick], list[UseRow], list[Mark]]:
        ticks, self._bucket = self._bucket, []
        at = ticks[0].at // KEPT_STEP_S * KEPT_STEP_S if ticks else 0.0
        return ticks, self._log.take(self._board(), at), [mark for tick in ticks for mark in tick.marks]

    def _keep(self, ticks: list[Tick], uses: list[UseRow], marks: list[Mark]) -> None:
        """In a worker thread."""
        if not ticks:
            return
        told = [MarkRow(mark.at, mark.card_id, mark.kind.value, mark.text) for mark in marks]
        moment = now()
        try:
            if self._store is None:  # it could not be opened so far
                self._store = Readings(self._path)
            self._store.add(_rows(ticks), uses, told)
            if moment.boot_s - self._rolled_s >= _ROLL_S:
                self._rolled_s = moment.boot_s
                self._store.roll_up()
            if moment.boot_s - self._pruned_s >= _PRUNE_S:
                self._pruned_s = moment.boot_s
                self._store.prune(moment.utc_s)
        except (OSError, sqlite3.Error) as error:
            if not self._unkept:
                log.warning("readings are not kept: %s: %s", self._path, error)
            self._unkept = True
        else:
            self._unkept = False

    # ---- over time

    async def span(
        self,
        *,
        cards: Sequence[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        step_s: float | None = None,
        job: int | None = None,
    ) -> Span:
        """Series of ``cards`` (None: of all) from ``since`` (ten minutes ago) to before ``until`` (now), a row for each ``step_s`` seconds
        (so many that 600 rows come). Below ten seconds is what memory still has; what is older is as fine as it is kept. ``job``: with what
        its attempts did; where its end lies before its start by the clock of then, the time in which it did anything."""
        moment = now().utc_s
        until = moment if until is None else until
        since = until - 600.0 if since is None else since
        if (
            job is not None and until < since
        ):  # the clock was set back while it ran: where its readings are is kept with them
            kept = await asyncio.to_thread(self._read, lambda store: [store.used(job)])
            since, until = next((one for one in kept if one is not None), (until, since))
        wanted = step_s if step_s is not None else max(1.0, (until - since) / _POINTS)
        oldest = self._sampler.recent.since
        in_memory = oldest is not None and oldest <= since
        if wanted < KEPT_STEP_S and (in_memory or step_s is not None or self._store is None):
            step = max(1.0, float(round(wanted)))
            series = [self._recent(card, since, until, step) for card in cards or self._sampler.recent.cards()]
        else:
            fine = finest(since, moment)
            step = max(float(fine), -(-wanted // KEPT_STEP_S) * KEPT_STEP_S)
            series = await asyncio.to_thread(self._kept, cards, since, until, step)
        uses = await asyncio.to_thread(self._uses, job, since, until, max(step, KEPT_STEP_S)) if job is not None else []
        marks = await asyncio.to_thread(self._marks, since, until)
        chosen = set(cards) if cards is not None else None
        return Span(
            since,
            until,
            step,
            tuple(one for one in series if one.times or chosen is not None),
            tuple(mark for mark in marks if chosen is None or mark.card_id is None or mark.card_id in chosen),
            tuple(uses),
        )

    async def uses_of(self, job: int, since: float, until: float) -> list[UseRow]:
        """What a job's attempts held and did, as finely as it is kept."""
        return await asyncio.to_thread(self._uses, job, since, until, KEPT_STEP_S)

    def _recent(self, card_id: str, since: float, until: float, step: float) -> Series:
        series = self._sampler.recent.series(card_id, since, until)
        return series if step <= 1 else stepped(series, step)

    def _kept(self, cards: Sequence[str] | None, since: float, until: float, step: float) -> list[Series]:
        return self._read(
            lambda store: [
                store.series(card, since, until, step)
                for card in (store.cards(since, until) if cards is None else cards)
            ]
        )

    def _uses(self, job: int, since: float, until: float, step: float) -> list[UseRow]:
        return self._read(lambda store: store.uses(job, since, until, step))

    def _read(self, wanted: Callable[[Readings], list[T]]) -> list[T]:
        """Nothing where the file cannot be read: what is in memory is still shown."""
        if self._store is None:
            return []
        try:
            return wanted(self._store)
        except (OSError, sqlite3.Error) as error:
            log.warning("readings cannot be read: %s: %s", self._path, error)
            return []

    def _marks(self, since: float, until: float) -> list[MarkRow]:
        """Those that are kept, and the latest, which may not be yet."""
        kept = self._read(lambda store: store.marks(since, until))
        known = {(mark.at, mark.card_id, mark.kind) for mark in kept}
        return kept + [
            MarkRow(mark.at, mark.card_id, mark.kind.value, mark.text)
            for mark in self._recent_marks
            if since <= mark.at < until and (mark.at, mark.card_id, mark.kind.value) not in known
        ]


def _rows(ticks: Sequence[Tick]) -> list[CardRow]:
    """What a bucket's ticks saw, a row a card."""
    at = ticks[0].at // KEPT_STEP_S * KEPT_STEP_S
    values: dict[str, list[tuple[float | None, ...]]] = {}
    for tick in ticks:
        for reading in tick.readings:
            values.setdefault(reading.card_id, []).append(values_of(reading))
    return [CardRow(at, card_id, len(rows), fold(rows)) for card_id, rows in values.items()]
