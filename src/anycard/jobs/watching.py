"""Who waits for news of a job: told after each turn, once it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

ANY_JOB = -1  # for a watcher of them all


class Watchers:
    """All watchers, by job."""

    def __init__(self) -> None:
        self._by_job: dict[int, set[Watcher]] = {}

    def watch(self, job_id: int) -> Watcher:
        """News of one job; close it when done."""
        watcher = Watcher(self, job_id)
        self._by_job.setdefault(job_id, set()).add(watcher)
        return watcher

    def tell(self, touched: Iterable[tuple[int, int]]) -> None:
        """(job, item) that changed; item -1: the job itself."""
        for job_id, item in touched:
            for watcher in (*self._by_job.get(job_id, ()), *self._by_job.get(ANY_JOB, ())):
                watcher.tell(item)

    def leave(self, watcher: Watcher) -> None:
        others = self._by_job.get(watcher.job_id)
        if others is not None:
            others.discard(watcher)
            if not others:
                del self._by_job[watcher.job_id]


class Watcher:
    """Collects which items of one job changed, until asked; of ANY_JOB only that something did."""

    def __init__(self, watchers: Watchers, job_id: int) -> None:
        self._watchers = watchers
        self.job_id = job_id
        self._items: set[int] = set()
        self._news = asyncio.Event()

    def tell(self, item: int) -> None:
        self._items.add(item)
        self._news.set()

    async def next(self, timeout_s: float) -> set[int]:
        """Item numbers that changed (-1: the job itself); empty after ``timeout_s`` quiet seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return set()
        return self.taken()

    def taken(self) -> set[int]:
        """As ``next``, without waiting."""
        self._news.clear()
        changed, self._items = self._items, set()
        return changed

    def close(self) -> None:
        self._watchers.leave(self)
