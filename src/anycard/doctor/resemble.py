"""How much the evidence as a whole sounds like a rule: words in common, rare ones first. For what no clue fits, and for what several do.

A clue knows a phrase; a stranger's log words it otherwise, but of the same things. So each rule is also a bag of the words that its
clues, its sentence and its mend use, and the evidence is another (cosine of tf-idf weights). It never stands alone: a resemblance
is a hint, below what a clue says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from math import log, sqrt

from anycard.doctor.rule import Rule
from anycard.doctor.rules import all_rules

_META = re.compile(r"\\.|\(\?[:!=<]*|\{[\d,]+\}|\[\^?[^\]]*\]|[()|*+?.^$\\]")
_PAIR = re.compile(r"\[(\w)\w\]")  # [Cc]ompute
_WORD = re.compile(r"[a-z]{3,}|(?<!\d)\d{2,4}(?!\d)")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDINGS = ("ing", "ed", "s")
_SLUG, _SAYS, _MEND, _SEPARATES = 2.0, 1.0, 0.5, 0.3  # how often a word counts that stands there, against once a clue


def words(text: str) -> list[str]:
    """Lower-case stems of three letters and more, and numbers of two to four digits (codes and generations, not addresses)."""
    return [_stem(word) for word in _WORD.findall(_HUMP.sub(" ", text).lower())]


@cache
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if len(word) > len(ending) + 3 and word.endswith(ending):
            return word[: -len(ending)]
    return word


def resemblances(lines: Iterable[str], rules: tuple[Rule, ...]) -> dict[str, float]:
    """Slug -> 0..1: every rule that has a word in common with ``lines``."""
    vocabulary = _vocabulary(rules)
    counted = Counter(word for line in lines for word in words(line))
    query = {
        word: (1 + log(count)) * vocabulary.rarity[word] for word, count in counted.items() if word in vocabulary.rarity
    }
    length = sqrt(sum(weight * weight for weight in query.values()))
    if not length:
        return {}
    found: dict[str, float] = {}
    for word, weight in query.items():
        for slug, share in vocabulary.holders[word].items():
            found[slug] = found.get(slug, 0.0) + weight * share / length
    return found


class _Vocabulary:
    """``rarity``: how few rules use a word; ``holders``: which ones, each with the word's share in it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        used = {rule.slug: _words_of(rule) for rule in rules}
        spread = Counter(word for counts in used.values() for word in counts)
        self.rarity: Mapping[str, float] = {word: log(len(used) / count) for word, count in spread.items()}
        self.holders: dict[str, dict[str, float]] = {}
        for slug, counts in used.items():
            weights = {word: (1 + log(1 + count)) * self.rarity[word] for word, count in counts.items()}
            length = sqrt(sum(weight * weight for weight in weights.values())) or 1.0
            for word, weight in weights.items():
                self.holders.setdefault(word, {})[slug] = weight / length


def _vocabulary(rules: tuple[Rule, ...]) -> _Vocabulary:
    return _everyday() if rules is all_rules() else _Vocabulary(rules)


@cache
def _everyday() -> _Vocabulary:
    return _Vocabulary(all_rules())


def _words_of(rule: Rule) -> Counter[str]:
    patterns = "\n".join(dict.fromkeys(rule.patterns()))
    counts: Counter[str] = Counter(words(_META.sub(" ", _PAIR.sub(r"\1", patterns))))
    mend = " ".join(f"{step.says} {step.command or ''}" for step in rule.mend)
    for text, share in (
        (rule.slug.replace("-", " "), _SLUG),
        (rule.says, _SAYS),
        (mend, _MEND),
        (rule.separates, _SEPARATES),
    ):
        for word in words(text):
            counts[word] += share  # type: ignore[assignment]
    return counts
