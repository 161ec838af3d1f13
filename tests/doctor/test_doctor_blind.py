"""Cases that the doctor missed at first sight stay found, and what a working machine prints is never called a fault."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.rules import all_rules
from anycard.doctor.shapes import Diagnosis, Verdict

FOLDER = Path(__file__).parent / "blind"
VERDICTS = {rule.slug: rule.verdict for rule in all_rules()}


@dataclass
class Blind:
    right: list[str]
    platform: str
    evidence: dict[str, list[str]] = field(default_factory=dict)


def blind_cases(text: str) -> list[Blind]:
    """``## CAUSE [also right ...] | platform``, then ``[kind]`` and its lines."""
    cases: list[Blind] = []
    kind = ""
    for line in text.splitlines():
        if line.startswith("## "):
            right, _, platform = line[3:].partition(" | ")
            cases.append(Blind(right.split(), platform.strip()))
        elif match := re.fullmatch(r"\[([a-z_-]+)\]", line):
            kind = match[1]
            cases[-1].evidence[kind] = []
        elif cases:
            cases[-1].evidence[kind].append(line)
    return cases


CASES = blind_cases((FOLDER / "missed.txt").read_text("utf-8"))
HEALTHY = blind_cases((FOLDER / "healthy.txt").read_text("utf-8"))


def _diagnosed(case: Blind) -> Diagnosis:
    kinds = sorted(case.evidence.items(), key=lambda item: item[0] == "question")
    sources = [text_source(kind, "\n".join(lines), spoken=kind == "question") for kind, lines in kinds]
    return diagnose(sources, case.platform)


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.right[0]}" for number, case in enumerate(CASES)])
def test_missed_once(case):
    diagnosis = _diagnosed(case)
    assert diagnosis.findings[0].cause in case.right
    assert diagnosis.verdict == VERDICTS[diagnosis.findings[0].cause]


@pytest.mark.parametrize("case", HEALTHY, ids=[str(number) for number in range(len(HEALTHY))])
def test_what_a_working_machine_prints(case):
    assert _diagnosed(case).verdict not in (Verdict.FAULT, Verdict.APPLICATION)
