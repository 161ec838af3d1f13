"""The last ten minutes in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anycard.cards.readings.recent import Recent
from anycard.cards.readings.shapes import Tick
from anycard.model.card import Reading


def tick(at: float, **utilisation: float) -> Tick:
    return Tick(at, at, tuple(Reading(card, utilisation=value) for card, value in utilisation.items()))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0, 1), max_size=3), min_size=1, max_size=40))
def test_it_holds_the_last_ticks_and_their_gaps(looks: list[dict[str, float]]) -> None:
    recent = Recent(kept=10)
    for at, look in enumerate(looks):
        recent.add(tick(float(at), **look))
    kept = list(enumerate(looks))[-10:]
    for card in "abc":
        series = recent.series(card, 0, 1000)
        assert list(series.times) == [at for at, look in kept if card in look]
        assert list(series.column("utilisation")) == [look[card] for _, look in kept if card in look]
    assert recent.since == kept[0][0]


def test_a_card_that_left_is_forgotten_in_time() -> None:
    recent = Recent(kept=5)
    recent.add(tick(0, a=1))
    for at in range(1, 12):
        recent.add(tick(at, b=1))
    assert recent.cards() == ("b",)


def test_a_clock_that_was_set_back_leaves_times_in_order() -> None:
    recent = Recent()
    for at in (100, 101, 50, 51):
        recent.add(tick(at, a=at / 1000))
    series = recent.series("a", 0, 1000)
    assert series.times == (50, 51, 100, 101)
    assert series.column("utilisation") == (0.05, 0.051, 0.1, 0.101)


def test_a_span_has_its_beginning_and_not_its_end() -> None:
    recent = Recent()
    for at in range(5):
        recent.add(tick(at, a=0))
    assert recent.series("a", 1, 3).times == (1, 2)
    assert recent.series("nobody", 0, 9).times == ()
