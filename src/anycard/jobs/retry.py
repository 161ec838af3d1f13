"""Whether an ended attempt is followed by another. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from anycard.jobs.spec import RetryRule
from anycard.model.end_reason import CONSEQUENCES, EndReason

MAX_FREE_RETRIES = (
    20  # retries that are nobody's fault still end some day: a card that is lost twenty times needs a person
)
FREE_RETRY_WAIT_S = 2.0
MAX_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Again:
    """Queue the item again after ``wait_s`` seconds; ``on_budget``: it takes one of the retries that the job file gave."""

    wait_s: float
    on_budget: bool
    other_card: bool


def next_try(
    reason: EndReason,
    exit_code: int | None,
    rule: RetryRule,
    *,
    budget_used: int,
    free_used: int,
    cause: str | None = None,
) -> Again | None:
    """The next try after an attempt that ended for ``reason``, or None when this was the last. ``cause`` is what the doctor named.

    ``budget_used`` retries were already taken on the rule's budget, ``free_used`` outside it. Waits double from ``rule.wait_s``.
    """
    consequence = CONSEQUENCES[reason]
    if consequence.retry == "never":
        return None
    if consequence.retry == "free":
        if free_used >= MAX_FREE_RETRIES:
            return None
        return Again(min(FREE_RETRY_WAIT_S * 2**free_used, MAX_WAIT_S), False, consequence.other_card)
    if budget_used >= rule.times or not _asked(reason, exit_code, cause, rule, consequence.default_retry):
        return None
    return Again(min(rule.wait_s * 2**budget_used, max(rule.wait_s, MAX_WAIT_S)), True, consequence.other_card)


def _asked(reason: EndReason, exit_code: int | None, cause: str | None, rule: RetryRule, default: bool) -> bool:
    if rule.when_reasons is None and not rule.when_exit_codes and not rule.when_causes:
        return default
    return reason in (rule.when_reasons or ()) or exit_code in rule.when_exit_codes or cause in rule.when_causes
