"""What holds for every plan, whatever the machine and the queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.model.demand import Demand
from anycard.model.text import Text
from anycard.scheduling.feasibility import candidates, matches, millicores
from anycard.scheduling.plan import CardState, HostState, Plan, Policy, QueuedJob, Snapshot
from anycard.scheduling.planner import impossible, plan

MODELS = {"A100": ("nvidia", 80), "T4": ("nvidia", 16), "MI300X": ("amd", 192), "odd": ("odd", None)}
CPUS = st.sampled_from([0.1, 0.25, 0.3, 1, 1.5, 2, 4, 64])


@st.composite
def hosts(draw: st.DrawFn) -> HostState:
    models = draw(st.lists(st.sampled_from(sorted(MODELS)), max_size=6))
    cards = tuple(
        CardState(
            f"card:{n}",
            MODELS[model][0],
            model,
            frozenset({model.lower(), MODELS[model][0]}),
            MODELS[model][1],
            draw(st.booleans()),
        )
        for n, model in enumerate(models)
    )
    cpus = draw(st.sampled_from([1, 2, 8]))
    memory = draw(st.sampled_from([16, 64]))
    return HostState(cpus, draw(st.integers(0, cpus * 10)) / 10, memory, draw(st.integers(0, memory)), cards)


demands = st.builds(
    Demand,
    cpus=CPUS,
    memory_bytes=st.sampled_from([None, 0, 1, 16, 40, 1000]),
    card_count=st.sampled_from([0, 0, 1, 2, 3]),
    card=st.sampled_from([None, "A100", "nvidia", "mi300x", "H100"]),
    card_memory_bytes=st.sampled_from([None, 16, 40]),
)


@st.composite
def queues(draw: st.DrawFn) -> tuple[QueuedJob, ...]:
    shapes = draw(st.lists(st.lists(demands, min_size=1, max_size=3).map(tuple), min_size=1, max_size=5))
    jobs = draw(
        st.lists(
            st.builds(
                QueuedJob,
                id=st.just(0),
                priority=st.sampled_from([-1, 0, 0, 7]),
                order=st.just(0),
                options=st.sampled_from(shapes),
                ready=st.sampled_from([0, 1, 1, 3, 50]),
                waiting=st.sampled_from([None, Text("held")]),
                avoid=st.sampled_from([frozenset(), frozenset(), frozenset({"card:0"})]),
            ),
            max_size=12,
        )
    )
    return tuple(replace(job, id=number, order=number) for number, job in enumerate(jobs, 1))


snapshots = st.builds(Snapshot, host=hosts(), queue=queues())


def in_order(queue: tuple[QueuedJob, ...]) -> list[QueuedJob]:
    return sorted(queue, key=lambda job: (-job.priority, job.order))


def after(host: HostState, made: Plan, of: set[int] | None = None) -> HostState:
    """``host`` once the placements (of these jobs only) hold what they were given."""
    held = [placement.allocation for placement in made.placements if of is None or placement.job_id in of]
    cards = {card_id for allocation in held for card_id in allocation.card_ids}
    return replace(
        host,
        cpus_free=(millicores(host.cpus_free) - sum(millicores(allocation.cpus) for allocation in held)) / 1000,
        memory_free_bytes=host.memory_free_bytes - sum(allocation.memory_bytes or 0 for allocation in held),
        cards=tuple(replace(card, free=card.free and card.id not in cards) for card in host.cards),
    )


def fits(demand: Demand, host: HostState, avoid: frozenset[str]) -> bool:
    """Said again in other words than the planner's: counts only."""
    if millicores(demand.cpus) > millicores(host.cpus_free) or (demand.memory_bytes or 0) > host.memory_free_bytes:
        return False
    usable = Counter(card.vendor for card in host.cards if card.free and card.id not in avoid and matches(card, demand))
    return demand.card_count == 0 or any(count >= demand.card_count for count in usable.values())


@given(snapshots, st.integers(0, 20))
def test_nothing_is_over_committed(snapshot: Snapshot, max_starts: int) -> None:
    made = plan(snapshot, Policy(max_starts=max_starts), 0.0)
    left = after(snapshot.host, made)
    assert left.cpus_free >= 0 or not made.placements
    assert left.memory_free_bytes >= 0
    used = [card_id for placement in made.placements for card_id in placement.allocation.card_ids]
    assert len(used) == len(set(used))
    assert set(used) <= {card.id for card in snapshot.host.cards if card.free}
    assert len(made.placements) <= max_starts


@given(snapshots)
def test_each_placement_is_what_was_asked(snapshot: Snapshot) -> None:
    jobs = {job.id: job for job in snapshot.queue}
    cards = {card.id: card for card in snapshot.host.cards}
    made = plan(snapshot, Policy(), 0.0)
    for placement in made.placements:
        job = jobs[placement.job_id]
        demand = job.options[placement.option]
        given_cards = [cards[card_id] for card_id in placement.allocation.card_ids]
        assert (placement.allocation.cpus, placement.allocation.memory_bytes) == (demand.cpus, demand.memory_bytes)
        assert len(given_cards) == demand.card_count
        assert len({card.vendor for card in given_cards}) <= 1
        assert all(matches(card, demand) and card.id not in job.avoid for card in given_cards)
    counts = Counter(placement.job_id for placement in made.placements)
    assert all(count <= max(0, jobs[number].ready) for number, count in counts.items())


