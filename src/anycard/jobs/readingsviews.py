"""Readings as JSON: the shapes of GET /v1/readings, /v1/readings/live and /v1/jobs/REF/readings (docs/readings.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from anycard.cards.readings import views
from anycard.cards.readings.shapes import Tick
from anycard.jobs.attribution import Owner
from anycard.jobs.readings import Span
from anycard.model.instant import rfc3339
from anycard.model.series import BITS_COLUMN, COLUMNS, WHOLE_COLUMNS, Series, reasons_of
from anycard.store.readings import USE_COLUMNS, MarkRow, UseRow

SCHEMA = "anycard.readings/1"
JSON_COLUMNS = tuple("throttle_reasons" if name == BITS_COLUMN else name for name in COLUMNS)
_DIGITS = 4
_USE_FIELDS = ("item", "attempt", *USE_COLUMNS)


def span_json(span: Span, columns: Collection[str] | None = None, *, with_uses: bool = False) -> dict[str, Any]:
    """A column in which nothing was seen is null. ``columns`` None: all."""
    wanted = JSON_COLUMNS if columns is None else tuple(name for name in JSON_COLUMNS if name in columns)
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "step_s": span.step_s,
        "since": rfc3339(span.since),
        "until": rfc3339(span.until),
        "cards": [_series_json(series, wanted) for series in span.cards],
        "marks": [mark_json(mark) for mark in span.marks],
    }
    if with_uses:
        answer["uses"] = [_use_row_json(use) for use in span.uses]
    return answer


def _series_json(series: Series, columns: Collection[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"card": series.card_id, "times": [round(at, 3) for at in series.times]}
    for name in columns:
        column = series.column(BITS_COLUMN if name == "throttle_reasons" else name)
        if all(value is None for value in column):
            row[name] = None
        elif name == "throttle_reasons":
            row[name] = [None if (told := reasons_of(bits)) is None else list(told) for bits in column]
        else:
            row[name] = [_number(name, value) for value in column]
    return row


def _number(name: str, value: float | None) -> float | int | None:
    if value is None:
        return None
    return (
        round(value)
        if name in WHOLE_COLUMNS or name in ("item", "attempt", "host_memory_bytes", "memory_bytes")
        else round(value, _DIGITS)
    )


def mark_json(mark: MarkRow) -> dict[str, Any]:
    return {
        "at": rfc3339(mark.at),
        "card": mark.card_id,
        "kind": mark.kind,
        "text": str(mark.text),
        "text_msgid": mark.text.msgid,
        "text_params": dict(mark.text.params),
    }


def _use_row_json(use: UseRow) -> dict[str, Any]:
    row: dict[str, Any] = {"at": rfc3339(use.at), "card": use.card_id}
    return row | {name: _number(name, getattr(use, name)) for name in _USE_FIELDS}


def tick_json(tick: Tick | None, owners: Mapping[int, Owner]) -> dict[str, Any]:
    """The last tick; ``job`` of a program is null where anycard did not start it."""
    answer = views.tick_json(tick)
    for use in answer["uses"]:
        if (owner := owners.get(use["pid"])) is not None:
            use |= {"job": owner.job, "item": owner.item, "job_items": owner.items, "attempt": owner.attempt}
    return answer
