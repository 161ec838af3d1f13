"""Which jobs could start something now, kept so that a turn looks only at those that matter.

A queue may hold ten thousand jobs while eight things run. Jobs with the same demands wait for the same things, so of each such *shape* only
as many need to be looked at as could start at once, and one more, which keeps what it waits for.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from anycard.model.demand import Demand
from anycard.scheduling.plan import HostState, QueuedJob

_Shape = tuple[tuple[Demand, ...], frozenset[str]]
_Key = tuple[int, int]  # (-priority, id): the queue's order


class Startable:
    """``known`` holds every queued job as the planner sees it, by id; those with ``ready`` items are found by shape."""

    def __init__(self) -> None:
        self.known: dict[int, QueuedJob] = {}
        self._by_shape: dict[_Shape, list[_Key]] = {}

    def put(self, job: QueuedJob) -> None:
        self.drop(job.id)
        self.known[job.id] = job
        if job.ready > 0:
            keys = self._by_shape.setdefault((job.options, job.avoid), [])
            key = (-job.priority, job.id)
            if keys and keys[-1] > key:
                bisect.insort(keys, key)
            else:
                keys.append(key)

    def drop(self, job_id: int) -> None:
        job = self.known.pop(job_id, None)
        if job is None or job.ready <= 0:
            return
        shape = (job.options, job.avoid)
        keys = self._by_shape[shape]
        del keys[bisect.bisect_left(keys, (-job.priority, job_id))]
        if not keys:
            del self._by_shape[shape]

    def candidates(self, host: HostState) -> tuple[QueuedJob, ...]:
        """Enough of the startable jobs for one plan; in no particular order."""
        return tuple(
            self.known[job_id]
            for (options, _), keys in self._by_shape.items()
            for _, job_id in keys[: _most_starts(options, host) + 1]
        )


def _most_starts(options: Iterable[Demand], host: HostState) -> int:
    """An upper bound of how many items of these demands could start on what is free."""
    most = 0
    free_cards = sum(card.free for card in host.cards)
    for demand in options:
        fits = int((host.cpus_free + 1e-6) / max(demand.cpus, 1e-3))
        if demand.card_count:
            fits = min(fits, free_cards // demand.card_count)
        most = max(most, fits)
    return most
