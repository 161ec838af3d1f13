"""The daemon as its API shows it: cards, status, prune, backup, down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anycard
from anycard.api.metrics import metrics
from anycard.cards.views import around_json, card_json
from anycard.config import Paths
from anycard.errors import UnavailableError
from anycard.host.clock import now
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.lifecycle import stop
from anycard.jobs.readings import CardReadings
from anycard.jobs.states import JobState
from anycard.jobs.turn import Turn
from anycard.model.end_reason import EndReason
from anycard.model.instant import rfc3339
from anycard.model.text import Text
from anycard.store.backup import back_up
from anycard.store.engine import Store
from anycard.store.prune import prune
from anycard.store.queries import counts_by_state

_STOPPED_WITHIN_S = 45.0  # then the answer says how many still run; the supervisor goes on ending them
_LOOK_S = 0.1


class System:
    """``end`` asks the daemon's main loop to stop. ``mode`` is "personal" or "shared"."""

    def __init__(
        self, paths: Paths, store: Store, dispatcher: Dispatcher, *, mode: str, end: Callable[[], None]
    ) -> None:
        self._paths = paths
        self._store = store
        self._dispatcher = dispatcher
        self._mode = mode
        self._end = end
        self._started = now()
        self._damage: Text | None = None  # of the store, found while it is in use

    def note_damage(self, what: Text) -> None:
        """The store was found damaged while it is in use: `anycard status` says so from now on, and nothing new starts."""
        self._damage = what
        self._dispatcher.machine.note_damage(what)

    async def cards(self) -> dict[str, Any]:
        machine = self._dispatcher.machine
        host = self._dispatcher.host()
        states = {state.id: state for state in host.cards}
        _, _, granted = self._dispatcher.board.granted()
        rows = []
        for card in machine.cards:
            row = card_json(card)
            state = states.get(card.id)
            attempt = self._dispatcher.board.attempts.get(granted.get(card.id, -1))
            row["free"] = state.free if state else None
            row |= _told("not_free_because", state.why if state else None)
            row["job"] = attempt.job_id if attempt else None
            row["item"] = attempt.item if attempt else None
            row["job_items"] = self._dispatcher.board.jobs[attempt.job_id].n_items if attempt else None
            if not card.is_accelerator:
                row["cores_free"] = round(host.cpus_free, 3)
            rows.append(row)
        around = around_json(machine.inventory)
        return {"schema": "anycard.cards/1", "host": os.uname().nodename, "cards": rows, **around}

    async def status(self) -> dict[str, Any]:
        by_state = await asyncio.to_thread(self._counts)
        if self._dispatcher.machine.note_engine(self._dispatcher.engine.trouble()):
            self._dispatcher.nudge()
        moment = now()
        return {
            "schema": "anycard.status/1",
            "version": anycard.__version__,
            "pid": os.getpid(),
            "home": str(self._paths.home),
            "mode": self._mode,
            "started_at": rfc3339(self._started.utc_s),
            "uptime_s": round(moment.seconds_since(self._started), 3),
            **_told("paused", self._dispatcher.machine.paused),
            **_told("damage", self._damage or self._store.missing),
            "jobs": {state.value: by_state.get(state.value, 0) for state in JobState},
            "attempts_running": len(self._dispatcher.board.attempts),
            "engine": self._dispatcher.engine.name,
            "store": self._store.backend.name,
        }

    async def metrics(self, kept: CardReadings) -> bytes:
        """What Prometheus scrapes."""
        return await metrics(self._store, self._dispatcher, kept)

    async def prune(self, older_than_s: float, *, dry_run: bool) -> dict[str, Any]:
        before = now().utc_s - older_than_s
        done = await asyncio.to_thread(prune, self._store, self._paths, before, dry_run=dry_run)
        return {"schema": "anycard.pruned/1", "dry_run": dry_run, **done}

    async def backup(self, path: str) -> dict[str, Any]:
        size = await asyncio.to_thread(back_up, self._store, Path(path))
        return {"schema": "anycard.backup/1", "path": path, "bytes": size}

    async def down(self, *, stop_attempts: bool) -> dict[str, Any]:
        if stop_attempts:
            trouble = self._dispatcher.engine.trouble()
            if trouble is not None and self._dispatcher.board.attempts:
                fields: dict[str, Any] = {**trouble.params}
                raise UnavailableError(trouble.msgid, **fields)  # it would be told, and end nothing
            await self._dispatcher.ask(self._stop_all)
            for _ in range(round(_STOPPED_WITHIN_S / _LOOK_S)):
                if not self._dispatcher.board.attempts:
                    break
                await asyncio.sleep(_LOOK_S)
        left = len(self._dispatcher.board.attempts)
        asyncio.get_running_loop().call_later(0.05, self._end)  # after the answer went out
        return {"schema": "anycard.down/1", "pid": os.getpid(), "attempts_running": left}

    def _stop_all(self, turn: Turn) -> None:
        board = self._dispatcher.board
        for attempt in board.attempts.values():
            stop(turn, board.jobs[attempt.job_id], attempt, EndReason.CANCELLED)

    def _counts(self) -> dict[str, int]:
        with self._store.read() as connection:
            return counts_by_state(connection)


def _told(name: str, text: Text | None) -> dict[str, Any]:
    """A sentence three times: in English, and as key and values for faces that translate."""
    return {
        name: str(text) if text else None,
        f"{name}_msgid": text.msgid if text else None,
        f"{name}_params": dict(text.params) if text else None,
    }
