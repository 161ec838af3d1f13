"""How readings are kept: finely for a day, coarser for a month. Rolling up goes by row numbers, not by times: a wall clock that was set
back neither loses nor counts anything twice.

Only whole steps are rolled up, so that a coarse step is one row, however often it is done; the step that has not ended stays in the finer
rows alone. ``across`` therefore reads a level together with what the finer ones still hold back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from anycard.model.series import BITS_COLUMN, MEAN_COLUMNS, PEAK_COLUMNS

DAY_S = 86_400.0
# (seconds that a row stands for, seconds that it stays), finest first
LEVELS = ((10, DAY_S), (60, 7 * DAY_S), (600, 31 * DAY_S))
USE_MEANS = (
    "memory_bytes",
    "utilisation",
    "cpu_cores",
    "host_memory_bytes",
    "read_bytes_per_s",
    "written_bytes_per_s",
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One family of tables, ``NAME_10`` to ``NAME_600``: ``keys`` tell its rows apart, the other columns say how several become one."""

    name: str
    keys: tuple[str, ...]
    means: tuple[str, ...]
    peaks: tuple[str, ...]
    bits: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        return (*self.means, *self.peaks, *self.bits)

    @property
    def folded(self) -> str:
        """SQL: the columns of ``values``, over several rows. A mean is weighed by how many looks each row stands for; null where
        nothing was seen."""
        means = (f"sum({name} * n) / sum(CASE WHEN {name} IS NOT NULL THEN n END)" for name in self.means)
        peaks = (f"max({name})" for name in self.peaks)
        return ", ".join((*means, *peaks, *(f"bit_or({name})" for name in self.bits)))


READINGS = Kind("readings", ("card",), MEAN_COLUMNS, PEAK_COLUMNS, (BITS_COLUMN,))
USES = Kind("uses", ("card", "job", "item", "attempt"), USE_MEANS, ("memory_peak_bytes",))
KINDS = (READINGS, USES)


def finest(since: float, now_utc: float) -> int:
    """The finest step (seconds) that is still kept of ``since``; the coarsest where nothing is."""
    return next((step for step, kept_s in LEVELS if now_utc - since <= kept_s), LEVELS[-1][0])


def level_of(step_s: float) -> int:
    """The coarsest rows that are no coarser than asked."""
    return max((step for step, _ in LEVELS if step <= step_s), default=LEVELS[0][0])


def across(kind: Kind, level: int, where: str) -> str:
    """SQL: the rows of a level that meet ``where``, and those of finer levels that were not rolled up yet. The values in ``where`` are
    named, for it stands in there once a level."""
    columns = ", ".join(("at", *kind.keys, "n", *kind.values))
    steps = [step for step, _ in LEVELS if step <= level]
    parts = [f"SELECT {columns} FROM {kind.name}_{level} WHERE {where}"]  # noqa: S608
    parts += [
        f"SELECT {columns} FROM {kind.name}_{fine} WHERE number > {_upto(kind, coarse)} AND {where}"  # noqa: S608
        for fine, coarse in pairwise(steps)
    ]
    return " UNION ALL ".join(parts)


def roll_up(connection: sqlite3.Connection) -> None:
    """Makes minutes of ten-second rows, and ten minutes of minutes. Within a transaction."""
    for (fine, _), (coarse, _) in pairwise(LEVELS):
        for kind in KINDS:
            _roll(connection, kind, fine, coarse)


def forget(connection: sqlite3.Connection, now_utc: float) -> None:
    """Rows that were kept as long as said; where they have a coarser level, once they were rolled up. Within a transaction."""
    coarser: Sequence[int | None] = [*(step for step, _ in LEVELS[1:]), None]
    for (step, kept_s), coarse in zip(LEVELS, coarser, strict=True):
        for kind in KINDS:
            rolled = f" AND number <= {_upto(kind, coarse)}" if coarse is not None else ""
            connection.execute(f"DELETE FROM {kind.name}_{step} WHERE at < ?{rolled}", (now_utc - kept_s,))  # noqa: S608


def _upto(kind: Kind, coarse: int) -> str:
    """SQL: the number of the last finer row that the coarse level has in it."""
    return f"coalesce((SELECT upto FROM rolled WHERE target = '{kind.name}_{coarse}'), 0)"  # noqa: S608


def _roll(connection: sqlite3.Connection, kind: Kind, fine: int, coarse: int) -> None:
    source, target = f"{kind.name}_{fine}", f"{kind.name}_{coarse}"
    done = connection.execute(f"SELECT {_upto(kind, coarse)}").fetchone()[0]
    step = f"CAST(at / {coarse} AS INTEGER) * {coarse}"
    # The step of the last row may get more.
    last = connection.execute(
        f"SELECT max(number) FROM {source} WHERE number > ? AND {step} <> "  # noqa: S608
        f"(SELECT {step} FROM {source} ORDER BY number DESC LIMIT 1)",
        (done,),
    ).fetchone()[0]
    if last is None:
        return
    keys = ", ".join(kind.keys)
    connection.execute(
        f"INSERT INTO {target} (at, {keys}, n, {', '.join(kind.values)}) "  # noqa: S608
        f"SELECT {step} AS step, {keys}, sum(n), {kind.folded} "
        f"FROM {source} WHERE number > ? AND number <= ? GROUP BY step, {keys}",
        (done, last),
    )
    connection.execute("INSERT OR REPLACE INTO rolled VALUES (?, ?)", (target, last))
