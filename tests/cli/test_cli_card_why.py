"""The last column of `anycard cards`: what the column before it has said is not said again, in numbers that nobody knows."""

from __future__ import annotations

from typing import Any

from anycard.cli.cardtable import card_row

GRANTED = {"not_free_because_msgid": "is granted to attempt {attempt}", "not_free_because_params": {"attempt": 16}}
CARD: dict[str, Any] = {
    "id": "nvidia:GPU-1",
    "model": "NVIDIA A100-SXM4-80GB",
    "memory_bytes": 80 << 30,
    "health": "ok",
    "job": 5,
    "item": 0,
    "job_items": 1,
    **GRANTED,
}


def test_a_card_that_a_job_holds_names_the_job_and_no_attempt() -> None:
    row = card_row(CARD, [CARD])
    assert row[-2:] == ["job 5", ""]


def test_a_card_that_ails_under_a_job_still_says_why() -> None:
    sick = {**CARD, "health": "lost", "health_reason_msgid": "is {health}", "health_reason_params": {"health": "lost"}}
    assert card_row(sick, [sick])[-2:] == ["job 5", "is lost"]


def test_a_card_that_another_program_uses_says_which() -> None:
    used = {**CARD, "job": None, "not_free_because_msgid": "is held by {holder}"}
    used["not_free_because_params"] = {"holder": "pid 7"}
    assert card_row(used, [used])[-1] == "is held by pid 7"
