"""Readings as the CSV that scripts know from ``nvidia-smi --query-gpu=... --format=csv``: the same columns, units and ``[N/A]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from anycard.api.client import Json
from anycard.cli.cardtable import number_of
from anycard.cli.output import safe
from anycard.units import MIB

_ABSENT = "[N/A]"


def _number(unit: str, factor: float = 1.0, digits: int = 0) -> Callable[[float], str]:
    return lambda value: f"{value * factor:.{digits}f}{unit}"


# heading -> (column of the series, how its values are written)
_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "utilization.gpu [%]": ("utilisation", _number(" %", 100)),
    "utilization.memory [%]": ("memory_utilisation", _number(" %", 100)),
    "memory.total [MiB]": ("memory_total_bytes", _number(" MiB", 1 / MIB)),
    "memory.used [MiB]": ("memory_used_bytes", _number(" MiB", 1 / MIB)),
    "temperature.gpu": ("temperature_c", _number("")),
    "power.draw [W]": ("power_w", _number(" W", digits=2)),
    "power.limit [W]": ("power_limit_w", _number(" W", digits=2)),
    "clocks.current.sm [MHz]": ("clock_mhz", _number(" MHz")),
    "clocks.current.memory [MHz]": ("memory_clock_mhz", _number(" MHz")),
    "fan.speed [%]": ("fan", _number(" %", 100)),
    "pcie.link.gen.current": ("pcie_generation", _number("")),
    "pcie.link.width.current": ("pcie_width", _number("")),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", _number("")),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", _number("")),
}


def csv_lines(cards: Sequence[Json], seen: Json, *, named: bool) -> Iterator[str]:
    """By time, then by card. The CPU only where it is ``named`` or nothing else is here: in these columns nobody expects it."""
    yield ", ".join(["timestamp", "index", "name", "uuid", *_COLUMNS])
    known = {card["id"]: card for card in cards}
    chosen = [series for series in seen["cards"] if series["card"] != "cpu"]
    if named or not chosen:
        chosen = seen["cards"]
    moments = [(at, number, place) for number, series in enumerate(chosen) for place, at in enumerate(series["times"])]
    for at, number, place in sorted(moments):
        series = chosen[number]
        card = known.get(series["card"])
        told = [_timestamp(at), *_who(series["card"], card, cards)]
        for column, write in _COLUMNS.values():
            values = series.get(column)
            value = values[place] if values is not None else None
            told.append(_ABSENT if value is None else write(value))
        yield ", ".join(told)


def _who(card_id: str, card: Json | None, cards: Sequence[Json]) -> tuple[str, str, str]:
    if card is None:  # it is gone since
        return _ABSENT, _ABSENT, _plain(card_id)
    return number_of(card, cards), _plain(card["model"]), _plain(card["uuid"] or card_id)


def _plain(text: str) -> str:
    """No comma of a name makes a column."""
    return safe(text).replace(",", ";")


def _timestamp(at: float) -> str:
    """As nvidia-smi writes it: this machine's clock, without a zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y/%m/%d %H:%M:%S.") + f"{int(at * 1000) % 1000:03d}"
