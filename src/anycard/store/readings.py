"""Readings kept over time, in a SQLite file of their own (``ANYCARD_HOME/readings.db``): losing it loses no job and no money.

Means of ten seconds stay for a day, of a minute for a week, of ten minutes for a month: 23,000 rows a card, at most 5 MB. What programs
did on the cards stays the same way. The file never grows beyond MOST_BYTES: where it would (hundreds of cards, or attempts), the oldest of
the finest rows go first.

Every row says how many looks it is the mean of, so that part rows (of a daemon that ended) weigh what they should. How rows become coarser:
``store/readinglevels.py``.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from anycard.model.series import COLUMNS, Series, Values
from anycard.model.text import Text
from anycard.store import readinglevels
from anycard.store.files import make_private_file, make_private_folder
from anycard.store.readinglevels import LEVELS, READINGS, USE_MEANS, USES, across, level_of
from anycard.units import MIB

log = logging.getLogger("anycard.readings")

MOST_BYTES = 256 * MIB
_MARKS_KEPT = 10_000
_BROKEN = (sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError)
_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_ERROR,
)  # the last: another schema
_SCHEMA = 1  # PRAGMA user_version; a file of another schema is begun anew: readings are no record
USE_COLUMNS = (*USE_MEANS, "memory_peak_bytes")


@dataclass(frozen=True, slots=True)
class CardRow:
    """What ``n`` looks at a card saw, as one row; ``at`` is when they began (seconds since the epoch)."""

    at: float
    card_id: str
    n: int
    values: Values


@dataclass(frozen=True, slots=True)
class UseRow:
    """What an attempt did on a card (``cpu`` where it holds none), the mean of ``n`` looks. ``utilisation`` is its own share of the card's
    time, ``cpu_cores`` how many processors it kept busy, ``host_memory_bytes`` what it has of the host's memory. ``memory_peak_bytes`` is
    of the card's memory."""

    at: float
    card_id: str
    job: int
    item: int
    attempt: int
    n: int = 1
    memory_bytes: float | None = None
    utilisation: float | None = None
    cpu_cores: float | None = None
    host_memory_bytes: float | None = None
    read_bytes_per_s: float | None = None
    written_bytes_per_s: float | None = None
    memory_peak_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class MarkRow:
    """Something that happened to a card (None: to none in particular)."""

    at: float
    card_id: str | None
    kind: str
    text: Text


