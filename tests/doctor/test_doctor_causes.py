"""Every cause is told from its own evidence, alone and buried in a long healthy log."""

from __future__ import annotations

import pytest
from doctor_cases import Fixture, fixtures
from noise import bury, healthy_lines, scatter

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.rules import all_rules
from anycard.doctor.shapes import Diagnosis

CASES = fixtures()


def _diagnosed(fixture: Fixture, printed: list[str]) -> Diagnosis:
    sources = [text_source("log", "\n".join(printed))]
    if fixture.said:
        sources.append(text_source("question", "\n".join(fixture.said), spoken=True))
    return diagnose(sources, fixture.platform)


@pytest.mark.parametrize("fixture", CASES, ids=lambda fixture: fixture.path.stem)
def test_cause_leads(fixture):
    diagnosis = _diagnosed(fixture, fixture.printed)
    assert diagnosis.findings[0].cause == fixture.cause
    assert diagnosis.verdict == next(rule.verdict for rule in all_rules() if rule.slug == fixture.cause)
    assert diagnosis.findings[0].evidence
    assert diagnosis.findings[0].mend


@pytest.mark.parametrize("hidden", [bury, scatter])
def test_as_good_in_a_long_healthy_log(hidden):
    missed = [
        fixture.path.stem
        for number, fixture in enumerate(CASES)
        if _diagnosed(fixture, hidden(fixture.printed, 800, number)).findings[0].cause != fixture.cause
    ]
    assert len(missed) <= 0.03 * len(CASES), missed


def test_a_healthy_log_is_no_fault():
    diagnosis = diagnose([text_source("log", "\n".join(healthy_lines(5000)))])
    assert not [finding for finding in diagnosis.findings if finding.certainty >= 0.3 and not finding.verdict.harmless]
    assert diagnosis.verdict != "fault"


def test_every_cause_has_a_fixture():
    assert {rule.slug for rule in all_rules()} == {fixture.cause for fixture in CASES}
