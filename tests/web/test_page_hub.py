"""What pages that follow the same job share."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from anycard.web.stream import MANY_ITEMS, Hub


class Reads:
    """Stands for the store: how often it was read, and what for."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []
        self.version = 0

    async def job(self, job_id: int) -> dict[str, Any]:
        found = {"id": job_id, "version": self.version}
        await asyncio.sleep(0.01)
        return found

    async def item_states(self, job_id: int, numbers: set[int]) -> list[tuple[int, str]]:
        self.asked.append(set(numbers))
        return [(number, "running") for number in numbers]


def test_a_hundred_pages_cost_one_read_and_none_gets_an_old_answer() -> None:
    reads = Reads()

    async def run() -> None:
        hub = Hub(SimpleNamespace(jobs=reads), {})  # type: ignore[arg-type]
        seen = [asyncio.create_task(hub.seen(7, {number % 3})) for number in range(100)]
        await asyncio.wait(seen, timeout=0.055)  # it is being read, or was
        reads.version = 1
        late = await hub.seen(7, set())
        assert late[0]["version"] == 1
        for job, states in await asyncio.gather(*seen):
            assert job["id"] == 7 and states == {0: "running", 1: "running", 2: "running"}
        many = [hub.seen(7, {number, number + 1000}) for number in range(MANY_ITEMS)]
        assert {states for _, states in await asyncio.gather(*many)} == {None}

    asyncio.run(run())
    assert reads.asked == [{0, 1, 2}, set()]
