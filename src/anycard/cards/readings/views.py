"""The last tick as JSON: the shape of GET /v1/readings/live and of ``anycard cards --watch --json`` (docs/readings.md)."""

from __future__ import annotations

from typing import Any

from anycard.cards.readings.shapes import CardUse, Silent, Tick
from anycard.model.card import Reading
from anycard.model.instant import rfc3339

TICK_SCHEMA = "anycard.tick/1"


def tick_json(tick: Tick | None) -> dict[str, Any]:
    """``at`` null: there was no tick yet. Whose programs ``uses`` are, jobs/readingsviews.py fills in."""
    return {
        "schema": TICK_SCHEMA,
        "at": rfc3339(tick.at) if tick else None,
        "readings": [reading_json(reading) for reading in tick.readings] if tick else [],
        "uses": [_use_json(use) for use in tick.uses] if tick else [],
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


def _use_json(use: CardUse) -> dict[str, Any]:
    return {
        "card": use.card_id,
        "pid": use.pid,
        "memory_bytes": use.memory_bytes,
        "utilisation": use.utilisation,
        "job": None,
        "item": None,
        "job_items": None,
        "attempt": None,
    }


def _silent_json(silent: Silent) -> dict[str, Any]:
    why = silent.why
    return {
        "reader": silent.reader,
        "since": rfc3339(silent.since),
        "why": str(why) if why else None,
        "why_msgid": why.msgid if why else None,
        "why_params": dict(why.params) if why else None,
    }