class Readings:
    """One connection, used by one thread at a time behind a lock. Calls wait for the disk: make them from a worker thread. Any of them
    raises sqlite3.Error; when the file turns out to be damaged, it is begun anew and only that call fails."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Opens the file, or begins it anew when it is damaged or of another version. OSError or sqlite3.Error when that cannot be."""
        self._path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = _open(path)  # None: it was damaged, and cannot be begun anew yet

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    # ---- write

    def add(self, cards: Sequence[CardRow] = (), uses: Sequence[UseRow] = (), marks: Sequence[MarkRow] = ()) -> None:
        """Keeps ten seconds' worth. sqlite3.Error when the disk is full."""
        with self._write() as connection:
            numbers = _numbers(connection, (*(row.card_id for row in cards), *(row.card_id for row in uses)))
            _insert(
                connection,
                f"readings_{LEVELS[0][0]}",
                ("at", "card", "n", *COLUMNS),
                ((row.at, numbers[row.card_id], row.n, *row.values) for row in cards),
            )
            _insert(
                connection,
                f"uses_{LEVELS[0][0]}",
                ("at", "card", "job", "item", "attempt", "n", *USE_COLUMNS),
                (
                    (
                        *(row.at, numbers[row.card_id], row.job, row.item, row.attempt, row.n),
                        *(getattr(row, name) for name in USE_COLUMNS),
                    )
                    for row in uses
                ),
            )
            _insert(
                connection,
                "marks",
                ("at", "card", "kind", "msgid", "params"),
                ((row.at, row.card_id, row.kind, row.text.msgid, json.dumps(dict(row.text.params))) for row in marks),
            )

    def roll_up(self) -> None:
        """Makes minutes of ten-second rows, and ten minutes of minutes. To be called now and then."""
        with self._write() as connection:
            readinglevels.roll_up(connection)

    def prune(self, now_utc: float) -> None:
        """Forgets what is too old, and the oldest of the finest rows while the file is too big."""
        with self._write() as connection:
            readinglevels.forget(connection, now_utc)
            oldest_mark = now_utc - LEVELS[-1][1]
            connection.execute(
                "DELETE FROM marks WHERE at < ? OR rowid <= (SELECT max(rowid) FROM marks) - ?",
                (oldest_mark, _MARKS_KEPT),
            )
        while self.size_bytes() > self._most_bytes and self._drop_half():
            continue

    def size_bytes(self) -> int:
        """Of what is kept: pages in use. The file itself may be as large as it ever was; its free pages are used again first."""
        with self._use() as connection:
            pages, free, page = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * page)

    def _drop_half(self) -> bool:
        """The older half of the finest rows that there are. False: there is nothing left to drop."""
        with self._write() as connection:
            for step, _ in LEVELS:
                for kind in ("uses", "readings"):
                    table = f"{kind}_{step}"
                    count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
                    if count > 1:
                        connection.execute(
                            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY at LIMIT ?)",  # noqa: S608
                            (count // 2,),
                        )
                        return True
        return False

    # ---- read

    def series(self, card_id: str, since: float, until: float, step_s: float) -> Series:
        """A card from ``since`` to before ``until`` (seconds since the epoch), a row for each ``step_s`` seconds that have any; at least
        ``finest(since)``."""
        rows_of = "card = (SELECT number FROM cards WHERE id = :card) AND at >= :since AND at < :until"
        query = (
            f"SELECT CAST(at / :step AS INTEGER) * :step AS step, {READINGS.folded} "  # noqa: S608
            f"FROM ({across(READINGS, level_of(step_s), rows_of)}) GROUP BY step ORDER BY step"
        )
        asked = {"card": card_id, "since": since, "until": until, "step": step_s}
        with self._use() as connection:
            rows = connection.execute(query, asked).fetchall()
        return Series(card_id, tuple(float(row[0]) for row in rows), tuple(tuple(row[1:]) for row in rows))

    def uses(self, job: int, since: float, until: float, step_s: float) -> list[UseRow]:
        """What a job's attempts did, by time."""
        rows_of = "job = :job AND at >= :since AND at < :until"
        query = (
            f"SELECT CAST(at / :step AS INTEGER) * :step AS step, cards.id, job, item, attempt, sum(n), {USES.folded} "  # noqa: S608
            f"FROM ({across(USES, level_of(step_s), rows_of)}) JOIN cards ON cards.number = card "
            "GROUP BY step, card, item, attempt ORDER BY step"
        )
        asked = {"job": job, "since": since, "until": until, "step": step_s}
        with self._use() as connection:
            rows = connection.execute(query, asked).fetchall()
        return [UseRow(float(row[0]), *row[1:]) for row in rows]

    def used(self, job: int) -> tuple[float, float] | None:
        """From when to when there is anything kept of what a job's attempts did; None: nothing is."""
        ends = " UNION ALL ".join(
            f"SELECT min(at) AS since, max(at) + {step} AS until FROM uses_{step} WHERE job = :job"  # noqa: S608
            for step, _ in LEVELS
        )
        with self._use() as connection:
            since, until = connection.execute(
                f"SELECT min(since), max(until) FROM ({ends})",  # noqa: S608
                {"job": job},
            ).fetchone()
        return None if since is None else (since, until)

    def cards(self, since: float, until: float) -> list[str]:
        """Ids of the cards of which anything is kept in that time."""
        where = "SELECT card FROM readings_{step} WHERE at >= ? AND at < ?"
        parts = " UNION ".join(where.format(step=step) for step, _ in LEVELS)
        with self._use() as connection:
            rows = connection.execute(
                f"SELECT id FROM cards WHERE number IN ({parts}) ORDER BY number",  # noqa: S608
                (since, until) * len(LEVELS),
            ).fetchall()
        return [row[0] for row in rows]

    def marks(self, since: float, until: float) -> list[MarkRow]:
        query = "SELECT at, card, kind, msgid, params FROM marks WHERE at >= ? AND at < ? ORDER BY at"
        with self._use() as connection:
            rows = connection.execute(query, (since, until)).fetchall()
            return [MarkRow(at, card, kind, Text(msgid, json.loads(params))) for at, card, kind, msgid, params in rows]

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._use() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._connection = self._connection or _open(self._path)
            try:
                yield connection
            except _BROKEN as error:
                if not _is_damage(error):
                    raise
                log.warning("%s is damaged (%s): readings begin anew", self._path, error)
                self._connection = None
                with suppress(sqlite3.Error):
                    connection.close()
                self._connection = _begun_anew(self._path)
                raise sqlite3.DatabaseError(f"the file was damaged: {error}") from error


