"""After a run: what its model was predicted to need beside what it needed, kept as an event; and what all of them teach about this host."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anycard.errors import AnycardError
from anycard.host.clock import now
from anycard.jobs import files
from anycard.jobs.board import PREPARE, Attempt, OpenJob
from anycard.jobs.spec import Sizing
from anycard.jobs.turn import Turn
from anycard.model.card import CPU_VENDOR, Card
from anycard.sizing.inference import Server
from anycard.sizing.learning import Graded, Learnt, factor_of, learn, rest_of
from anycard.sizing.serverlog import Printed, read_server_log
from anycard.store.engine import Store
from anycard.store.eventlog import latest_of_kind
from anycard.store.readinglevels import LEVELS
from anycard.store.readings import UseRow

log = logging.getLogger("anycard.grading")

MEASURED = "model.measured"  # the event's kind
KEPT = 2000  # of the latest grades in memory: years, where a machine runs a few models a day
_HEAD_BYTES, _TAIL_BYTES = 4 << 20, 1 << 20  # a server tells of its buffers when it starts, of its speed to the end
_LOADED = 0.5  # of the weights: a program that never held so much did not load the model

KEPT_STEP_S = float(LEVELS[0][0])
_READINGS_KEPT_S = KEPT_STEP_S + 2.0  # a card's last seconds are written down so much later

Ask = Callable[[Callable[[Turn], None]], Any]  # Dispatcher.ask
Uses = Callable[
    [int, float, float], Awaitable[Sequence[UseRow]]
]  # what a job's attempts held of cards, from one time to another


class Grader:
    """``ended`` is told of each attempt's end; the rest happens aside, and its loss (a daemon killed meanwhile) costs one grade. A job of
    many items is graded once."""

    def __init__(self, store: Store, ask: Ask) -> None:
        self.uses: Uses | None = None  # None: nobody takes readings
        self._store = store
        self._ask = ask
        self._known: list[Graded] | None = None
        self._reading = asyncio.Lock()
        self._done: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def ended(self, job: OpenJob, attempt: Attempt, cards: Mapping[str, Card], peak_bytes: int | None) -> None:
        """``peak_bytes``: what the attempt's programs held of host memory at most."""
        sizing = job.spec.sizing
        if sizing is None or not sizing.needs or attempt.item == PREPARE or job.id in self._done:
            return
        granted = [cards[card_id] for card_id in attempt.allocation.card_ids if card_id in cards]
        task = asyncio.get_running_loop().create_task(self._grade(job, attempt, sizing, granted, peak_bytes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def graded(self) -> list[Graded]:
        """Every grade that is remembered, oldest first."""
        async with self._reading:
            if self._known is None:
                self._known = await asyncio.to_thread(self._read)
                self._done.update(one.job for one in self._known)
            return self._known

    async def learnt(self) -> tuple[Learnt, ...]:
        return learn(await self.graded())

    async def factor(self, sizing: Sizing, device: str) -> float:
        """What this host taught about buffers of runs of this kind; 1 while it taught nothing."""
        return factor_of(await self.learnt(), sizing.ask.task, sizing.server or "", device)[0]

    def _read(self) -> list[Graded]:
        with self._store.read() as connection:
            rows = latest_of_kind(connection, MEASURED, KEPT)
        return [_from_row(row) for row in reversed(rows)]

    async def _grade(
        self, job: OpenJob, attempt: Attempt, sizing: Sizing, cards: list[Card], peak_bytes: int | None
    ) -> None:
        try:
            found = await self._seen(attempt, sizing, cards, peak_bytes)
            if found is not None:
                await self._record(job, attempt, found)
        except (AnycardError, OSError, sqlite3.Error) as error:
            self._done.discard(job.id)
            log.warning("what job %d needed is not recorded: %s", job.id, error)

    async def _seen(
        self, attempt: Attempt, sizing: Sizing, cards: list[Card], peak_bytes: int | None
    ) -> dict[str, Any] | None:
        head, tail = await asyncio.to_thread(files.read_ends, Path(f"{attempt.stem}.log"), _HEAD_BYTES, _TAIL_BYTES)
        printed = await asyncio.to_thread(read_server_log, (head + tail).splitlines())
        told = printed is not None and bool(printed.on_cards() if cards else printed.on_host())
        on_card = None if told or not cards else await self._peak(attempt.job_id, attempt)
        return grade(sizing, cards, printed, on_card if cards else peak_bytes)

    async def _record(self, job: OpenJob, attempt: Attempt, found: dict[str, Any]) -> None:
        known = await self.graded()
        if job.id in self._done:  # another item of it was quicker
            return
        self._done.add(job.id)

        def record(turn: Turn) -> None:
            turn.event(MEASURED, job, item=attempt.item, attempt=attempt.id, **found)

        await self._ask(record)
        known.append(_graded(job.id, attempt.started.utc_s, found))
        del known[:-KEPT]

    async def _peak(self, job: int, attempt: Attempt) -> int | None:
        """What the attempt's programs held at most of the fullest of its cards, in the driver's word."""
        if self.uses is None:
            return None
        await asyncio.sleep(_READINGS_KEPT_S)
        moment = now().utc_s
        rows = await self.uses(job, attempt.started.utc_s - KEPT_STEP_S, moment)
        peaks = [row.memory_peak_bytes for row in rows if row.attempt == attempt.id and row.card_id != CPU_VENDOR]
        return round(max((peak for peak in peaks if peak is not None), default=0)) or None


def grade(
    sizing: Sizing, cards: Sequence[Card], printed: Printed | None, outside_bytes: int | None
) -> dict[str, Any] | None:
    """What the event says; None when nothing was seen that compares. The server's own lines go before ``outside_bytes``, what its programs
    held at most of a card (of host memory on the CPU): vLLM always holds the share it was given, so that says nothing of it."""
    need = sizing.need(len(cards))
    if need is None:
        return None
    parts = printed and (printed.on_cards() if cards else printed.on_host())
    if printed is not None and parts:
        pairs = {name: [need.parts[name], size] for name, size in parts.items() if name in need.parts}
        predicted = sum(pair[0] for pair in pairs.values())
        rest = rest_of({name: pair[0] for name, pair in pairs.items()})
        measured = sum(pair[1] for pair in pairs.values())
        outside = need.total_bytes - predicted  # what the lines do not tell of is left out on both sides
        low, high, source = need.low_bytes - outside, need.high_bytes - outside, "printed"
    elif outside_bytes is not None and sizing.server != Server.VLLM.value:
        pairs, source = {}, "card" if cards else "host"
        predicted, measured, low, high = need.total_bytes, outside_bytes, need.low_bytes, need.high_bytes
        rest = rest_of(need.parts)
        if measured < need.parts.get("weights", 0) * _LOADED:
            return None
    else:
        return None
    if predicted <= 0 or measured <= 0:
        return None
    card = cards[0].model if cards else "cpu"
    return {
        "model": sizing.model,
        "task": sizing.ask.task,
        "server": sizing.server or "",
        "device": cards[0].vendor if cards else "cpu",
        "card": card,
        "cards": len(cards),
        "source": source,
        "predicted_bytes": predicted,
        "rest_bytes": rest,
        "low_bytes": max(0, low),
        "high_bytes": high,
        "measured_bytes": measured,
        "parts": pairs,
        "predicted_rate": sizing.tokens_per_s.get(card),
        "measured_rate": printed.tokens_per_s if printed else None,
    }


def _from_row(row: Mapping[str, Any]) -> Graded:
    return _graded(row["job_id"], row["at"], json.loads(row["data_json"]))


def _graded(job: int, at: float, data: Mapping[str, Any]) -> Graded:
    parts = {name: (pair[0], pair[1]) for name, pair in data["parts"].items()}
    return Graded(job=job, at=at, **{**data, "parts": parts})
