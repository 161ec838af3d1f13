"""A diagnosis as JSON and as exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.doctor.shapes import SCHEMA, Diagnosis, Finding, Verdict

EXIT_CODES = {
    Verdict.HEALTHY: 0,
    Verdict.EXPECTED: 0,
    Verdict.FAULT: 1,
    Verdict.APPLICATION: 1,
    Verdict.UNDECIDED: 3,
}


def exit_code(told: Mapping[str, Any]) -> int:
    """Of a document that ``to_json`` made."""
    return EXIT_CODES[Verdict(told["verdict"])]


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The document of ``anycard doctor --json``."""
    return {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict.value,
        "next_check": diagnosis.next_check,
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "facts": [
            {"name": fact.name, "value": fact.value, "source": fact.line.source, "line": fact.line.number}
            for fact in diagnosis.facts[:100]
        ],
        "contradictions": [text.to_json() for text in diagnosis.contradictions],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.cause,
        "family": finding.family,
        "verdict": finding.verdict.value,
        "certainty": round(finding.certainty, 3),
        "says": str(finding.says),
        "says_msgid": finding.says.msgid,
        "evidence": [line.text for line in finding.evidence],
        "evidence_places": [{"source": line.source, "line": line.number} for line in finding.evidence],
        "mend": [str(step) for step in finding.mend],
        "steps": [
            {"says": str(step.says), "says_msgid": step.says.msgid, "command": step.command, "safe": step.safe}
            for step in finding.mend
        ],
        "next_check": finding.next_check,
        "authority": finding.authority,
    }
