"""Readings over time: the columns that are kept of a card, and how several moments become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anycard.model.card import Reading

# Every reason for which a card runs slower than it was asked to; a set of them is kept as bits, in this order.
THROTTLE_REASONS = (
    "power-cap", "hardware-slowdown", "sync-boost", "software-thermal", "hardware-thermal", "power-brake", "current-limit", "other",
)  # fmt: skip

_MEANS = (
    "utilisation", "memory_used_bytes", "temperature_c", "power_w", "clock_mhz", "memory_clock_mhz", "fan", "memory_utilisation",
    "io_wait", "throttled",
)  # fmt: skip
# Of these the highest is kept: peaks, counters that only rise, and what seldom changes (a mean of link widths says nothing).
_PEAKS = (
    "memory_peak_bytes", "temperature_peak_c", "memory_total_bytes", "power_limit_w", "pcie_generation", "pcie_width", "ecc_corrected",
    "ecc_uncorrected",
)  # fmt: skip
MEAN_COLUMNS, PEAK_COLUMNS, BITS_COLUMN = _MEANS, _PEAKS, "throttle_bits"
COLUMNS = (*_MEANS, *_PEAKS, BITS_COLUMN)
WHOLE_COLUMNS = frozenset(name for name in COLUMNS if name.endswith("_bytes") or name.startswith(("pcie_", "ecc_")))

Values = tuple[float | None, ...]  # in the order of COLUMNS


@dataclass(frozen=True, slots=True)
class Series:
    """One card over time: ``rows[i]`` are the values at ``times[i]`` (seconds since the epoch, rising), in the order of COLUMNS. A moment
    in which the card was not seen has no row: gaps stay gaps. ``throttled`` is the share of the time in which it was slowed down."""

    card_id: str
    times: tuple[float, ...]
    rows: tuple[Values, ...]

    def column(self, name: str) -> tuple[float | None, ...]:
        at = COLUMNS.index(name)
        return tuple(row[at] for row in self.rows)


def values_of(reading: Reading) -> Values:
    """One look as a row."""
    reasons = reading.throttle_reasons
    derived: Mapping[str, float | None] = {
        "throttled": None if reasons is None else float(bool(reasons)),
        "memory_peak_bytes": reading.memory_used_bytes,
        "temperature_peak_c": reading.temperature_c,
        BITS_COLUMN: None if reasons is None else bits_of(reasons),
    }
    return tuple(derived[name] if name in derived else getattr(reading, name) for name in COLUMNS)


def bits_of(reasons: Iterable[str]) -> int:
    """A reason that is in no list counts as ``other``."""
    bits = 0
    for reason in reasons:
        bits |= 1 << THROTTLE_REASONS.index(reason if reason in THROTTLE_REASONS else "other")
    return bits


def reasons_of(bits: float | None) -> tuple[str, ...] | None:
    if bits is None:
        return None
    return tuple(name for at, name in enumerate(THROTTLE_REASONS) if int(bits) & 1 << at)


def fold(rows: Sequence[Values]) -> Values:
    """Several rows as one: the mean or the highest of what was seen; None where nothing was."""
    folded: list[float | None] = []
    for at, name in enumerate(COLUMNS):
        seen = [value for row in rows if (value := row[at]) is not None]
        if not seen:
            folded.append(None)
        elif at < len(_MEANS):
            folded.append(sum(seen) / len(seen))
        elif name != BITS_COLUMN:
            folded.append(max(seen))
        else:
            bits = 0
            for value in seen:
                bits |= int(value)
            folded.append(bits)
    return tuple(folded)


def stepped(series: Series, step_s: float) -> Series:
    """``series`` with one row for each ``step_s`` seconds in which there was any, at the step's beginning."""
    groups: dict[float, list[Values]] = {}
    for at, row in zip(series.times, series.rows, strict=True):
        groups.setdefault(at // step_s * step_s, []).append(row)
    times = sorted(groups)
    return Series(series.card_id, tuple(times), tuple(fold(groups[at]) for at in times))
