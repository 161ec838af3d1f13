"""Divided cards and their instances as the planner sees them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from anycard.model.demand import Demand
from anycard.scheduling.feasibility import impossible
from anycard.scheduling.plan import CardState, HostState, Policy, QueuedJob, Snapshot
from anycard.scheduling.planner import plan
from anycard.units import GIB

WHOLE = frozenset({"nvidia", "a100"})


def whole(number: int, *, divided: bool = False) -> CardState:
    return CardState(f"g{number}", "nvidia", "A100", WHOLE, 80 * GIB, not divided, divided=divided)


def part(of: int, slot: int, gib: int) -> CardState:
    profile = f"1g.{gib}gb"
    names = frozenset({"nvidia", "mig", profile})
    return CardState(
        f"m{of}{slot}", "nvidia", f"A100 MIG {profile}", names, gib * GIB, True, part_of=f"g{of}", profile=profile
    )


def host(*cards: CardState) -> HostState:
    return HostState(8, 8, 64 * GIB, 64 * GIB, cards)


def placed(machine: HostState, *demands: Demand) -> list[tuple[str, ...]]:
    queue = tuple(QueuedJob(at, 0, at, (demand,), 1) for at, demand in enumerate(demands, start=1))
    made = plan(Snapshot(machine, queue), Policy(), 0.0)
    return [placement.allocation.card_ids for placement in made.placements]


MIXED = host(whole(0, divided=True), part(0, 0, 10), part(0, 1, 20), whole(1))


def test_the_smallest_adequate_is_taken_be_it_an_instance() -> None:
    assert placed(MIXED, Demand(card_count=1)) == [("m00",)]
    assert placed(MIXED, Demand(card_count=1, card_memory_bytes=15 * GIB)) == [("m01",)]
    assert placed(MIXED, Demand(card_count=1, card="a100")) == [("g1",)]
    assert placed(MIXED, *[Demand(card_count=1)] * 4) == [("m00",), ("m01",), ("g1",)]


def test_several_cards_are_whole_ones() -> None:
    two_whole = replace(MIXED, cards=(*MIXED.cards, whole(2)))
    assert placed(two_whole, Demand(card_count=2)) == [("g1", "g2")]
    assert placed(MIXED, Demand(card_count=2)) == []
    why = impossible([Demand(card_count=2)], MIXED)
    assert (
        "2 cards asked: of MIG instances a program can use one at a time, and of whole cards this machine has 1"
        in str(why)
    )


def test_a_divided_card_that_is_named_is_refused_with_its_instances() -> None:
    machine = host(whole(0, divided=True), part(0, 0, 10), part(0, 1, 20))
    why = str(impossible([Demand(card_count=1, card="A100")], machine))
    assert "1 A100 asked, this machine has 0" in why
    assert "1g.10gb, 1g.20gb" in why


def test_mig_mode_without_an_instance_says_where_the_way_out_is() -> None:
    for demand in (Demand(card_count=1), Demand(card_count=1, card="a100")):
        assert "`anycard cards` says how to make one" in str(impossible([demand], host(whole(0, divided=True))))


def test_what_is_too_large_for_every_instance_is_not_promised() -> None:
    machine = host(whole(0, divided=True), part(0, 0, 10))
    assert "10gb" in str(impossible([Demand(card_count=1, card_memory_bytes=40 * GIB)], machine))
    assert "this machine has 0" in str(impossible([Demand(card_count=1, card_memory_bytes=100 * GIB)], machine))


@given(
    cards=st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=4),
    asks=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([None, "nvidia", "a100", "mig", "1g.10gb"])), max_size=8
    ),
)
def test_no_divided_card_is_ever_granted_nor_an_instance_with_another(
    cards: list[tuple[bool, int]], asks: list[tuple[int, str | None]]
) -> None:
    states: list[CardState] = []
    for number, (divided, count) in enumerate(cards):
        states.append(whole(number, divided=divided))
        states += [part(number, slot, 10) for slot in range(count if divided else 0)]
    known = {state.id: state for state in states}
    granted = placed(host(*states), *(Demand(card_count=count, card=name) for count, name in asks))
    for ids in granted:
        assert not any(known[card_id].divided for card_id in ids)
        assert len(ids) == 1 or all(known[card_id].part_of is None for card_id in ids)
    every = [card_id for ids in granted for card_id in ids]
    assert len(every) == len(set(every))
