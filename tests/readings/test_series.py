"""Readings over time as values: how several moments become one."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.model.card import Reading
from anycard.model.series import (
    BITS_COLUMN,
    COLUMNS,
    MEAN_COLUMNS,
    PEAK_COLUMNS,
    THROTTLE_REASONS,
    Series,
    Values,
    fold,
    reasons_of,
    stepped,
    values_of,
)

NUMBERS = st.none() | st.floats(0, 1e12)
ROWS = st.lists(
    st.tuples(*([NUMBERS] * (len(COLUMNS) - 1)), st.none() | st.integers(0, 255).map(float)), min_size=1, max_size=8
)


def test_every_value_of_a_reading_has_a_column() -> None:
    fields = {field.name for field in dataclasses.fields(Reading)} - {"card_id", "throttle_reasons"}
    assert fields <= set(COLUMNS)


def test_a_reading_of_nothing_is_a_row_of_nothing() -> None:
    assert values_of(Reading("cpu")) == (None,) * len(COLUMNS)


@given(st.sets(st.sampled_from(THROTTLE_REASONS)))
def test_throttle_reasons_come_back(reasons: set[str]) -> None:
    row = values_of(Reading("cpu", throttle_reasons=tuple(reasons)))
    assert set(reasons_of(row[COLUMNS.index(BITS_COLUMN)]) or ()) == reasons
    assert row[COLUMNS.index("throttled")] == float(bool(reasons))


def test_a_reason_of_a_driver_to_come_is_other_and_not_lost() -> None:
    assert reasons_of(values_of(Reading("cpu", throttle_reasons=("moon-phase",)))[-1]) == ("other",)


@given(ROWS)
def test_a_fold_lies_within_what_it_is_of(rows: list[Values]) -> None:
    folded = fold(rows)
    for at, name in enumerate(COLUMNS):
        seen = [row[at] for row in rows if row[at] is not None]
        value = folded[at]
        assert (value is None) == (not seen)
        if value is None:
            continue
        if name in MEAN_COLUMNS:
            assert min(seen) * 0.999999 <= value <= max(seen) * 1.000001
        elif name in PEAK_COLUMNS:
            assert value == max(seen)
        else:
            assert all(int(value) & int(one) == int(one) for one in seen)


@given(st.lists(st.integers(0, 500), unique=True, max_size=60), st.integers(1, 90))
def test_steps_lose_no_moment_and_invent_none(seconds: list[int], step: int) -> None:
    row = values_of(Reading("cpu", utilisation=0.5))
    times = tuple(float(second) for second in sorted(seconds))
    series = stepped(Series("cpu", times, (row,) * len(times)), step)
    assert list(series.times) == sorted({second // step * step for second in seconds})  # gaps stay gaps
    assert set(series.column("utilisation")) <= {0.5}


def test_an_unknown_column_is_an_error() -> None:
    with pytest.raises(ValueError):
        Series("cpu", (), ()).column("colour")
