"""What happens to cards is told once a stretch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anycard.jobs.cardwatch import CardWatch, Limits
from anycard.model.card import Card, Health, Reading

A = Card("nvidia:GPU-1", "nvidia", "A100")
CPU = Card("cpu", "cpu", "CPU")


class Story:
    """One card over time, a look every five seconds."""

    def __init__(self, **limits):
        self.watch = CardWatch(Limits(**limits))
        self.at = 0.0

    def look(self, *, lost=False, held=None, health=Health.OK, **reading):
        self.at += 5.0
        card = Card(A.id, A.vendor, A.model, health=health)
        readings = {A.id: Reading(A.id, **reading)} if reading else {}
        news = self.watch.look(
            self.at, [CPU, card], lost={A.id} if lost else set(), readings=readings, held={A.id: held} if held else {}
        )
        return [(one.kind, one.attempt) for one in news]


def test_lost_and_back():
    story = Story()
    assert story.look() == []
    assert story.look(lost=True, held=4, health=Health.LOST) == [("card.lost", 4)]
    assert story.look(lost=True, health=Health.LOST) == []
    assert story.look(lost=False, health=Health.UNREACHABLE) == []  # not seen is not back
    assert story.look() == [("card.returned", None)]
    assert story.look() == []


def test_idle_only_while_it_is_held_and_seen():
    story = Story(idle_s=10.0)
    assert [story.look(utilisation=0.0) for _ in range(9)] == [[]] * 9
    told = [story.look(held=1, utilisation=0.0) for _ in range(6)]
    assert told == [[], [], [("card.idle", 1)], [], [], []]
    assert story.look(held=1, utilisation=0.5) == []
    assert [story.look(held=1, utilisation=0.01) for _ in range(3)][-1] == [("card.idle", 1)]
    assert [story.look(held=2, utilisation=0.0) for _ in range(3)][-1] == [("card.idle", 2)]  # another attempt
    assert [story.look(held=3) for _ in range(9)] == [[]] * 9  # no reading: unknown is not idle


def test_too_hot_once_until_it_cooled():
    story = Story(hot_c=90.0)
    assert story.look(temperature_c=95.0) == []  # may be a misreading
    assert story.look(temperature_c=95.0, held=8) == [("card.hot", 8)]
    assert [story.look(temperature_c=c) for c in (95.0, 88.0, 91.0, 92.0)] == [[]] * 4
    assert [story.look(temperature_c=c) for c in (84.0, 91.0, 91.0)] == [[], [], [("card.hot", None)]]


def test_a_card_that_says_so_itself_is_too_hot():
    story = Story()
    story.look(throttle_reasons=("power-cap", "hardware-thermal"))
    assert story.look(throttle_reasons=("hardware-thermal",)) == [("card.hot", None)]
    assert Story().look(throttle_reasons=("power-cap",)) == []


reading = st.fixed_dictionaries(
    {}, optional={"utilisation": st.one_of(st.none(), st.floats(0, 1)), "temperature_c": st.floats(0, 120)}
)


@given(st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(1, 3)), reading), max_size=60))
def test_no_news_twice_without_its_end_between(looks):
    story = Story(idle_s=10.0)
    is_lost = False
    idle: tuple[int | None, bool] = (None, False)  # whose, and whether it was told
    for lost, held, seen in looks:
        news = story.look(lost=lost, held=held, health=Health.LOST if lost else Health.OK, **seen)
        kinds = [kind for kind, _ in news]
        assert ("card.lost" in kinds) == (lost and not is_lost)
        is_lost = lost
        busy = held is None or seen.get("utilisation") is None or seen["utilisation"] > 0.01
        if busy or held != idle[0]:
            idle = (held, False)
        if "card.idle" in kinds:
            assert not busy and not idle[1]
            idle = (held, True)
