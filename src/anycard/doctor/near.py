"""When no rule fits: causes whose clues were met in part, as a ranked list of hints. Never a diagnosis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from anycard.doctor.case import Case
from anycard.doctor.facts import TROUBLE
from anycard.doctor.rule import Clue, Rule, Seen
from anycard.doctor.scan import words_of
from anycard.doctor.shapes import Finding, Line
from anycard.model.text import Text

_LONG, _SHORT = 10, 6  # letters in common with a clue: a phrase, a word
_PHRASE, _WORD = 0.28, 0.2
_TOO_COMMON = 4  # words that so many rules share tell nothing
_NO_GROUND = (
    0.15  # without any word of trouble nothing is called a fault; and nothing is called healthy for half a clue
)


def has_trouble(case: Case) -> bool:
    """Whether any program says that something went wrong."""
    return any(not line.spoken for expression in TROUBLE for line in case.seen(expression))


def with_near_misses(found: list[Finding], rules: Iterable[Rule], case: Case) -> list[Finding]:
    """``found`` and, behind what is certain, every further cause with a clue that was met in part."""
    rules = list(rules)
    shared = Counter(words for rule in rules for words in {words_of(pattern) for pattern in rule.patterns()})
    known = {finding.cause for finding in found}
    trouble = has_trouble(case)
    more = []
    for rule in rules:
        if rule.slug in known:
            continue
        best = max(
            (near for clue in rule.clues for near in _near(clue, case, shared)), default=None, key=lambda pair: pair[0]
        )
        if best is not None:
            certainty = best[0] if trouble and not rule.verdict.harmless else min(best[0], _NO_GROUND)
            more.append(
                Finding(
                    cause=rule.slug,
                    family=rule.family,
                    verdict=rule.verdict,
                    certainty=certainty,
                    says=Text(rule.says),
                    evidence=(best[1],),
                    mend=rule.mend,
                    next_check=rule.next_check,
                    authority=rule.authority,
                )
            )
    return found + more


def _near(clue: Clue, case: Case, shared: Counter[str]) -> Iterator[tuple[float, Line]]:
    """The conditions of ``clue`` that hold, or whose words were seen: each with what it is worth."""
    for condition in clue.conditions:
        if not isinstance(condition, Seen):
            continue
        for expression in condition.expressions:
            words = words_of(expression)
            if shared[words] > _TOO_COMMON or len(words) < _SHORT:
                continue
            held = case.seen(expression)
            line = held[0] if held else case.near(expression)
            if line is not None:
                worth = _PHRASE if len(words) >= _LONG else _WORD
                yield (worth * clue.certainty + (0.05 if held else 0.0), line)