def _numbers(connection: sqlite3.Connection, card_ids: Iterable[str]) -> dict[str, int]:
    """A small number for each card, in the order in which they came, which its rows carry instead of its id."""
    connection.executemany(
        "INSERT OR IGNORE INTO cards (id) VALUES (?)", ((card_id,) for card_id in dict.fromkeys(card_ids))
    )
    return dict(connection.execute("SELECT id, number FROM cards").fetchall())


def _insert(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[tuple[object, ...]]
) -> None:
    places = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608


class _BitOr:
    """The bits of all rows; null where none has any."""

    def __init__(self) -> None:
        self._bits: int | None = None

    def step(self, value: float | None) -> None:
        if value is not None:
            self._bits = (self._bits or 0) | int(value)

    def finalize(self) -> int | None:
        return self._bits


def _open(path: Path) -> sqlite3.Connection:
    make_private_folder(path.parent)
    try:
        return _connect(path)
    except _BROKEN as error:
        if not _is_damage(error):
            raise
        log.warning("%s is damaged or of another version (%s): readings begin anew", path, error)
        return _begun_anew(path)


def _begun_anew(path: Path) -> sqlite3.Connection:
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)
    return _connect(path)


def _is_damage(error: Exception) -> bool:
    """Of the file, not of the disk around it: what is there of a disk that is full is still there tomorrow."""
    if not isinstance(error, sqlite3.Error):
        return True  # text that is none
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return isinstance(error, sqlite3.OperationalError | _OtherVersion)  # the former: text that is none, again
    return code & 0xFF in _DAMAGE


class _OtherVersion(sqlite3.DatabaseError):
    """Written by another anycard."""


def _connect(path: Path) -> sqlite3.Connection:
    make_private_file(path)
    connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power loss may cost the last minute of readings
        connection.execute("PRAGMA journal_size_limit = 4194304")
        connection.execute("PRAGMA cache_size = -512")  # KiB: rows are written, seldom read
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _SCHEMA):
            raise _OtherVersion(f"readings of version {version}")
        aggregate: Callable[..., None] = connection.create_aggregate
        aggregate("bit_or", 1, _BitOr)
        if version == 0:
            _create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    numbers = ", ".join(f"{name} REAL" for name in COLUMNS)
    use_numbers = ", ".join(f"{name} REAL" for name in USE_COLUMNS)
    number = "number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL"
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE cards (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)")
    connection.execute("CREATE TABLE rolled (target TEXT PRIMARY KEY, upto INTEGER NOT NULL)")
    connection.execute("CREATE TABLE marks (at REAL NOT NULL, card TEXT, kind TEXT, msgid TEXT, params TEXT)")
    for step, _ in LEVELS:
        connection.execute(f"CREATE TABLE readings_{step} ({number}, card INTEGER NOT NULL, n INTEGER, {numbers})")
        connection.execute(f"CREATE INDEX readings_{step}_of ON readings_{step} (card, at)")
        connection.execute(
            f"CREATE TABLE uses_{step} ({number}, card INTEGER NOT NULL, job INTEGER, item INTEGER, attempt INTEGER, "
            f"n INTEGER, {use_numbers})"
        )
        connection.execute(f"CREATE INDEX uses_{step}_of ON uses_{step} (job, at)")
    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
    connection.execute("COMMIT")
