"""Everything that was seen of one case, as the rules ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anycard.doctor.scan import Sightings
from anycard.doctor.shapes import Fact, Line


class Case:
    """``platforms`` is what the evidence (and a platform hint) says about where it was printed."""

    def __init__(self, sightings: Sightings, facts: Mapping[str, Sequence[Fact]], platforms: frozenset[str]) -> None:
        self._sightings = sightings
        self._facts = facts
        self.platforms = platforms

    def seen(self, expression: str) -> Sequence[Line]:
        """The lines that match ``expression``, which must be one of some rule's."""
        return self._sightings.matches.get(expression, ())

    @property
    def sample(self) -> Sequence[Line]:
        """The lines that tell what the evidence speaks of."""
        return self._sightings.sample

    def facts(self, name: str) -> Sequence[Fact]:
        """What programs printed, in order; a person's words only where no program spoke."""
        every = self._facts.get(name, ())
        return [fact for fact in every if not fact.line.spoken] or every

    def fact(self, name: str) -> Fact | None:
        every = self.facts(name)
        return every[0] if every else None

    def all_facts(self) -> tuple[Fact, ...]:
        return tuple(fact for facts in self._facts.values() for fact in facts)
