"""Replays of spot availability."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.offers.spot import SpotJob, availability, checkpoint_interval, forecast, replay

RECORDS = st.builds(
    availability, st.lists(st.integers(0, 1), min_size=1, max_size=200), st.sampled_from([60.0, 195.0, 600.0])
)
SPOT_JOBS = st.builds(
    SpotJob, work_s=st.floats(0, 50_000), restart_s=st.floats(0, 900), checkpoint_s=st.none() | st.floats(0, 300)
)


def test_a_card_that_is_always_there_costs_nothing_more():
    record = availability([1] * 1000, 100.0)
    run = replay(record, 0, SpotJob(work_s=5000, restart_s=300, checkpoint_s=None), None)
    assert (run.elapsed_s, run.paid_s, run.reclaims, run.finished) == (5300, 5300, 0, True)


def test_work_since_the_last_checkpoint_is_lost():
    # 1000 s, gone for 500 s, then back for good; a checkpoint every 300 s of work that costs 10 s
    record = availability([1] * 10 + [0] * 5 + [1] * 100, 100.0)
    run = replay(record, 0, SpotJob(work_s=1200, restart_s=100, checkpoint_s=10), 300.0)
    # 900 s of work time: two intervals of 310 s are kept; 600 s are left, and one checkpoint
    assert run.reclaims == 1
    assert run.elapsed_s == 1500 + 100 + 600 + 10
    assert run.paid_s == 1000 + 100 + 600 + 10


def test_without_checkpoints_it_starts_over():
    record = availability([1] * 10 + [0] + [1] * 30, 100.0)
    run = replay(record, 0, SpotJob(work_s=1000, restart_s=0, checkpoint_s=None), None)
    assert run.elapsed_s == 1000
    run = replay(record, 5, SpotJob(work_s=1000, restart_s=0, checkpoint_s=None), None)
    assert run.elapsed_s == 600 + 1000


def test_a_record_that_ends_first_is_not_finished():
    run = replay(availability([1] * 10, 100.0), 0, SpotJob(work_s=5000), 300.0)
    assert not run.finished and run.elapsed_s == 1000


def test_young_and_daly():
    # C = 60 s, M = 24 h: sqrt(2 C M) = 3,220 s
    assert checkpoint_interval(60, 86400) == pytest.approx(3220, rel=0.03)
    assert checkpoint_interval(0, 86400) == 1
    assert 1 <= checkpoint_interval(1000, 501) <= 501
    assert checkpoint_interval(1500, 500) == 500, (
        "where a checkpoint costs more than twice the time between failures: that time"
    )
    # Daly (2006): sqrt(2 C M) (1 + sqrt(C / 2 M) / 3 + (C / 2 M) / 9) - C, with C = 200 s and M = 2,500 s
    assert checkpoint_interval(200, 2500) == pytest.approx(1000 * (1 + 0.2 / 3 + 0.04 / 9) - 200)


@given(st.floats(0.1, 600), st.floats(1, 10**6), st.floats(1, 10**6))
def test_rarer_failures_never_need_more_checkpoints(cost, mean_run, more):
    if mean_run > 2 * cost:  # Daly's series holds from there on
        assert checkpoint_interval(cost, mean_run + more) >= checkpoint_interval(cost, mean_run) * 0.999


@given(RECORDS, SPOT_JOBS, st.data())
def test_a_replay_never_ends_before_its_work_is_done(record, job, data):
    start = data.draw(st.integers(0, record.length - 1))
    every = None if job.checkpoint_s is None else 300.0
    run = replay(record, start, job, every)
    assert run.paid_s <= run.elapsed_s + 1e-6
    if run.finished:
        assert run.paid_s >= job.work_s - 1e-6


@given(RECORDS, SPOT_JOBS)
def test_quantiles_are_in_order(record, job):
    seen = forecast(record, job, samples=20)
    if seen is None:
        assert record.share == 0 or record.length < 2
        return
    assert seen.elapsed_p50_s <= seen.elapsed_p90_s
    assert seen.paid_p50_s <= seen.paid_p90_s


@given(RECORDS, st.data())
def test_what_was_known_is_the_beginning_of_the_record(record, data):
    step = data.draw(st.integers(0, record.length))
    known = record.until(step)
    assert all(known.up_at(at) == record.up_at(at) for at in range(step))
    assert known.share <= 1


def test_a_card_that_was_never_there_has_no_forecast():
    assert forecast(availability([0] * 100, 60.0), SpotJob(work_s=60)) is None


def test_a_job_that_never_finishes_is_said_to_be_endless():
    record = availability(([1] * 2 + [0] * 5) * 10, 60.0)
    seen = forecast(record, SpotJob(work_s=5000, restart_s=0, checkpoint_s=None))
    assert seen is not None and math.isinf(seen.elapsed_p50_s)
