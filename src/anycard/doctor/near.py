"""What the evidence resembles: it ranks what the clues leave open, and names causes that no clue fits. Never a diagnosis by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anycard.doctor.case import Case
from anycard.doctor.facts import TROUBLE
from anycard.doctor.resemble import resemblances, words
from anycard.doctor.rule import HINTS, SHOWS, Rule
from anycard.doctor.shapes import Finding, Line
from anycard.model.text import Text

_LONG = 200  # lines
_COMPLAINS = re.compile("|".join(TROUBLE), re.IGNORECASE)
_NOTHING_COUNTED = re.compile(r"[:=] *(?:0|No|N/A|None|Not Active)\s*$", re.IGNORECASE)  # a table's row of errors: none
_LIFT = 0.5  # how much of the way to certainty a full resemblance brings a finding that its clues leave unsure
_MOST_ALONE = HINTS - 0.05
_LEAST_ALONE = 0.1
_KEPT_ALONE = 4
_NO_GROUND = 0.15  # for its sound nothing is called a fault where nobody complains, nor healthy where somebody does


def has_trouble(case: Case, *, by_anyone: bool = False) -> bool:
    """Whether any program says that something went wrong; ``by_anyone``: or any person."""
    return any(
        by_anyone if line.spoken else not _NOTHING_COUNTED.search(line.text)
        for expression in TROUBLE
        for line in case.seen(expression)
    )


def with_resemblances(found: list[Finding], rules: tuple[Rule, ...], case: Case) -> list[Finding]:
    """``found``, each lifted by how much the whole evidence resembles it, and the few other causes that it resembles most."""
    alike = resemblances(_telling(case.sample), rules)
    lifted = [_lifted(finding, alike.get(finding.cause, 0.0)) for finding in found]
    known = {finding.cause for finding in found}
    trouble = has_trouble(case, by_anyone=True)
    others = sorted((rule for rule in rules if rule.slug not in known), key=lambda rule: -alike.get(rule.slug, 0.0))
    for rule in others[:_KEPT_ALONE]:
        certainty = min(alike.get(rule.slug, 0.0), _MOST_ALONE)
        if trouble == rule.verdict.harmless:
            certainty = min(certainty, _NO_GROUND)
        if certainty >= _LEAST_ALONE:
            lifted.append(_guess(rule, certainty, case.sample))
    return lifted


def _telling(sample: Sequence[Line]) -> list[str]:
    """Of a long log only what complains: the rest of it speaks of healthy things."""
    if len(sample) <= _LONG:
        return [line.text for line in sample]
    return [line.text for line in sample if line.spoken or _COMPLAINS.search(line.text)]


def _lifted(finding: Finding, alike: float) -> Finding:
    if finding.certainty >= SHOWS:
        return finding
    return replace(finding, certainty=min(SHOWS, finding.certainty + (1 - finding.certainty) * _LIFT * alike))


def _guess(rule: Rule, certainty: float, sample: Sequence[Line]) -> Finding:
    own = set(words(f"{rule.slug} {rule.says}"))
    closest = max(sample, key=lambda line: len(own.intersection(words(line.text))))
    return Finding(
        cause=rule.slug,
        family=rule.family,
        verdict=rule.verdict,
        certainty=certainty,
        says=Text(rule.says),
        evidence=(closest,),
        mend=rule.mend,
        next_check=rule.next_check,
        authority=rule.authority,
    )
