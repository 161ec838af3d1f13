"""What is free while a plan is made, and what of it is set aside for jobs that wait.

Within one plan everything here only shrinks: what did not fit once does not fit later. The planner's memory of failed demands rests on
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from anycard.model.demand import Demand
from anycard.scheduling.feasibility import Candidates, millicores
from anycard.scheduling.plan import HostState


@dataclass(slots=True)
class Quantity:
    """CPUs in millicores, or memory in bytes. ``kept`` of what is ``free`` is set aside, first for ``keeper``; ``first_in_line`` is the
    first job that waits because there is too little of it."""

    total: int
    free: int
    kept: int = 0
    keeper: int | None = None
    first_in_line: int | None = None

    @property
    def available(self) -> int:
        return max(0, self.free - self.kept)

    def keep(self, amount: int, job_id: int) -> None:
        more = min(amount, self.available)
        if more > 0:
            self.kept += more
            self.keeper = job_id if self.keeper is None else self.keeper

    def in_front(self, amount: int) -> int | None:
        """The job that must start before one that asks for ``amount`` can: first in line, or keeping what would have to be used."""
        if self.first_in_line is not None:
            return self.first_in_line
        return self.keeper if amount + self.kept > self.total else None


@dataclass(slots=True)
class Pool:
    """``free_cards`` are those that nothing uses; ``kept_cards`` of them are set aside (card -> keeper). ``first_in_line`` by card: the
    first job that waits for that card, whether or not it is free."""

    cpus: Quantity
    memory: Quantity
    free_cards: set[str]
    kept_cards: dict[str, int] = field(default_factory=dict)
    first_in_line: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(host: HostState) -> Pool:
        return Pool(
            Quantity(millicores(host.cpus_total), max(0, millicores(host.cpus_free))),
            Quantity(host.memory_total_bytes, max(0, host.memory_free_bytes)),
            {card.id for card in host.cards if card.free},
        )

    def pick_cards(self, groups: Iterable[Candidates], count: int) -> tuple[str, ...] | None:
        """The ``count`` best cards of the first vendor that has as many available; None if none has."""
        for group in groups:
            ids = self.available_cards(group)
            if len(ids) >= count:
                return tuple(ids[:count])
        return None

    def available_cards(self, group: Candidates) -> list[str]:
        return [card.id for card in group.cards if card.id in self.free_cards and card.id not in self.kept_cards]

    def count_free(self, group: Candidates) -> int:
        """Of the cards of ``group``, those that nothing uses, set aside or not."""
        return sum(card.id in self.free_cards for card in group.cards)

    def holder(self, card_id: str) -> int | None:
        """The waiting job that will have this card first, if any."""
        return self.kept_cards.get(card_id, self.first_in_line.get(card_id))

    def in_front_for_cards(self, groups: Sequence[Candidates], count: int) -> int | None:
        """The job that must start before one that asks for ``count`` cards of ``groups`` can; None if it could come first somewhere."""
        holders = [[self.holder(card.id) for card in group.cards] for group in groups]
        if any(of_group.count(None) >= count for of_group in holders):
            return None
        return next((holder for holder in holders[0] if holder is not None), None)

    def take(self, demand: Demand, card_ids: tuple[str, ...]) -> None:
        self.cpus.free -= millicores(demand.cpus)
        self.memory.free -= demand.memory_bytes or 0
        self.free_cards.difference_update(card_ids)

    def keep(self, demand: Demand, groups: Iterable[Candidates], job_id: int) -> None:
        """Sets aside, of what is available, all that ``demand`` could use: CPUs, memory, and cards of each vendor that could serve it."""
        self.cpus.keep(millicores(demand.cpus), job_id)
        self.memory.keep(demand.memory_bytes or 0, job_id)
        if demand.card_count:
            for group in groups:
                for card_id in self.available_cards(group)[: demand.card_count]:
                    self.kept_cards[card_id] = job_id

    def stand_in_line_for_cards(self, groups: Iterable[Candidates], job_id: int) -> None:
        for group in groups:
            for card in group.cards:
                self.first_in_line.setdefault(card.id, job_id)
