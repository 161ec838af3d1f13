"""Sizes and durations as people write them. Binary units (KiB, MiB, GiB) are 1024-based, decimal ones (KB, MB, GB) 1000-based."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(i?)B?\s*$", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_bytes(text: str) -> int:
    """Bytes meant by ``text``: ``"1.5GiB"`` (1024-based), ``"2GB"`` (1000-based), ``"512"`` (bytes). ValueError otherwise."""
    match = _SIZE.match(text)
    if not match:
        raise ValueError(text)
    number, prefix, binary = match.groups()
    base = 1024 if binary else 1000
    return round(float(number) * float(base ** _POWER[prefix.upper()]))


def parse_duration(text: str) -> float:
    """Seconds meant by ``text``: ``"90s"``, ``"1h30m"``, ``"2d"``, ``"1.5h"``, or a bare number of seconds. ValueError otherwise."""
    stripped = text.strip()
    try:
        bare = float(stripped)
    except ValueError:
        bare = None
    if bare is not None:
        if not 0 <= bare < float("inf"):
            raise ValueError(text)
        return bare
    parts = _DURATION_PART.findall(stripped)
    if not parts or re.sub(_DURATION_PART, "", stripped).strip():
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)


def format_bytes(count: int | None) -> str:
    """``count`` bytes for a person, in 1024-based units with at most one decimal: ``"1.5 GiB"``; ``"?"`` for None."""
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" or size == int(size) else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def format_duration(seconds: float | None) -> str:
    """``seconds`` for a person, two units at most: ``"0.4s"``, ``"12s"``, ``"3m20s"``, ``"1h02"``, ``"2d4h"``; ``"?"`` for None."""
    if seconds is None:
        return "?"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"
