"""GET /page/stream: the one event stream of a page (server-sent events), whatever the page shows.

``topics=cards,queue,job:41,log:41:0``. Each topic has a *mark* that says how far a page has seen it (a version, a place in a log); an
event's id holds the marks of all topics, so a page that comes back (Last-Event-ID, or ``last=``) gets what it missed and nothing twice.
States are not replayed: of what changed ten times meanwhile, it gets the last.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from anycard.errors import UsageError
from anycard.jobs.watching import ANY_JOB
from anycard.web.sessions import Session
from anycard.web.visit import Services

log = logging.getLogger("anycard.web")

QUIET_S = 15.0  # a silent stream sends a comment so often: proxies and dead connections are noticed
PACE_S = 0.25  # at most four rounds a second to one page
_TICK_S = 0.5  # logs, readings and the cards' health are looked at so often
MAX_TOPICS = 20
MANY_ITEMS = 500  # when so many changed at once, a page asks for its grid again
_GATHER_S = 0.05  # pages that are woken together ask within this
_LIFE = secrets.token_hex(3)  # versions count from 0 again in the next daemon's life


Seen = tuple[dict[str, Any], dict[int, str] | None]  # a job, and states by number of its items


class Topic(Protocol):
    """What one page follows. ``mark`` is "" while there is nothing to come back to."""

    @property
    def mark(self) -> str: ...

    async def news(self) -> list[dict[str, Any]]:
        """What came since ``mark``, which moves on; empty when nothing did. Must be quick when there is nothing."""
        ...

    def close(self) -> None: ...


Maker = Callable[["Hub", Session, str, str], Awaitable[Topic]]  # (hub, who, the topic's argument, mark)


class Hub:
    """Wakes the streams. ``makers`` are the kinds of topics that there are."""

    def __init__(self, services: Services, makers: Mapping[str, Maker]) -> None:
        self.services = services
        self._makers = makers
        self.version = 0  # of the board and the cards: grows with every change
        self._bells: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None
        self._asked: dict[
            int, tuple[set[int], asyncio.Task[Seen]]
        ] = {}  # by job: what will be read next, and for which items
        self._ended = False

    @property
    def mark(self) -> str:
        """Of what a page shows now: it begins to follow from here."""
        return f"{_LIFE}.{self.version}"

    async def stream(self, who: Session, topics: list[str], marks: str) -> AsyncIterator[bytes]:
        """The bytes of one page's stream, for ever. UsageError for a topic that is not known."""
        seen = dict(parse_qsl(marks[:2000]))
        if not topics or len(topics) > MAX_TOPICS:
            raise UsageError("a stream follows between 1 and {most} topics", most=MAX_TOPICS)
        followed: dict[str, Topic] = {}
        bell = self.bell()
        try:
            for name in topics:
                kind, _, argument = name.partition(":")
                maker = self._makers.get(kind)
                if maker is None:
                    raise UsageError("there is no topic {name}", name=name)
                followed[name] = await maker(self, who, argument, seen.get(name, ""))
        except BaseException:
            self.quiet(bell)
            _close(followed)
            raise
        events = self._events(followed, bell)
        return _begun(await anext(events), events)  # one that has begun also ends, whatever becomes of the answer

    def bell(self) -> asyncio.Event:
        """An event that is set whenever something may have changed; give it back with ``quiet``."""
        bell = asyncio.Event()
        self._bells.add(bell)
        if self._watching is None or self._watching.done():
            self.version += 1  # nobody looked a while: whatever changed meanwhile was not seen
            self._watching = asyncio.create_task(self._watch(), name="page hub")
        return bell

    def quiet(self, bell: asyncio.Event) -> None:
        self._bells.discard(bell)

    async def seen(self, job_id: int, items: set[int]) -> Seen:
        """The job, and the states of these ``items`` (None: so many that a page asks for its grid again). A hundred pages that were woken
        by the same change get one answer; its reading begins after the last of them asked, so nobody's is old."""
        numbers, reading = self._asked.get(job_id) or (set(), None)
        if reading is None:
            reading = asyncio.create_task(self._read(job_id))
            self._asked[job_id] = numbers, reading
        numbers |= items
        return await asyncio.shield(reading)

    async def _read(self, job_id: int) -> Seen:
        await asyncio.sleep(_GATHER_S)
        numbers, _ = self._asked.pop(job_id)
        jobs = self.services.jobs
        job = await jobs.job(job_id)
        return job, dict(await jobs.item_states(job_id, numbers)) if len(numbers) <= MANY_ITEMS else None

    def ring(self) -> None:
        for bell in self._bells:
            bell.set()

    def end(self) -> None:
        """The daemon stops: every stream ends by itself, and its page comes back when there is a daemon again."""
        self._ended = True
        self.ring()

    async def _events(self, followed: dict[str, Topic], bell: asyncio.Event) -> AsyncGenerator[bytes, None]:
        try:
            yield b"retry: 2000\n\n"
            while not self._ended:
                bell.clear()
                out = b""
                for name, topic in followed.items():
                    for news in await topic.news():
                        marks = urlencode({key: value.mark for key, value in followed.items() if value.mark})
                        data = json.dumps(news, ensure_ascii=True, separators=(",", ":"))
                        out += f"id: {marks}\nevent: {name}\ndata: {data}\n\n".encode("ascii")
                if out:
                    yield out
                    await asyncio.sleep(PACE_S)
                try:
                    async with asyncio.timeout(QUIET_S):
                        await bell.wait()
                except TimeoutError:
                    yield b": quiet\n\n"
        except asyncio.CancelledError:  # the daemon stops or the page left: the stream just ends
            return
        finally:
            self.quiet(bell)
            _close(followed)

    async def _watch(self) -> None:
        """While anybody listens: each change of the board, and each tick of a second (readings, logs, cards' health)."""
        watcher = self.services.dispatcher.watch(ANY_JOB)
        cards = self._cards()
        try:
            while self._bells:
                changed = bool(await watcher.next(_TICK_S))
                if (seen := self._cards()) != cards:
                    cards, changed = seen, True
                if changed:
                    self.version += 1
                self.ring()
                if changed:
                    await asyncio.sleep(PACE_S)
        finally:
            watcher.close()

    def _cards(self) -> list[tuple[str, str]]:
        return [(card.id, card.health.value) for card in self.services.dispatcher.machine.cards]


async def _begun(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


def _close(followed: dict[str, Topic]) -> None:
    for topic in followed.values():
        topic.close()
