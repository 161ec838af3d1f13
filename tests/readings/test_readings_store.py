"""The file in which readings are kept: nothing counted twice, nothing lost, never larger than said."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.model.card import Reading
from anycard.model.series import COLUMNS, values_of
from anycard.model.text import Text
from anycard.store.readinglevels import DAY_S, LEVELS, READINGS, across, finest
from anycard.store.readings import CardRow, MarkRow, Readings, UseRow

NOW = 1_800_000_000.0


def row(at: float, busy: float | None, *, card: str = "a", n: int = 10, **more: object) -> CardRow:
    return CardRow(at, card, n, values_of(Reading(card, utilisation=busy, **more)))  # type: ignore[arg-type]


@pytest.fixture
def kept(tmp_path: Path) -> Readings:
    return Readings(tmp_path / "home" / "readings.db")


def test_it_is_private(kept: Readings, tmp_path: Path) -> None:
    kept.add([row(NOW, 0.5)])
    for path in (tmp_path / "home").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_kept_comes_back(kept: Readings) -> None:
    kept.add([row(NOW, 0.25, memory_used_bytes=80_000_000_001, throttle_reasons=("power-cap",)), row(NOW, 1, card="b")])
    kept.add([row(NOW + 10, 0.75, throttle_reasons=())])
    series = kept.series("a", NOW, NOW + 60, 10)
    assert series.times == (NOW, NOW + 10)
    assert series.column("utilisation") == (0.25, 0.75)
    assert series.column("memory_used_bytes") == (80_000_000_001, None)
    assert series.column("throttle_bits") == (1, 0)
    assert series.column("power_w") == (None, None)
    assert kept.cards(NOW, NOW + 1) == ["a", "b"]
    assert kept.cards(NOW + 10, NOW + 20) == ["a"]


def test_gaps_stay_gaps(kept: Readings) -> None:
    kept.add([row(NOW, 0.5)])
    kept.add([row(NOW + 300, 0.5)])
    assert kept.series("a", NOW, NOW + 600, 10).times == (NOW, NOW + 300)


def test_part_rows_weigh_what_they_stand_for(kept: Readings) -> None:
    """A daemon that ended left three looks, the next one seven."""
    kept.add([row(NOW, 1.0, n=3)])
    kept.add([row(NOW, 0.0, n=7)])
    assert kept.series("a", NOW, NOW + 10, 10).column("utilisation") == (pytest.approx(0.3),)


LOOKS = st.lists(
    st.tuples(st.integers(0, 3000), st.none() | st.floats(0, 1), st.integers(1, 10)), min_size=1, max_size=40
)


@settings(max_examples=60, deadline=None)
@given(looks=LOOKS, cuts=st.sets(st.integers(0, 40), max_size=6))
def test_rolling_up_counts_every_look_once(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, float | None, int]], cuts: set[int]
) -> None:
    """However often it is rolled up, and in whatever order the clock gave the rows."""
    kept = Readings(tmp_path_factory.mktemp("rolled") / "readings.db")
    for number, (second, busy, n) in enumerate(looks):
        kept.add([row(NOW + second, busy, n=n)])
        if number in cuts:
            kept.roll_up()
    kept.roll_up()
    for step, _ in LEVELS:
        buckets: dict[float, list[tuple[float | None, int]]] = {}
        for second, busy, n in looks:
            buckets.setdefault((NOW + second) // step * step, []).append((busy, n))
        rows = kept._connection.execute(f"SELECT sum(n) FROM ({across(READINGS, step, 'true')})").fetchone()
        assert rows[0] == sum(n for _, _, n in looks)
        series = kept.series("a", NOW, NOW + 4000, step)
        assert list(series.times) == sorted(buckets)
        for at, value in zip(series.times, series.column("utilisation"), strict=True):
            weights = [(busy, n) for busy, n in buckets[at] if busy is not None]
            if not weights:
                assert value is None
            elif len(weights) == len(buckets[at]):
                assert value == pytest.approx(sum(busy * n for busy, n in weights) / sum(n for _, n in weights))
            else:  # a row has one weight for all its columns: where some looks knew less, the mean is near, not exact
                assert min(weights)[0] - 1e-9 <= value <= max(weights)[0] + 1e-9
    kept.close()


def test_peaks_and_bits_survive_rolling_up(kept: Readings) -> None:
    kept.add([row(NOW, 0, memory_used_bytes=10, throttle_reasons=("power-cap",))])
    kept.add([row(NOW + 10, 0, memory_used_bytes=90, throttle_reasons=("hardware-thermal",))])
    kept.add([row(NOW + 20, 0, memory_used_bytes=20, throttle_reasons=())])
    kept.roll_up()
    series = kept.series("a", NOW, NOW + 600, 600)
    assert series.column("memory_peak_bytes") == (90,)
    assert series.column("memory_used_bytes") == (40,)
    assert series.column("throttle_bits") == (0b10001,)
    assert series.column("throttled") == (pytest.approx(2 / 3),)


def test_each_level_is_kept_as_long_as_it_says(kept: Readings) -> None:
    kept.add([row(NOW - age, 0.5) for age in (40 * DAY_S, 20 * DAY_S, 3 * DAY_S, 60)])
    kept.roll_up()
    kept.prune(NOW)
    ages = [[round((NOW - at) / DAY_S) for at in kept.series("a", 0, NOW + 1, step).times] for step, _ in LEVELS]
    assert ages == [[0], [3, 0], [20, 3, 0]]


def test_the_finest_step_is_one_that_is_still_kept() -> None:
    assert [finest(NOW - age, NOW) for age in (60, 2 * DAY_S, 20 * DAY_S, 90 * DAY_S)] == [10, 60, 600, 600]


def test_it_stays_within_its_bytes(tmp_path: Path) -> None:
    limit = 400_000
    kept = Readings(tmp_path / "readings.db", most_bytes=limit)
    for hour in range(8):
        at = NOW + hour * 3600
        kept.add(
            [row(at + second, 0.123456, card=f"card {card}") for second in range(0, 3600, 60) for card in range(8)],
            [
                UseRow(at + second, "card 1", 1, item, item, cpu_cores=1.5)
                for second in range(0, 3600, 60)
                for item in range(4)
            ],
        )
        kept.roll_up()
        kept.prune(at)
        assert kept.size_bytes() <= limit
    assert kept.series("card 1", NOW, NOW + 9 * 3600, 600).times  # what is left is the latest
    kept.close()
    assert (tmp_path / "readings.db").stat().st_size < 4 * limit


def test_a_month_of_a_card_is_within_what_the_page_says(tmp_path: Path) -> None:
    """5 MB a card at the most: a day of ten seconds, a week of minutes, a month of ten minutes."""
    kept = Readings(tmp_path / "readings.db")
    full = Reading("a", 0.123, 1, 2, 3.3, 4.4, 5.5, 6.6, 7.7, 0.8, (), 0.9, 4, 16, 0, 0)
    values = tuple(None if value is None else value + 0.123456 for value in values_of(full))
    with kept._write() as connection:
        connection.execute("INSERT INTO cards (id) VALUES ('a')")
        places = ", ".join("?" * (len(COLUMNS) + 3))
        for step, kept_s in LEVELS:
            connection.executemany(
                f"INSERT INTO readings_{step} (at, card, n, {', '.join(COLUMNS)}) VALUES ({places})",
                ((NOW + at, 1, 10, *values) for at in range(0, round(kept_s), step)),
            )
    assert kept.size_bytes() < 5_000_000
    kept.close()


def test_a_step_is_one_row_however_often_it_is_rolled_up(kept: Readings) -> None:
    """Else the bytes of a card would be a multiple of what the page says. The daemon begins within a step, and rolls up each minute."""
    for number in range(6 * 65):
        at = NOW + 30 + 10 * number
        kept.add([row(at, 0.5), row(at, 0.25, card="b")], [UseRow(at, "a", 1, 0, 1, n=10, cpu_cores=number)])
        if number % 6 == 5:
            kept.roll_up()
    steps = {60: 65, 600: 6}  # those that ended
    for step, count in steps.items():
        for kind, cards in (("readings", 2), ("uses", 1)):
            found = kept._connection.execute(f"SELECT count(*), count(DISTINCT at) FROM {kind}_{step}").fetchone()
            assert tuple(found) == (count * cards, count)
    # and the one that did not end is not missing
    assert kept.series("b", NOW, NOW + 4000, 600).times == tuple(NOW + 600 * step for step in range(7))
    assert kept.uses(1, NOW, NOW + 4000, 600)[-1].cpu_cores == pytest.approx(sum(range(357, 390)) / 33)


def test_what_was_not_rolled_up_is_not_forgotten(kept: Readings) -> None:
    """A daemon that was off for two days finds the last minute before it as it left it."""
    kept.add([row(NOW, 0.5)])
    kept.roll_up()
    kept.prune(NOW + 2 * DAY_S)
    assert kept.series("a", NOW, NOW + 600, 600).column("utilisation") == (0.5,)
    kept.add([row(NOW + 2 * DAY_S, 0.7)])
    kept.roll_up()
    kept.prune(NOW + 2 * DAY_S)
    assert kept.series("a", NOW, NOW + 600, 10).times == ()
    assert kept.series("a", NOW, NOW + 600, 60).column("utilisation") == (0.5,)


def test_uses_come_by_job_and_roll_up_by_attempt(kept: Readings) -> None:
    kept.add(uses=[UseRow(NOW, "a", 7, 0, 70, n=10, memory_bytes=100, memory_peak_bytes=150, cpu_cores=2)])
    kept.add(uses=[UseRow(NOW + 10, "a", 7, 0, 70, n=10, memory_bytes=300, memory_peak_bytes=350, cpu_cores=None)])
    kept.add(uses=[UseRow(NOW, "a", 8, 0, 80)])
    kept.roll_up()
    (minute,) = kept.uses(7, NOW, NOW + 600, 60)
    assert (minute.item, minute.attempt, minute.n, minute.card_id) == (0, 70, 20, "a")
    assert (minute.memory_bytes, minute.memory_peak_bytes, minute.cpu_cores) == (200, 350, 2)
    assert len(kept.uses(7, NOW, NOW + 600, 10)) == 2


def test_marks_keep_their_words(kept: Readings) -> None:
    mark = MarkRow(NOW, "a", "xid", Text("Xid {number}: it broke", {"number": 79}))
    kept.add(marks=[mark])
    assert kept.marks(NOW - 1, NOW + 1) == [mark]
    kept.prune(NOW + 40 * DAY_S)
    assert kept.marks(0, NOW + 1) == []


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "readings.db"
    path.write_bytes(content)
    kept = Readings(path)
    kept.add([row(NOW, 0.5)])
    assert kept.series("a", NOW, NOW + 1, 10).times == (NOW,)


@pytest.mark.parametrize("seed", range(20))
def test_damage_within_costs_one_call_and_no_more(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "readings.db"
    kept = Readings(path)
    kept.add([row(NOW + 10 * n, 0.5) for n in range(2000)], marks=[MarkRow(NOW, None, "x", Text("it broke"))] * 500)
    kept.roll_up()
    kept.close()
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    page = chance.randrange(len(data) // 4096) * 4096
    data[page : page + 4096] = chance.randbytes(4096)
    path.write_bytes(data)
    kept = Readings(path)
    for call in (
        lambda: kept.series("a", NOW, NOW + 20_000, 10),
        lambda: kept.marks(NOW, NOW + 1),
        lambda: kept.cards(NOW, NOW + 20_000),
        kept.roll_up,
        lambda: kept.prune(NOW),
    ):
        with contextlib.suppress(sqlite3.DatabaseError):
            call()
            continue
        call()  # the file is whole again
    kept.add([row(NOW, 1.0, card="b")])
    assert kept.series("b", NOW, NOW + 10, 10).column("utilisation") == (1.0,)


def test_a_disk_that_is_full_for_a_while_costs_nothing_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "readings.db"
    kept = Readings(path)
    kept.add([row(NOW, 0.5)])
    kept._connection.execute("PRAGMA max_page_count = 1")  # SQLite's own way to say that the disk is full
    with pytest.raises(sqlite3.OperationalError, match="full"):
        kept.add([row(NOW + 10 * n, 0.5) for n in range(5000)])
    kept.close()
    (tmp_path / "readings.db-wal").unlink(missing_ok=True)
    (tmp_path / "readings.db-wal").mkdir()  # nor can it be opened
    with pytest.raises(sqlite3.OperationalError):
        Readings(path)
    (tmp_path / "readings.db-wal").rmdir()
    assert Readings(path).series("a", NOW, NOW + 60, 10).times == (NOW,)


def test_a_file_of_another_version_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "readings.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("CREATE TABLE readings_10 (colour TEXT)")
    kept = Readings(path)
    kept.add([row(NOW, 0.5)])
    assert kept.cards(0, NOW + 1) == ["a"]


def test_what_was_kept_outlives_the_daemon(tmp_path: Path) -> None:
    first = Readings(tmp_path / "readings.db")
    first.add([row(NOW, 0.5)])
    first.roll_up()
    first.close()
    second = Readings(tmp_path / "readings.db")
    second.roll_up()  # what was rolled up is not rolled up again
    assert second.series("a", NOW, NOW + 600, 600).column("utilisation") == (0.5,)
    second.add([row(NOW + 600, 0.7), row(NOW + 1200, 0.9)])
    for _ in range(2):
        second.roll_up()
    assert second._connection.execute("SELECT count(*) FROM readings_600").fetchone()[0] == 1
    assert second.series("a", NOW, NOW + 1800, 600).column("utilisation") == (0.5, 0.7, 0.9)


def test_a_place_that_takes_nothing_is_an_error_to_be_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError):
        Readings(tmp_path / "file" / "readings.db")
