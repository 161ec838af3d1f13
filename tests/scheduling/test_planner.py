"""The first policy by example: who starts, on which card, and what the others are told."""

from __future__ import annotations

from anycard.model.demand import Demand
from anycard.model.text import Text
from anycard.scheduling.plan import CardState, HostState, Plan, Policy, QueuedJob, Snapshot
from anycard.scheduling.planner import impossible, plan

GIB = 1 << 30


def card(
    number: int, model: str = "A100", gib: int | None = 80, free: bool = True, vendor: str = "nvidia"
) -> CardState:
    names = frozenset({model.lower(), vendor})
    return CardState(f"{vendor}:{number}", vendor, model, names, None if gib is None else gib * GIB, free)


def host(
    cards: tuple[CardState, ...] = (), cpus: float = 8, cpus_free: float | None = None, gib_free: int = 64
) -> HostState:
    return HostState(cpus, cpus if cpus_free is None else cpus_free, 64 * GIB, gib_free * GIB, cards)


def job(number: int, *options: Demand, ready: int = 1, priority: int = 0, **more: object) -> QueuedJob:
    return QueuedJob(number, priority, number, options or (Demand(),), ready, **more)  # type: ignore[arg-type]


def planned(on: HostState, *jobs: QueuedJob, policy: Policy | None = None) -> Plan:
    return plan(Snapshot(on, jobs), policy or Policy(), 0.0)


def starts(of: Plan) -> list[int]:
    return [placement.job_id for placement in of.placements]


def why(of: Plan, number: int) -> str:
    return str(of.reasons[number].why)


def sooner(of: Plan, number: int) -> str | None:
    hint = of.reasons[number].sooner
    return None if hint is None else str(hint)


def test_higher_priority_first_then_submission_order() -> None:
    assert starts(planned(host(), job(3), job(1), job(2, priority=5))) == [2, 1, 3]


def test_items_of_a_job_start_while_it_has_some_ready_and_they_fit() -> None:
    result = planned(host(cpus=4), job(1, Demand(cpus=1.5), ready=10))
    assert starts(result) == [1, 1]
    assert why(result, 1) == "waits for CPUs: asks 1.5, 1 free"
    assert sooner(result, 1) == "would start now with cpus: 1"


def test_fractions_of_a_cpu_add_up_exactly() -> None:
    assert 0.1 * 3 > 0.3
    assert starts(planned(host(cpus=8, cpus_free=0.3), job(1, Demand(cpus=0.1), ready=4))) == [1, 1, 1]
    assert starts(planned(host(cpus=8, cpus_free=1 - 0.9), job(1, Demand(cpus=0.1)))) == [1]


def test_smallest_adequate_card_first() -> None:
    cards = (card(0, "A100", 80), card(1, "T4", 16), card(2, "L4", 24), card(3, "T4", 16))
    placed = planned(host(cards), job(1, Demand(card_count=1), ready=4)).placements
    assert [placement.allocation.card_ids for placement in placed] == [
        ("nvidia:1",),
        ("nvidia:3",),
        ("nvidia:2",),
        ("nvidia:0",),
    ]
    (only,) = planned(host(cards), job(1, Demand(card_count=1, card_memory_bytes=20 * GIB))).placements
    assert only.allocation.card_ids == ("nvidia:2",)


def test_a_card_is_called_by_a_whole_name() -> None:
    cards = (card(0, "A100-80GB"), card(1, "A100"))
    (only,) = planned(host(cards), job(1, Demand(card_count=1, card="a100"))).placements
    assert only.allocation.card_ids == ("nvidia:1",)
    assert planned(host(cards[:1]), job(1, Demand(card_count=1, card="A100"))).placements == ()


def test_a_card_of_unknown_memory_is_not_known_to_be_large_enough() -> None:
    cards = (card(0, gib=None),)
    assert starts(planned(host(cards), job(1, Demand(card_count=1)))) == [1]
    assert starts(planned(host(cards), job(1, Demand(card_count=1, card_memory_bytes=1)))) == []


def test_cards_of_one_item_are_of_one_vendor() -> None:
    mixed = (card(0), card(0, "MI300X", 192, vendor="amd"))
    assert str(impossible([Demand(card_count=2)], host(mixed))) == "2 cards of one vendor asked, this machine has 1"
    enough = (*mixed, card(1, "MI300X", 192, vendor="amd"))
    (only,) = planned(host(enough), job(1, Demand(card_count=2))).placements
    assert only.allocation.card_ids == ("amd:0", "amd:1")


def test_the_cpu_is_no_accelerator() -> None:
    cpu = CardState("cpu", "cpu", "Xeon", frozenset({"cpu", "xeon"}), None, True)
    assert str(impossible([Demand(card_count=1)], host((cpu,)))) == "1 card asked, this machine has no accelerator"


def test_options_are_tried_in_order_for_each_item() -> None:
    either = (Demand(card_count=1), Demand(cpus=4))
    placed = planned(host((card(0),)), job(1, *either, ready=3)).placements
    assert [placement.option for placement in placed] == [0, 1]
    assert [placement.allocation.card_ids for placement in placed] == [("nvidia:0",), ()]


def test_avoided_cards_are_not_used() -> None:
    avoiding = job(1, Demand(card_count=1), avoid=frozenset({"nvidia:0"}))
    (only,) = planned(host((card(0), card(1))), avoiding).placements
    assert only.allocation.card_ids == ("nvidia:1",)
    alone = planned(host((card(0),)), avoiding, job(2, Demand(card_count=1)))
    assert why(alone, 1) == "waits for cards other than those that failed it: asks 1, this machine has 0 more"
    assert starts(alone) == [2], "a job that cannot be served keeps nothing from the others"


