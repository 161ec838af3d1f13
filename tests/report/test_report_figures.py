"""Figures and findings over plain series."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anycard.jobs.report.figures import Cause, figures
from anycard.jobs.report.findings import findings
from anycard.jobs.report.moments import Hold, Seen, Work, moments
from anycard.model.card import Reading
from anycard.model.series import Series, values_of

GIB = 2**30
T0 = 1_700_000_000.0
A, B = "nvidia:GPU-a", "nvidia:GPU-b"


def series(card_id, step_s=10.0, begin=T0, **columns):
    """One card from lists of values of Reading; a column of Nones everywhere is a gap."""
    length = max(len(values) for values in columns.values())
    rows, times = [], []
    for at in range(length):
        seen = {name: values[at] for name, values in columns.items()}
        if any(value is not None for value in seen.values()):
            times.append(begin + at * step_s)
            rows.append(values_of(Reading(card_id, **seen)))
    return Series(card_id, tuple(times), tuple(rows))


def told(
    *,
    busy,
    cores=None,
    rate=None,
    step_s=10.0,
    holds=None,
    cpus=4.0,
    memory=None,
    total=None,
    extra=None,
    waits=None,
    host=None,
):
    """What is found of one card that one attempt held for all of ``busy``."""
    count = len(busy)
    columns = {"utilisation": busy}
    if memory is not None:
        columns |= {"memory_used_bytes": memory, "memory_total_bytes": [total] * count}
    columns |= extra or {}
    work = [
        Work(T0 + at * step_s, 1, None if cores is None else cores[at], None if rate is None else rate[at])
        for at in range(count)
    ]
    seen_of_host = {"io_wait": waits, "utilisation": host}
    cpu = (
        series("cpu", step_s, **{name: values for name, values in seen_of_host.items() if values})
        if waits or host
        else None
    )
    held = holds or [Hold(A, 1, T0, T0 + count * step_s, cpus)]
    made = figures(Seen(held, {A: series(A, step_s, **columns)}, step_s, work, step_s, cpu, 8.0))
    return made.cards[0], {one.kind: one for one in findings(made, {A: "A100"})}


def test_busy_and_idle_are_shares_of_what_was_seen():
    card, found = told(busy=[0.9, 0.0, None, 0.9, 0.9], cores=[1, 1, 1, 1, 1])
    assert (card.held_s, card.seen_s, card.idle_s) == (50.0, 40.0, 10.0)
    assert card.idle_share == 0.25
    assert card.utilisation == 0.675
    (stretch,) = card.stretches
    assert (stretch.since - T0, stretch.until - T0, stretch.cause) == (10.0, 20.0, Cause.CPU)
    assert "cpu-bound" in found


def test_the_cpu_worked_while_the_card_waited():
    busy = [0.9, 0.0] * 30
    _, found = told(busy=busy, cores=[1.0] * 60, cpus=8)
    one = found["cpu-bound"]
    assert (
        str(one.text)
        == "A100 idled 4m50s (48 % of the time) while the CPU worked (1.0 of 8 CPUs): it waited for the CPU"
    )
    assert "num_workers=8" in str(one.advice)
    _, found = told(busy=busy, cores=[3.9] * 60, cpus=4)
    assert "--cpus 8" in str(found["cpu-bound"].advice)
    _, found = told(busy=busy, cores=[2.0] * 60, cpus=8)
    assert "more workers" in str(found["cpu-bound"].advice)
    assert set(found) == {"cpu-bound"}
    # Half of a core is all that a program gets on a host whose CPUs are all busy.
    _, found = told(busy=busy, cores=[0.5] * 60, cpus=2, host=[1.0] * 60)
    assert "other programs take them" in str(found["cpu-bound"].advice)
    _, found = told(busy=busy, cores=[0.5] * 60, cpus=2, host=[0.3] * 60)
    assert set(found) == {"idle"}


def test_both_idle_is_storage_when_data_comes_and_waiting_when_none_does():
    busy = [0.9, 0.0] * 30
    _, found = told(busy=busy, cores=[0.1] * 60, rate=[50e6] * 60)
    assert "storage" in str(found["storage-bound"].text)
    assert found["storage-bound"].share == 29 / 60
    _, found = told(busy=busy, cores=[0.1] * 60, waits=[0.1] * 60)  # 0.8 of 8 cores wait for a disk
    assert set(found) == {"storage-bound"}
    _, found = told(busy=busy, cores=[0.1] * 60, rate=[1e3] * 60, waits=[0.01] * 60)
    assert set(found) == {"waiting"}
    assert "{idle: 10m}" in str(found["waiting"].advice)
    _, found = told(busy=busy)
    assert set(found) == {"idle"}


def test_before_and_after_the_work():
    card, found = told(busy=[0.0] * 20 + [0.9] * 20 + [0.02] * 10, cores=[1.0] * 50)
    assert (card.before_s, card.after_s) == (200.0, 100.0)
    assert "`setup:`" in str(found["idle-before"].advice)
    assert "`after:`" in str(found["idle-after"].advice)
    assert "cpu-bound" not in found
    assert (found["idle-before"].share, found["idle-after"].share) == (0.4, 0.2)


def test_a_card_that_was_never_used():
    _, found = told(busy=[0.0] * 30, cores=[1.0] * 30, memory=[0] * 30, total=80 * GIB)
    assert set(found) == {"unused"}


def test_memory_near_its_end_and_far_from_it():
    memory = [40 * GIB] * 50 + [78 * GIB] * 10
    card, found = told(busy=[0.9] * 60, memory=memory, total=80 * GIB)
    assert (card.near_cap_s, card.memory_peak_bytes) == (100.0, 78 * GIB)
    assert str(found["near-cap"].text) == (
        "memory of A100 was at 95 % or more for 17 % of the time: at most 78 GiB of 80 GiB"
    )
    _, found = told(busy=[0.9] * 60, memory=[8 * GIB] * 60, total=80 * GIB)
    assert set(found) == {"spare-memory"}
    _, found = told(busy=[0.9] * 60, memory=[60 * GIB] * 60, total=80 * GIB)
    assert set(found) == {"well-used"}


def test_why_it_was_slow():
    def slowed(*reasons, share=0.5):
        marked = [reasons] * round(60 * share) + [()] * (60 - round(60 * share))
        return told(busy=[0.9] * 60, extra={"throttle_reasons": marked, "temperature_c": [88.0] * 60})

    card, found = slowed("hardware-thermal")
    assert (card.throttled_s, card.throttle_reasons) == (300.0, {"hardware-thermal": 300.0})
    assert str(found["throttled-heat"].text) == "A100 was slowed down by heat for 50 % of the time (up to 88 °C)"
    assert "throttled-power" in slowed("power-cap")[1]
    assert "power-brake" in str(slowed("power-brake")[1]["throttled-hardware"].text)
    assert set(slowed("power-brake", share=0.05)[1]) == {"well-used"}


def test_a_little_work_all_the_time():
    _, found = told(busy=[0.3] * 60)
    assert found["half-used"].text.params["share"] == 30


def test_too_short_and_never_seen():
    _, found = told(busy=[0.9] * 5, step_s=1.0)
    assert set(found) == {"too-short"}
    _, found = told(busy=[0.0] * 5, step_s=1.0)
    assert set(found) == {"too-short"}
    made = figures(Seen([Hold(A, 1, T0, T0 + 100, 1.0)], {}, 10.0))
    assert [one.kind for one in findings(made, {})] == ["no-readings"]
    assert made.cards[0].idle_share is None


def test_a_job_without_a_card():
    def cpu_job(cores, cpus, count=30):
        holds = [Hold("cpu", 1, T0, T0 + count * 10, cpus)]
        work = [Work(T0 + at * 10, 1, cores) for at in range(count)]
        made = figures(Seen(holds, {}, 10.0, work))
        assert made.cards == ()
        return [(one.kind, str(one.advice or "")) for one in findings(made, {})]

    assert cpu_job(1.0, 8.0) == [("cpus-spare", "asking for fewer (`--cpus 1`) lets others start sooner")]
    assert cpu_job(7.9, 8.0)[0][0] == "cpus-full"
    assert cpu_job(0.6, 1.0) == [("cpus-used", "")]
    assert cpu_job(None, 1.0)[0][0] == "no-readings"
    assert cpu_job(1.0, 1.0, count=0)[0][0] == "no-readings"


def test_items_without_a_card_that_were_shorter_than_a_look():
    """What each used in all is known when it is over, and that several ran at once is no reason to ask for fewer."""
    holds = [Hold("cpu", n, T0 + n // 2 * 6, T0 + n // 2 * 6 + 6, 1.0, cpu_s) for n, cpu_s in enumerate([3.0, 1.8] * 4)]
    made = figures(Seen(holds, {}, 1.0))
    (one,) = findings(made, {})
    assert (one.kind, one.text.params, one.advice) == ("cpus-used", {"cores": "0.8", "cpus": "2", "share": 40}, None)
    (wide,) = findings(figures(Seen([Hold("cpu", 1, T0, T0 + 20, 8.0, 40.0)], {}, 1.0)), {})
    assert wide.advice is not None and wide.advice.params == {"fewer": 2}
    late = [
        Hold("cpu", n, T0 + n * 100, T0 + n * 100 + 10, 1.0, 6.0) for n in range(3)
    ]  # tries with long waits between them
    assert figures(Seen(late, {}, 1.0)).cpu.cpus == 1.0
    (open_,) = findings(figures(Seen([*holds, Hold("cpu", 9, T0, T0 + 30, 1.0)], {}, 1.0)), {})
    assert open_.kind == "no-readings"


def test_what_several_cards_share_is_told_once_of_the_worst():
    holds = [Hold(card, 1, T0, T0 + 600, 8.0) for card in (A, B)]
    seen = {A: series(A, utilisation=[0.9, 0.0, 0.9, 0.9] * 15), B: series(B, utilisation=[0.9, 0.0] * 30)}
    work = [Work(T0 + at * 10, 1, 1.0) for at in range(60)]
    made = figures(Seen(holds, seen, 10.0, work))
    (one,) = findings(made, {A: "first", B: "second"})
    assert one.cards == (B, A)
    assert str(one.text).startswith("second idled")
    assert made.cpu.cores == 1.0  # an attempt on two cards is counted once


def test_rows_that_tell_of_the_attempt_before_do_not_count():
    # The row from T0 on began four seconds before this attempt did, and holds somebody else's full memory.
    one = series(
        A, utilisation=[1.0, 0.1, 0.1], memory_used_bytes=[79 * GIB, GIB, GIB], memory_total_bytes=[80 * GIB] * 3
    )
    hold = Hold(A, 2, T0 + 4, T0 + 30, 1.0)
    made = figures(Seen([hold], {A: one}, 10.0))
    assert made.cards[0].memory_peak_bytes == GIB
    assert made.cards[0].seen_s == 20.0
    short = Hold(A, 2, T0 + 4, T0 + 8, 1.0)  # within one row: that is all there is
    assert moments(Seen([short], {A: one}, 10.0))[short][0].length_s == 4.0


def test_many_items_one_after_the_other():
    holds = [Hold(A, at, T0 + 60 * at, T0 + 60 * (at + 1), 2.0) for at in range(10)]
    made = figures(Seen(holds, {A: series(A, utilisation=[0.0, 0.0, 0.9, 0.9, 0.9, 0.9] * 10)}, 10.0))
    (card,) = made.cards
    assert (card.holds, card.before_s, card.held_s) == (10, 200.0, 600.0)
    assert [one.kind for one in findings(made, {})] == ["idle-before"]


ratio = st.one_of(st.none(), st.floats(0, 1))


@given(
    busy=st.lists(ratio, min_size=1, max_size=40),
    cores=st.one_of(st.none(), st.floats(0, 16)),
    rate=st.one_of(st.none(), st.floats(0, 1e9)),
    memory=ratio,
    begin=st.floats(-30, 30),
    length=st.floats(0, 500),
    cpus=st.floats(0.001, 128),
    step=st.sampled_from([1.0, 10.0, 60.0]),
)
def test_whatever_was_seen_the_sums_hold(busy, cores, rate, memory, begin, length, cpus, step):
    used = [None if one is None or memory is None else round(memory * 80 * GIB) for one in busy]
    one = series(A, step, utilisation=busy, memory_used_bytes=used, memory_total_bytes=[80 * GIB] * len(busy))
    hold = Hold(A, 1, T0 + begin, T0 + begin + length, cpus)
    work = [Work(T0 + at * step, 1, cores, rate) for at in range(len(busy))]
    made = figures(Seen([hold], {A: one}, step, work, step))
    (card,) = made.cards
    near = 1e-6 * max(1.0, card.held_s)
    assert 0 <= card.seen_s <= card.held_s + near
    assert 0 <= card.idle_s <= card.seen_s + near
    assert abs(card.before_s + card.after_s + sum(card.by_cause.values()) - card.idle_s) <= near
    assert all(stretch.length_s >= 0 for stretch in card.stretches)
    assert sum(stretch.length_s for stretch in card.stretches) <= card.idle_s + near + step
    assert card.utilisation is None or 0 <= card.utilisation <= 1
    found = findings(made, {})
    assert found
    for one in found:
        assert "{" not in str(one.text).replace("{idle", "")
        assert one.share is None or 0 <= one.share <= 1 + 1e-9
        assert one.advice is None or "{length}" not in str(one.advice)
