"""A rule as data: what it looks for, in words that a contributor can check against a log."""

from __future__ import annotations

from typing import Any

from anycard.doctor.rule import Check, Condition, On, Read, Rule, Seen


def explanation(rule: Rule) -> dict[str, Any]:
    """The document of ``anycard doctor --explain CAUSE --json``."""
    return {
        "schema": "anycard.doctor-rule/1",
        "cause": rule.slug,
        "family": rule.family,
        "verdict": rule.verdict.value,
        "says": rule.says,
        "clues": [
            {
                "certainty": clue.certainty,
                "all_of": [_words(condition) for condition in clue.conditions],
                "unless": [_words(condition) for condition in clue.unless],
            }
            for clue in rule.clues
        ],
        "separates": rule.separates,
        "explains": list(rule.explains),
        "mend": [
            {"says": step.says.msgid, "command": step.command, "platforms": list(step.platforms), "safe": step.safe}
            for step in rule.mend
        ],
        "next_check": rule.next_check,
        "authority": rule.authority,
    }


def _words(condition: Condition) -> str:
    if isinstance(condition, Seen):
        who = {"any": "", "program": "printed ", "person": "said "}[condition.who]
        return who + " | ".join(condition.expressions)
    if isinstance(condition, On):
        return "on " + "/".join(condition.platforms)
    if isinstance(condition, Read):
        return f"measured {condition.name}" + (f" of {condition.at_least} or more" if condition.at_least else "")
    if isinstance(condition, Check):
        return f"check {condition.judge.__name__.strip('_')}"
    return repr(condition)
