"""Readings as JSON: the shapes of GET /v1/readings, /v1/readings/live and /v1/jobs/REF/readings (docs/readings.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from anycard.cards.readings.shapes import CardUse, Silent, Tick
from anycard.jobs.attribution import Owner
from anycard.jobs.readings import Span
from anycard.model.card import Reading
from anycard.model.instant import rfc3339
from anycard.model.series import BITS_COLUMN, COLUMNS, WHOLE_COLUMNS, Series, reasons_of
from anycard.model.text import Text
from anycard.store.readings import USE_COLUMNS, MarkRow, UseRow

SCHEMA = "anycard.readings/1"
TICK_SCHEMA = "anycard.tick/1"
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
    return {"at": rfc3339(mark.at), "card": mark.card_id, "kind": mark.kind, **_told("text", mark.text)}


def _use_row_json(use: UseRow) -> dict[str, Any]:
    row: dict[str, Any] = {"at": rfc3339(use.at), "card": use.card_id}
    return row | {name: _number(name, getattr(use, name)) for name in _USE_FIELDS}


# ---- the last tick


def tick_json(tick: Tick | None, owners: Mapping[int, Owner]) -> dict[str, Any]:
    """``at`` null: there was no tick yet."""
    return {
        "schema": TICK_SCHEMA,
        "at": rfc3339(tick.at) if tick else None,
        "readings": [reading_json(reading) for reading in tick.readings] if tick else [],
        "uses": [_use_json(use, owners.get(use.pid)) for use in tick.uses] if tick else [],
        "silent": [_silent_json(silent) for silent in tick.silent] if tick else [],
    }


def reading_json(reading: Reading) -> dict[str, Any]:
    return {
        "card": reading.card_id,
        "utilisation": reading.utilisation,
        "memory_used_bytes": reading.memory_used_bytes,
        "memory_total_bytes": reading.memory_total_bytes,
        "temperature_c": reading.temperature_c,
        "power_w": reading.power_w,
        "power_limit_w": reading.power_limit_w,
        "clock_mhz": reading.clock_mhz,
        "memory_clock_mhz": reading.memory_clock_mhz,
        "fan": reading.fan,
        "throttle_reasons": None if reading.throttle_reasons is None else list(reading.throttle_reasons),
        "memory_utilisation": reading.memory_utilisation,
        "pcie_generation": reading.pcie_generation,
        "pcie_width": reading.pcie_width,
        "ecc_corrected": reading.ecc_corrected,
        "ecc_uncorrected": reading.ecc_uncorrected,
        "io_wait": reading.io_wait,
    }


def _use_json(use: CardUse, owner: Owner | None) -> dict[str, Any]:
    """``job`` null: anycard did not start it."""
    return {
        "card": use.card_id,
        "pid": use.pid,
        "memory_bytes": use.memory_bytes,
        "utilisation": use.utilisation,
        "job": owner.job if owner else None,
        "item": owner.item if owner else None,
        "attempt": owner.attempt if owner else None,
    }


def _silent_json(silent: Silent) -> dict[str, Any]:
    return {"reader": silent.reader, "since": rfc3339(silent.since), **_told("why", silent.why)}


def _told(name: str, text: Text | None) -> dict[str, Any]:
    return {
        name: str(text) if text else None,
        f"{name}_msgid": text.msgid if text else None,
        f"{name}_params": dict(text.params) if text else None,
    }
