"""Own hardware, break-even and advice."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.offers.advice import CPU, HERE, RENTED, Candidate, Wish, advise
from anycard.offers.money import PriceError, Rates
from anycard.offers.offer import Offer
from anycard.offers.own import Hardware, break_even_hours_a_week, own_offer
from anycard.offers.quote import QuoteJob, quote

RATES = Rates({"EUR": Decimal(1), "USD": Decimal("1.172"), "CNY": Decimal("8.397")}, "2025-06-30", "ECB")
BOX = Hardware(
    "RTX 4090",
    1,
    Decimal(2000),
    host_price=Decimal(1000),
    life_years=Decimal(4),
    watts=Decimal(500),
    electricity_per_kwh=Decimal("0.2"),
)


def rented(name: str, per_h: str, hours: float, region: str = "eu") -> Candidate:
    terms = Offer(name, name, "i", "A100", Decimal(1), "USD", on_demand_per_h=Decimal(per_h), billing_step_s=1)
    answer = quote(QuoteJob(work_s=round(hours * 3600)), terms, rates=RATES)
    return Candidate(RENTED, name, hours, answer.total, hours * 1.1, "A100", "nvidia", region, answer)


HOME = Candidate(HERE, "here", 10.0, Decimal(1), 11.0, "RTX 4090", "nvidia")
SLOW = Candidate(CPU, "cpu", 200.0, Decimal(0), 250.0, "CPU", "cpu")
FAST = rented("fast", "4", 2.0)
CHEAP = rented("cheap", "0.3", 8.0, "us")


def names(answer) -> list[str]:
    return [one.name for one in answer.ranked]


def test_by_cost_the_far_slower_ranks_last_however_little_it_costs():
    answer = advise([SLOW, FAST, HOME, CHEAP], Wish(), currency="USD")
    assert names(answer) == ["here", "cheap", "fast", "cpu"]
    assert "here" in str(answer.reason) and "cheap" in str(answer.reason)


def test_by_time():
    assert names(advise([SLOW, FAST, HOME, CHEAP], Wish(by="time"), currency="USD"))[0] == "fast"


def test_by_deadline_the_cheapest_that_ends_in_time_even_if_it_goes_badly():
    answer = advise([SLOW, FAST, HOME, CHEAP], Wish(by="deadline", deadline_h=9.0), currency="USD")
    assert names(answer) == ["cheap", "fast"]
    assert {one.name for one in answer.rejected} == {"here", "cpu"}


@pytest.mark.parametrize(
    ("wish", "left"),
    [
        (Wish(data_stays=True), {"here", "cpu"}),
        (Wish(vendors=frozenset(["cpu"])), {"cpu"}),
        (Wish(regions=frozenset(["us"])), {"here", "cpu", "cheap"}),
        (Wish(cost_max=Decimal(2)), {"here", "cpu"}),
    ],
)
def test_constraints_rule_out_and_say_why(wish, left):
    answer = advise([SLOW, FAST, HOME, CHEAP], wish, currency="USD")
    assert set(names(answer)) == left
    assert all(str(one.reason) for one in answer.rejected)


def test_nothing_left_is_said():
    answer = advise([FAST], Wish(data_stays=True), currency="USD")
    assert answer.choice is None and "nothing is left" in str(answer.reason)
    assert answer.to_json()["choice"] is None


def test_break_even_is_where_both_cost_the_same():
    hours = break_even_hours_a_week(BOX, Decimal(1))
    assert hours is not None
    own_week = BOX.standing_per_week + hours * BOX.marginal_per_h
    assert own_week == pytest.approx(hours * Decimal(1))


@given(st.decimals("0.2", "100", places=2), st.decimals("0.01", "50", places=2))
def test_dearer_rent_never_raises_the_break_even(rent, more):
    low, high = break_even_hours_a_week(BOX, rent), break_even_hours_a_week(BOX, rent + more)
    if low is not None:
        assert high is not None and high <= low


def test_renting_below_the_price_of_electricity_never_breaks_even():
    assert break_even_hours_a_week(BOX, Decimal("0.05")) is None


def test_own_hardware_counts_everything():
    plain = own_offer(BOX).on_demand_per_h
    for change in (
        {"power_supply_price": Decimal(200)},
        {"cooling_price": Decimal(200)},
        {"setup_hours": Decimal(10), "wage_per_h": Decimal(50)},
        {"idle_share": Decimal("0.9")},
        {"life_years": Decimal(2)},
        {"idle_watts": Decimal(80)},
    ):
        assert own_offer(replace(BOX, **change)).on_demand_per_h > plain


@pytest.mark.parametrize(
    "change", [{"card_count": 0}, {"life_years": Decimal(0)}, {"idle_share": Decimal(1)}, {"card_price": Decimal(-1)}]
)
def test_absurd_hardware_is_refused(change):
    with pytest.raises(PriceError):
        own_offer(replace(BOX, **change))


def test_advice_names_choice_runner_up_and_break_even():
    body = advise([FAST, HOME, CHEAP], Wish(), currency="USD", hardware=BOX, rates=RATES).to_json()
    assert body["choice"]["name"] == "here" and body["runner_up"]["name"] == "cheap"
    assert float(body["break_even"]["hours_per_week"]) > 0


def test_rule_of_thumb_is_shown_against_the_answer():
    often = advise([HOME, FAST], Wish(runs_a_week=5), currency="USD")
    assert often.rule_of_thumb == "rent" and often.rule_agrees is False
    seldom = advise([HOME, FAST], Wish(runs_a_week=1), currency="USD")
    assert seldom.rule_of_thumb == "local" and seldom.rule_agrees is True
