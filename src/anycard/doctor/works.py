"""Whether the evidence shows a card at work with its driver, and nothing else: then what was handed over is healthy, and not undecided."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anycard.doctor.case import Case
from anycard.doctor.near import has_trouble
from anycard.doctor.rule import ALLOWS
from anycard.doctor.shapes import Finding

# Somebody wants to know something: a working card is then no answer.
_ASKS = re.compile(
    r"[?？]|\b(?:why|how come|slow(?:er|ly|ness)?|stuck|help|problems?|issues?|wrong|not (?:used|using|work\w*|detected|seen)"
    r"|(?:is|are|do|wo)n't)\b|为什么|怎么|如何|慢|问题|没有|不",
    re.IGNORECASE,
)


def shows_a_working_card(case: Case, ranked: Sequence[Finding]) -> bool:
    """By a vendor's tool or a framework that reached every card that it lists, with no complaint of anybody, no question, and no more
    than a resemblance to any fault."""
    if not case.facts("card_works") or case.facts("card_unwell") or has_trouble(case, by_anyone=True):
        return False
    if any(not finding.verdict.harmless and finding.certainty >= ALLOWS for finding in ranked):
        return False
    return not any(line.spoken or _ASKS.search(line.text) for line in case.sample)
