"""The report as JSON: GET /v1/jobs/REF/report (docs/report.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anycard.jobs.report.figures import CardFigures, Figures
from anycard.jobs.report.findings import Finding
from anycard.model.instant import rfc3339
from anycard.model.text import Text

SCHEMA = "anycard.report/1"


def report_json(
    job: Mapping[str, Any],
    made: Figures | None,
    found: Sequence[Finding],
    names: Mapping[str, str],
    *,
    until: float | None,
    step_s: float | None,
) -> dict[str, Any]:
    """``job`` is a row of the store; ``made`` None: it never started. ``until`` is the end of what was looked at."""
    return {
        "schema": SCHEMA,
        "job": job["id"],
        "name": job["name"],
        "state": job["state"],
        "since": rfc3339(made.began) if made else None,
        "until": rfc3339(until),
        "step_s": step_s,
        "cards": [_card_json(card, names.get(card.card_id)) for card in made.cards] if made else [],
        "cpus": _rounded(made.cpu.cpus) if made else None,
        "cpu_cores": _rounded(made.cpu.cores) if made else None,
        "findings": [_finding_json(one) for one in found],
    }


def _card_json(card: CardFigures, name: str | None) -> dict[str, Any]:
    return {
        "card": card.card_id,
        "name": name,
        "holds": card.holds,
        "held_s": _rounded(card.held_s),
        "seen_s": _rounded(card.seen_s),
        "utilisation": _rounded(card.utilisation),
        "idle_s": _rounded(card.idle_s),
        "idle_share": _rounded(card.idle_share),
        "idle_before_s": _rounded(card.before_s),
        "idle_after_s": _rounded(card.after_s),
        "idle_between_s": {cause.value: _rounded(seconds) for cause, seconds in card.by_cause.items()},
        "idle_stretches": [
            {"since": rfc3339(one.since), "until": rfc3339(one.until), "cause": one.cause.value}
            for one in card.stretches
        ],
        "memory_peak_bytes": _whole(card.memory_peak_bytes),
        "memory_total_bytes": _whole(card.memory_total_bytes),
        "near_cap_s": _rounded(card.near_cap_s),
        "near_cap_share": _rounded(card.near_cap_share),
        "throttled_s": _rounded(card.throttled_s),
        "throttled_share": _rounded(card.throttled_share),
        "throttle_reasons_s": {reason: _rounded(seconds) for reason, seconds in card.throttle_reasons.items()},
        "temperature_peak_c": _rounded(card.temperature_peak_c),
        "power_w": _rounded(card.power_w),
    }


def _finding_json(found: Finding) -> dict[str, Any]:
    return {
        "kind": found.kind,
        **_told("text", "", found.text),
        **_told("advice", "advice_", found.advice),
        "share": _rounded(found.share),
        "cards": list(found.cards),
    }


def _told(name: str, prefix: str, text: Text | None) -> dict[str, Any]:
    return {
        name: str(text) if text else None,
        f"{prefix}msgid": text.msgid if text else None,
        f"{prefix}params": dict(text.params) if text else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