@given(snapshots, st.integers(0, 20))
def test_every_waiting_job_has_a_reason_and_no_other(snapshot: Snapshot, max_starts: int) -> None:
    made = plan(snapshot, Policy(max_starts=max_starts), 0.0)
    counts = Counter(placement.job_id for placement in made.placements)
    waiting = {job.id for job in snapshot.queue if job.ready > counts[job.id] or job.waiting is not None}
    assert set(made.reasons) == waiting
    for reason in made.reasons.values():
        assert "{" not in str(reason.why) + str(reason.sooner), "a field was not filled"


@given(snapshots)
def test_the_same_snapshot_gives_the_same_plan_in_whatever_order_it_lists_its_jobs(snapshot: Snapshot) -> None:
    turned = replace(snapshot, queue=tuple(reversed(snapshot.queue)))
    assert plan(snapshot, Policy(), 0.0) == plan(turned, Policy(), 5.0)


@given(snapshots)
def test_later_jobs_change_nothing_for_earlier_ones(snapshot: Snapshot) -> None:
    queue = in_order(snapshot.queue)
    whole = plan(snapshot, Policy(), 0.0)
    for length in range(len(queue)):
        part = plan(replace(snapshot, queue=tuple(queue[:length])), Policy(), 0.0)
        earlier = {job.id for job in queue[:length]}
        assert [placement for placement in whole.placements if placement.job_id in earlier] == list(part.placements)
        assert part.reasons == {number: reason for number, reason in whole.reasons.items() if number in earlier}


@given(snapshots)
def test_the_first_waiting_job_loses_nothing_to_later_ones(snapshot: Snapshot) -> None:
    """What it could use of the free resources is as much after the later jobs were placed as it was before."""
    made = plan(snapshot, Policy(), 0.0)
    counts = Counter(placement.job_id for placement in made.placements)
    earlier: set[int] = set()
    for job in in_order(snapshot.queue):
        earlier.add(job.id)
        if job.ready > counts[job.id] and _servable(job, snapshot.host):
            break
    else:
        return
    before, left = after(snapshot.host, made, earlier), after(snapshot.host, made)
    for demand in job.options:
        assert not (fits(demand, before, job.avoid) and _possible(demand, job, snapshot.host)), "it should have started"
        if not _possible(demand, job, snapshot.host):
            continue
        need = millicores(demand.cpus)
        assert min(need, millicores(left.cpus_free)) == min(need, millicores(before.cpus_free))
        memory = demand.memory_bytes or 0
        assert min(memory, left.memory_free_bytes) == min(memory, before.memory_free_bytes)
        if demand.card_count:
            for group in candidates(snapshot.host.cards, demand, job.avoid):
                ids = {card.id for card in group.cards}
                had = sum(card.free for card in before.cards if card.id in ids)
                has = sum(card.free for card in left.cards if card.id in ids)
                assert min(demand.card_count, has) == min(demand.card_count, had)


@given(snapshots)
def test_the_first_job_starts_if_it_fits(snapshot: Snapshot) -> None:
    first = next((job for job in in_order(snapshot.queue) if job.ready > 0), None)
    if first is None:
        return
    started = any(placement.job_id == first.id for placement in plan(snapshot, Policy(), 0.0).placements)
    assert started == any(
        fits(d, snapshot.host, first.avoid) and _possible(d, first, snapshot.host) for d in first.options
    )


@settings(max_examples=60)
@given(snapshots, st.randoms(use_true_random=False))
def test_every_job_that_can_run_is_started_in_the_end(snapshot: Snapshot, random: object) -> None:
    """Played forward: one running item ends a turn, in whatever order. Nobody starves, and the machine ends empty."""
    host = replace(
        snapshot.host,
        cpus_free=snapshot.host.cpus_total,
        memory_free_bytes=snapshot.host.memory_total_bytes,
        cards=tuple(replace(card, free=True) for card in snapshot.host.cards),
    )
    left = {job.id: min(job.ready, 5) for job in snapshot.queue}
    running: list[tuple[int, Plan]] = []
    for _ in range(1000):
        now = host
        for _, held in running:
            now = after(now, held)
        queue = tuple(replace(job, ready=left[job.id]) for job in snapshot.queue)
        made = plan(Snapshot(now, queue), Policy(), 0.0)
        for placement in made.placements:
            left[placement.job_id] -= 1
            running.append((placement.job_id, Plan((placement,))))
        if not running:
            break
        running.pop(random.randrange(len(running)))  # type: ignore[attr-defined]
    assert {job.id for job in snapshot.queue if left[job.id] > 0} == {
        job.id for job in snapshot.queue if job.ready > 0 and not _servable(job, host)
    }


def _possible(demand: Demand, job: QueuedJob, host: HostState) -> bool:
    others = replace(host, cards=tuple(card for card in host.cards if card.id not in job.avoid))
    return impossible([demand], others) is None


def _servable(job: QueuedJob, host: HostState) -> bool:
    return any(_possible(demand, job, host) for demand in job.options)