def test_the_blocked_job_at_the_head_keeps_what_it_waits_for() -> None:
    cards = tuple(card(number, free=number == 0) for number in range(4))
    result = planned(
        host(cards, cpus=8),
        job(1, Demand(cpus=4, card_count=2)),
        job(2, Demand(card_count=1)),
        job(3, Demand(cpus=4)),
        job(4, Demand(cpus=1)),
    )
    assert starts(result) == [3]
    assert why(result, 1) == "waits for 2 free cards (1 of 4 free)"
    assert sooner(result, 1) == "would start now with 1 card"
    assert why(result, 2) == "behind job 1, which waits for 2 free cards (1 of 4 free)"
    assert sooner(result, 2) == "would start now with a priority above 0"
    assert why(result, 4) == "behind job 1, which waits for 2 free cards (1 of 4 free)"


def test_a_job_that_needs_nothing_of_what_is_short_goes_on() -> None:
    result = planned(
        host((card(0, free=False),), gib_free=8),
        job(1, Demand(memory_bytes=32 * GIB)),
        job(2),
        job(3, Demand(memory_bytes=1)),
    )
    assert starts(result) == [2]
    assert why(result, 1) == "waits for memory: asks 32 GiB, 8 GiB free"
    assert sooner(result, 1) == "would start now with 8 GiB of memory"
    assert why(result, 3) == "behind job 1, which waits for memory: asks 32 GiB, 8 GiB free"


def test_a_job_behind_another_leaves_the_rest_to_others() -> None:
    """Job 2 cannot start before job 1, so the CPUs that it will want one day must not stand idle."""
    busy = (card(0, free=False),)
    result = planned(
        host(busy, cpus=8),
        job(1, Demand(cpus=1, card_count=1)),
        job(2, Demand(cpus=7, card_count=1)),
        job(3, Demand(cpus=7)),
    )
    assert starts(result) == [3]


def test_each_resource_has_its_own_line() -> None:
    busy = (card(0, free=False),)
    result = planned(
        host(busy, cpus=8, cpus_free=5),
        job(1, Demand(cpus=1, card_count=1)),  # first in line for the card, keeps 1 CPU
        job(2, Demand(cpus=6)),  # first in line for CPUs, keeps the other 4
        job(3, Demand(cpus=1)),
    )
    assert starts(result) == []
    assert why(result, 2) == "waits for CPUs: asks 6, 5 free"
    assert why(result, 3) == "behind job 2, which waits for CPUs: asks 6, 5 free"


def test_equal_jobs_are_told_who_is_at_the_front() -> None:
    cards = (card(0, free=False),)
    result = planned(host(cards), *(job(number, Demand(card_count=1, card="A100")) for number in range(1, 4)))
    assert why(result, 1) == "waits for 1 free A100 (0 of 1 free)"
    assert why(result, 2) == why(result, 3) == "behind job 1, which waits for 1 free A100 (0 of 1 free)"


def test_a_job_this_machine_cannot_serve_now_says_so_and_blocks_nobody() -> None:
    result = planned(host((card(0),)), job(1, Demand(card_count=2)), job(2, Demand(card_count=1)))
    assert starts(result) == [2]
    assert why(result, 1) == "2 cards asked, this machine has 1"


def test_the_callers_reason_is_passed_on() -> None:
    held = Text("held by {user}", {"user": "ann"})
    assert planned(host(), job(1, ready=0, waiting=held)).reasons[1].why is held
    parallel = Text("its own limit: {n} at once", {"n": 2})
    partly = planned(host(), job(1, ready=2, waiting=parallel))
    assert starts(partly) == [1, 1]
    assert partly.reasons[1].why is parallel
    assert planned(host(), job(1, ready=0)).reasons == {}


def test_a_turn_starts_no_more_than_its_bound() -> None:
    result = planned(host(), job(1, ready=2), job(2, ready=5), policy=Policy(max_starts=3))
    assert starts(result) == [1, 1, 2]
    assert why(result, 2) == "starts in a moment"


def test_paused_starts_nothing_and_says_why() -> None:
    full = Text("the disk is full")
    held = Text("held")
    result = planned(host(), job(1), job(2, ready=0, waiting=held), policy=Policy(starts_paused=full))
    assert result.placements == ()
    assert (result.reasons[1].why, result.reasons[2].why) == (full, held)


def test_impossible_says_what_was_asked_and_what_there_is() -> None:
    two = host((card(0), card(1, "T4", 16)), cpus=2)
    assert str(impossible([Demand(card_count=8)], two)) == "8 cards asked, this machine has 2"
    assert str(impossible([Demand(cpus=64)], two)) == "64 CPUs asked, this machine has 2"
    assert str(impossible([Demand(memory_bytes=128 * GIB)], two)) == "128 GiB of memory asked, this machine has 64 GiB"
    assert (
        str(impossible([Demand(card_count=1, card="H100")], two))
        == "no card here is called H100: this machine has A100, T4"
    )
    assert (
        str(impossible([Demand(card_count=1, card="H100")], host()))
        == "no card here is called H100: this machine has no accelerator"
    )
    assert str(impossible([Demand(card_count=2, card="T4")], two)) == "2 T4 asked, this machine has 1"
    assert (
        str(impossible([Demand(card_count=2, card_memory_bytes=40 * GIB)], two))
        == "2 cards of 40 GiB or more asked, this machine has 1"
    )
    assert impossible([Demand(card_count=8), Demand(cpus=2)], two) is None
    busy = host((card(0, free=False),), cpus_free=0, gib_free=0)
    assert impossible([Demand(card_count=1, memory_bytes=GIB)], busy) is None
