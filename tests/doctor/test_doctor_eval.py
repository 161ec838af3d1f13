"""Public reports with an established cause, kept outside the project: $ANYCARD_EVAL (../shared/eval unless told)."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from noise import bury

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose

ROOT = Path(__file__).parents[2]
CASES = Path(os.environ.get("ANYCARD_EVAL", ROOT / "../shared/eval"), "doctor", "cases.jsonl")


@pytest.fixture(scope="module")
def cases():
    if not CASES.is_file():
        pytest.skip(f"no public cases at {CASES}: set ANYCARD_EVAL")
    every = [json.loads(line) for line in CASES.read_text("utf-8").splitlines() if line.strip()]
    return [case for case in every if case.get("program_lines", True)]


def _score(cases, change):
    tally = Counter()
    for number, case in enumerate(cases):
        kinds = sorted(case["evidence"].items(), key=lambda kind: kind[0] == "question")
        sources = [
            text_source(f"{kind}.txt", change(kind, text, number), spoken=kind == "question") for kind, text in kinds
        ]
        seen = diagnose(sources, case["platform"])
        causes = [finding.cause for finding in seen.findings]
        right = {case["cause"]["slug"], *case.get("also_right", [])}
        honest = case.get("undecidable") and seen.verdict == "undecided" and seen.findings
        top3 = bool(right & set(causes[:3])) or honest
        tally["top1"] += bool(right & set(causes[:1])) or bool(case.get("undecidable") and top3)
        tally["top3"] += bool(top3)
        tally["verdict"] += seen.verdict in case["verdicts"] or bool(honest)
        tally["false_alarm"] += case["verdict"] in ("healthy", "expected") and seen.verdict == "fault"
    return {name: tally[name] / len(cases) for name in ("top1", "top3", "verdict", "false_alarm")}


def test_given_cases(cases):
    score = _score(cases, lambda kind, text, number: text)
    assert score["top1"] >= 0.9 and score["top3"] >= 0.95 and score["verdict"] >= 0.95, score
    assert score["false_alarm"] == 0


@pytest.mark.timeout(600)  # some 700,000 lines
def test_given_cases_in_5000_healthy_lines(cases):
    def buried(kind, text, number):
        return text if kind in ("question", "env") else "\n".join(bury(text.split("\n"), 5000, number))

    plain = _score(cases, lambda kind, text, number: text)
    hidden = _score(cases, buried)
    assert all(hidden[name] >= plain[name] - 0.03 for name in ("top1", "top3", "verdict")), hidden
    assert hidden["false_alarm"] == 0
