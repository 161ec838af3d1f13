"""The one shape of a rule, and the conditions that its clues are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from anycard.doctor.shapes import Line, Step, Verdict
from anycard.model.text import Text

if TYPE_CHECKING:
    from anycard.doctor.case import Case

# How much a clue carries. Above SUGGESTS a finding stands alone; below HINTS it only joins a ranked list.
PROVES, SHOWS, SUGGESTS, HINTS, ALLOWS = 0.95, 0.85, 0.65, 0.45, 0.3


class Condition(Protocol):
    """Holds or does not; when it holds it names the lines (perhaps none) that it rests on."""

    def patterns(self) -> Iterator[str]: ...

    def lines(self, case: Case) -> tuple[Line, ...] | None: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A line matches one of the regular expressions (case does not matter). ``who``: ``any``, ``program`` or ``person``."""

    expressions: tuple[str, ...]
    who: str = "any"

    def patterns(self) -> Iterator[str]:
        yield from self.expressions

    def lines(self, case: Case) -> tuple[Line, ...] | None:
        found = [line for expression in self.expressions for line in case.seen(expression)]
        if self.who != "any":
            found = [line for line in found if line.spoken == (self.who == "person")]
        return tuple(sorted(found, key=lambda line: line.place)[:4]) or None


@dataclass(frozen=True, slots=True)
class On:
    """The evidence was printed on one of these platforms: linux, wsl, windows, mac, vm, container, k8s, slurm."""

    platforms: tuple[str, ...]

    def patterns(self) -> Iterator[str]:
        return iter(())

    def lines(self, case: Case) -> tuple[Line, ...] | None:
        return () if case.platforms.intersection(self.platforms) else None


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison of facts: the lines it rests on, or None."""

    judge: Callable[[Case], tuple[Line, ...] | None]

    def patterns(self) -> Iterator[str]:
        return iter(())

    def lines(self, case: Case) -> tuple[Line, ...] | None:
        return self.judge(case)


@dataclass(frozen=True, slots=True)
class Read:
    """A job's readings have the fact ``name`` (doctor/measured.py), with a value of ``at_least``."""

    name: str
    at_least: int = 0

    def patterns(self) -> Iterator[str]:
        return iter(())

    def lines(self, case: Case) -> tuple[Line, ...] | None:
        found = (fact for fact in case.facts(self.name) if fact.line.measured and int(fact.value) >= self.at_least)
        return tuple(fact.line for fact in found) or None


@dataclass(frozen=True, slots=True)
class Clue:
    """All ``conditions`` together carry ``certainty``, unless one of ``unless`` holds."""

    certainty: float
    conditions: tuple[Condition, ...]
    unless: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What the field knows about one cause.

    ``says`` is the cause in a sentence. ``separates`` tells a contributor what keeps it apart from its neighbours. ``explains`` lists the
    causes that are its consequences or look-alikes: when this one is found, they step behind it. ``authority`` is where the knowledge
    comes from.
    """

    slug: str
    family: str
    verdict: Verdict
    says: str
    clues: tuple[Clue, ...]
    mend: tuple[Step, ...]
    authority: str
    separates: str = ""
    explains: tuple[str, ...] = ()
    next_check: str | None = None

    def patterns(self) -> Iterator[str]:
        for clue in self.clues:
            for condition in (*clue.conditions, *clue.unless):
                yield from condition.patterns()


def _condition(given: str | Condition) -> Condition:
    return Seen((given,)) if isinstance(given, str) else given


def clue(certainty: float, *conditions: str | Condition, unless: tuple[str | Condition, ...] = ()) -> Clue:
    """A bare string is a regular expression seen anywhere. Spell one line only: real logs come interleaved."""
    return Clue(certainty, tuple(map(_condition, conditions)), tuple(map(_condition, unless)))


def seen(*expressions: str) -> Seen:
    return Seen(expressions)


def printed(*expressions: str) -> Seen:
    """By a program, not by a person."""
    return Seen(expressions, "program")


def said(*expressions: str) -> Seen:
    """By a person."""
    return Seen(expressions, "person")


def measured(name: str, at_least: int = 0) -> Read:
    """By the readings of a job's cards."""
    return Read(name, at_least)


def on(*platforms: str) -> On:
    return On(platforms)


def step(says: str, command: str | None = None, on: str = "", *, safe: bool = False) -> Step:
    """``on``: platforms, separated by spaces. ``safe``: see ``Step``."""
    return Step(Text(says), command, tuple(on.split()), safe)
