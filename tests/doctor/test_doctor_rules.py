"""The rules as a body: one slug a rule, every reference met, nothing destructive on less than proof."""

from __future__ import annotations

import re

from anycard.doctor.explain import explanation
from anycard.doctor.rules import FAMILIES, all_rules
from anycard.doctor.tables import cuda_floor_driver, torch_npu_pairs, xids

RULES = all_rules()
SLUGS = [rule.slug for rule in RULES]
_DESTRUCTIVE = re.compile(
    r"\brm -rf|mkfs|dd if=|--purge|format |reflash|nvflash|reinstall (?:the )?(?:system|Windows|Ubuntu)", re.IGNORECASE
)


def test_one_rule_a_slug():
    assert len(SLUGS) == len(set(SLUGS))
    assert len(FAMILIES) == len(set(FAMILIES))


def test_every_rule_is_whole():
    for rule in RULES:
        assert rule.clues and rule.mend and rule.says.endswith("."), rule.slug
        assert rule.authority and rule.next_check, rule.slug
        assert all(0 < clue.certainty < 1 and clue.conditions for clue in rule.clues), rule.slug


def test_explained_causes_exist_and_no_two_explain_each_other():
    explains = {rule.slug: set(rule.explains) for rule in RULES}
    for slug, others in explains.items():
        assert others <= set(SLUGS), slug
        assert slug not in others
        assert not [other for other in others if slug in explains[other]], slug


def test_no_mend_destroys():
    for rule in RULES:
        for step in rule.mend:
            assert not _DESTRUCTIVE.search(f"{step.says} {step.command or ''}"), rule.slug


def test_every_rule_can_be_explained():
    for rule in RULES:
        told = explanation(rule)
        assert told["cause"] == rule.slug
        assert all(clue["all_of"] for clue in told["clues"])


def test_tables_hold_what_the_rules_ask():
    assert xids()[79].mnemonic == "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"
    assert xids()[63].immediate == "IGNORE"
    assert torch_npu_pairs()["2.8.0.post2"] == ("2.8.0", "8.5.0")
    assert [cuda_floor_driver(major) for major in ("11", "12", "13", "9")] == [450, 525, 580, None]
