"""What a page may follow by its stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from anycard.errors import ForbiddenError, NotFoundError
from anycard.host.clock import now
from anycard.jobs import logparts
from anycard.jobs.jobfiles import attempt_of, part
from anycard.jobs.readingsviews import tick_json
from anycard.jobs.states import OPEN_JOB_STATES
from anycard.jobs.watching import Watcher
from anycard.web.sessions import Session
from anycard.web.stream import MANY_ITEMS, Hub, Maker, Topic

_NUMBER = re.compile(r"-?[0-9]{1,15}")
_JUST_S = 30.0  # a page is drawn and follows within so long
_BEHIND_BYTES = 1024 * 1024  # a log that runs away faster is caught up with at its end


class _Queue:
    """``queue``: something about a job or a card changed; the page asks for what it shows."""

    def __init__(self, hub: Hub, mark: str) -> None:
        self._hub = hub
        self.mark = mark or hub.mark

    async def news(self) -> list[dict[str, Any]]:
        now = self._hub.mark
        if now == self.mark:
            return []
        self.mark = now
        return [{"version": self._hub.version}]

    def close(self) -> None:
        """Holds nothing."""


class _Cards:
    """``cards``: the last second's readings, as GET /v1/readings/live has them."""

    def __init__(self, hub: Hub) -> None:
        self._readings = hub.services.readings
        self.mark = ""
        self._at = 0.0

    async def news(self) -> list[dict[str, Any]]:
        tick = self._readings.last
        if tick is None or tick.at == self._at:
            return []
        self._at = tick.at
        return [tick_json(tick, self._readings.owners)]

    def close(self) -> None:
        """Holds nothing."""


class _Job:
    """``job:41``: {state, counts, items: [[number, state] that changed] or null for many}."""

    def __init__(self, hub: Hub, job: Mapping[str, Any], mark: str, *, mine: bool) -> None:
        self._hub = hub
        self._mine = mine  # of somebody else's job the items are not told
        self._id = job["id"]
        self._watcher: Watcher = hub.services.dispatcher.watch(self._id)
        # Of an open job it is not known what changed since the page was made, nor of any since a page that was away looked.
        self._missed = bool(mark) or job["state"] in OPEN_JOB_STATES or _just_ended(job)
        self.mark = "1"

    async def news(self) -> list[dict[str, Any]]:
        changed, missed = self._watcher.taken(), self._missed
        if not changed and not missed:
            return []
        self._missed = False
        wanted = changed if self._mine and not missed and len(changed) <= MANY_ITEMS else set()
        job, states = await self._hub.seen(self._id, wanted)
        items: list[tuple[int, str]] | None = None if self._mine else []
        if wanted and states is not None:
            items = [(number, states[number]) for number in sorted(wanted) if number in states]
        return [{"state": job["state"], "counts": job["counts"], "items": items}]

    def close(self) -> None:
        self._watcher.close()


def _just_ended(job: Mapping[str, Any]) -> bool:
    at = job["ended_at"]
    return at is not None and now().utc_s - datetime.fromisoformat(at).timestamp() < _JUST_S


class _Log:
    """``log:41:0`` or ``log:41:0:2``: LOG_PARTs (jobs/jobfiles.py) as the log grows, on into the next attempt unless one is named.
    The mark is ATTEMPT.BYTE."""

    def __init__(self, hub: Hub, who: Session, ref: str, item: int, attempt: int | None, mark: str) -> None:
        self._hub = hub
        self._who = who
        self._ref = ref
        self._item = item
        self._attempt = attempt
        number, _, byte = mark.partition(".")
        self._number = int(number) if number.isdigit() else None
        self._byte = int(byte) if byte.isdigit() else 0
        self._size = -1
        self._log: Path | None = None
        self._version = -1

    @property
    def mark(self) -> str:
        return "" if self._number is None else f"{self._number}.{self._byte}"

    async def news(self) -> list[dict[str, Any]]:
        if self._version != self._hub.version:  # something changed: it may have another attempt now
            self._version = self._hub.version
            self._log = await self._hub.services.files.log(self._ref, self._who, item=self._item, attempt=self._attempt)
        if self._log is None:
            return []
        number = attempt_of(self._log)
        if number != self._number:
            fresh = self._number is not None
            self._number, self._byte, self._size = number, 0, -1
            if not fresh:  # a page that has none of it begins with the end
                return [await self._told(await part(self._log))]
        size = logparts.size_of(self._log)
        if size == self._size:
            return []
        if size - self._byte > _BEHIND_BYTES:
            skipped = await part(self._log)
            return [await self._told({**skipped, "skipped": skipped["start"] - self._byte})]
        return [await self._told(await part(self._log, after=self._byte))]

    async def _told(self, found: dict[str, Any]) -> dict[str, Any]:
        self._byte = found["end"]
        # A part that was cut short leaves the rest for the next look.
        self._size = found["size"] if found["end"] + logparts.PART_BYTES > found["size"] else -1
        return {**found, "attempt": self._number}

    def close(self) -> None:
        """Holds nothing."""


async def _queue(hub: Hub, who: Session, argument: str, mark: str) -> Topic:
    return _Queue(hub, mark)


async def _cards(hub: Hub, who: Session, argument: str, mark: str) -> Topic:
    return _Cards(hub)


async def _job(hub: Hub, who: Session, argument: str, mark: str) -> Topic:
    jobs = hub.services.jobs
    job = await jobs.job(argument, who.user)
    try:
        await jobs.own(job["id"], who)
    except ForbiddenError:
        return _Job(hub, job, mark, mine=False)
    return _Job(hub, job, mark, mine=True)


async def _log(hub: Hub, who: Session, argument: str, mark: str) -> Topic:
    ref, _, rest = argument.partition(":")
    item, _, attempt = rest.partition(":")
    if not _NUMBER.fullmatch(item) or (attempt and not _NUMBER.fullmatch(attempt)):
        raise NotFoundError("there is no log {name}", name=argument)
    number, tried = int(item), int(attempt) if attempt else None
    await hub.services.files.log(ref, who, item=number, attempt=tried)  # says no before the stream has begun
    return _Log(hub, who, ref, number, tried, mark)


MAKERS: dict[str, Maker] = {"queue": _queue, "cards": _cards, "job": _job, "log": _log}
