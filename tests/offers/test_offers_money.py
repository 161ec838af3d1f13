"""Money, catalogues and quotes: exact, honest about what is unknown, clear about what is absurd."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.errors import AnycardError, NotFoundError
from anycard.offers.catalogue import CatalogueError, find_offer, parse_offers, with_terms
from anycard.offers.files import load_availability, load_offers, rates, shipped_offers
from anycard.offers.money import PriceError, Rates, parse_decimal, parse_price, shown
from anycard.offers.offer import Offer
from anycard.offers.quote import QuoteJob, quote
from anycard.offers.scorecard import scorecard
from anycard.offers.spot import availability

RATES = Rates({"EUR": Decimal(1), "USD": Decimal("1.172"), "CNY": Decimal("8.397")}, "2025-06-30", "ECB")


def offer(**change) -> Offer:
    given_ = {
        "id": "o",
        "provider": "p",
        "instance": "i",
        "card": "A100",
        "card_count": Decimal(1),
        "currency": "CNY",
        **change,
    }
    given_.setdefault("on_demand_per_h", Decimal(4))
    return Offer(**given_)


def test_160_hours_at_4_an_hour_are_640():
    answer = quote(QuoteJob(work_s=160 * 3600), offer(billing_step_s=3600), rates=RATES)
    assert answer.line("compute") == answer.total == Decimal(640)


def test_ten_minutes_by_the_hour_cost_six_times_those_by_the_second():
    by_hour = quote(QuoteJob(work_s=600), offer(billing_step_s=3600), rates=RATES).total
    by_second = quote(QuoteJob(work_s=600), offer(billing_step_s=1), rates=RATES).total
    assert by_hour == 4
    assert round(by_hour / by_second, 2) == 6
    note = quote(QuoteJob(work_s=600), offer(billing_step_s=3600), rates=RATES).lines[-1].note
    assert str(note) == "3600 s are billed, 6 times what is used"


def test_a_named_card_without_a_count_is_one():
    rows = [{"provider": "p", "instance": "a", "card": "A100"}, {"provider": "p", "instance": "b"}]
    assert [one.card_count for one in parse_offers(rows)] == [1, 0]


PRICES = st.decimals("0.0001", "500", places=4)
JOBS = st.builds(
    QuoteJob,
    work_s=st.integers(0, 10**7),
    setup_s=st.integers(0, 10**5),
    download_gb=st.decimals(0, 5000, places=2),
    storage_gb=st.decimals(0, 5000, places=2),
    stopped_s=st.integers(0, 10**7),
    data_out_gb=st.decimals(0, 5000, places=2),
    failed_share=st.decimals(0, 3, places=2),
    forgotten_s=st.integers(0, 10**6),
)
OFFERS = st.builds(
    offer,
    on_demand_per_h=PRICES,
    billing_step_s=st.sampled_from([None, 1, 60, 3600, 86400]),
    minimum_s=st.sampled_from([None, 0, 600, 7200]),
    storage_running_per_gb_month=st.none() | PRICES,
    storage_stopped_per_gb_month=st.none() | PRICES,
    egress_per_gb=st.none() | PRICES,
    start_s=st.none() | st.integers(0, 3600),
)


@given(JOBS, OFFERS, st.sampled_from(["CNY", "USD", "EUR"]))
def test_lines_add_up_to_the_last_digit_as_they_are_shown(job, terms, currency):
    answer = quote(job, terms, rates=RATES, currency=currency)
    assert sum(Decimal(line.to_json()["amount"]) for line in answer.lines) == Decimal(shown(answer.total))
    assert answer.total >= 0


@given(JOBS, OFFERS)
def test_what_is_billed_is_the_time_rounded_up(job, terms):
    answer = quote(job, terms, rates=RATES)
    times = ("setup", "compute", "failed_tries", "spot_restarts", "forgotten", "billing_step")
    billed = sum(answer.line(name) for name in times)
    busy = answer.elapsed_s + job.forgotten_s
    step = terms.billing_step_s or 1
    seconds = max(-(-busy // step) * step, terms.minimum_s or 0)
    assert abs(billed - Decimal(seconds) / 3600 * terms.on_demand_per_h) <= Decimal("0.0005")


@given(JOBS, OFFERS)
def test_what_an_offer_does_not_say_is_listed_not_free(job, terms):
    answer = quote(job, terms, rates=RATES)
    if terms.egress_per_gb is None and job.data_out_gb:
        assert "egress_per_gb" in answer.unknown
    if terms.storage_running_per_gb_month is None and job.storage_gb and job.work_s:
        assert "storage_running_per_gb_month" in answer.unknown
    assert ("start_s" in answer.unknown) == (terms.start_s is None)


@given(JOBS, OFFERS, st.integers(1, 10**6))
def test_more_work_never_costs_less(job, terms, more):
    from dataclasses import replace

    longer = replace(job, work_s=job.work_s + more)
    assert quote(longer, terms, rates=RATES).total >= quote(job, terms, rates=RATES).total - Decimal("0.001")


def test_a_third_of_the_bill_nobody_expected():
    # three weeks of card hours for 2,000, and 800 more for storage and export
    terms = offer(
        on_demand_per_h=Decimal(2000) / (21 * 24),
        billing_step_s=1,
        storage_running_per_gb_month=Decimal("0.5"),
        storage_stopped_per_gb_month=Decimal("0.5"),
        egress_per_gb=Decimal("0.4"),
    )
    job = QuoteJob(work_s=21 * 86400, storage_gb=Decimal(1000), stopped_s=10 * 86400, data_out_gb=Decimal(750))
    answer = quote(job, terms, rates=RATES)
    others = answer.total - answer.line("compute")
    assert answer.line("compute") == 2000
    assert 700 < others < 900


def test_no_price_is_an_error_not_a_zero():
    with pytest.raises(PriceError, match="no on-demand price"):
        quote(QuoteJob(work_s=1), offer(on_demand_per_h=None), rates=RATES)
    with pytest.raises(PriceError, match="no spot price"):
        quote(QuoteJob(work_s=1, spot=True), offer(), rates=RATES)


def test_spot_counts_restarts_and_waiting_and_shows_the_p90():
    record = availability([1] * 30 + [0] * 10 + ([1] * 20 + [0] * 5) * 40, 600.0)
    job = QuoteJob(work_s=20 * 3600, spot=True)
    answer = quote(job, offer(spot_per_h=Decimal(1), billing_step_s=1), rates=RATES, record=record)
    assert answer.line("spot_restarts") > 0
    assert answer.elapsed_s > job.work_s
    assert answer.elapsed_high_s >= answer.elapsed_s and answer.high >= answer.total


def test_spot_without_a_record_says_so():
    answer = quote(QuoteJob(work_s=3600, spot=True), offer(spot_per_h=Decimal(1)), rates=RATES)
    assert "spot_availability" in answer.unknown


@pytest.mark.parametrize(
    "job",
    [
        {"work_s": -1},
        {"work_s": 10**12},
        {"work_s": 1, "setup_s": -5},
        {"work_s": 1, "storage_gb": Decimal(-1)},
        {"work_s": 1, "download_mb_s": Decimal(0)},
    ],
)
def test_absurd_jobs_are_refused(job):
    with pytest.raises(PriceError):
        quote(QuoteJob(**job), offer(), rates=RATES)


@pytest.mark.parametrize(("text", "value"), [("", None), ("0.00", None), ("0", None), (" 2.50 ", Decimal("2.50"))])
def test_a_price_of_zero_means_unknown(text, value):
    assert parse_price(text, "price") == value


def test_egress_may_be_free():
    assert parse_decimal("0", "egress") == 0


@pytest.mark.parametrize("text", ["-1", "abc", "NaN", "Infinity", "1e9", "1,5"])
def test_absurd_prices_are_named(text):
    with pytest.raises(PriceError, match="price"):
        parse_price(text, "price")


@given(st.text(max_size=12))
def test_any_text_is_a_price_or_a_price_error(text):
    try:
        value = parse_price(text, "price")
    except PriceError:
        return
    assert value is None or value > 0


@pytest.mark.parametrize(
    ("amount", "text"), [("640", "640.00"), ("0.66666", "0.6667"), ("1.5", "1.50"), ("2.1230", "2.123")]
)
def test_shown(amount, text):
    assert shown(Decimal(amount)) == text


def test_the_shipped_catalogue():
    offers = shipped_offers()
    assert len(offers) > 200
    assert len({one.id for one in offers}) == len(offers)
    assert all(one.source for one in offers)
    assert all(price is None or price > 0 for one in offers for price in (one.on_demand_per_h, one.spot_per_h))
    assert {"USD", "CNY"} <= {one.currency for one in offers}


def test_ages_are_shown_where_the_source_has_a_day():
    today = date(2026, 12, 1)
    assert offer(source_date="2026-11-01").age_days(today) == 30
    assert offer(source_date="2026-09").age_days(today) == 91
    assert offer(source_date="2023Q3").age_days(today) == (today - date(2023, 7, 1)).days
    assert offer(source_date="a snapshot without a day").age_days(today) is None


ROW = {"provider": "P", "instance": "I", "card": "A100", "card_count": "1", "on_demand_per_h": "2", "currency": "USD"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"on_demand_per_h": "-2"}, "row 2.*cannot be a price"),
        ({"on_demand_per_h": "two"}, "is not a number"),
        ({"on_demand_per_h": "999999"}, "far above"),
        ({"currency": "DOLLARS"}, "is no currency"),
        ({"provider": "", "instance": ""}, "neither provider nor instance"),
        ({"billing_step_s": "-3"}, "cannot be a price"),
    ],
)
def test_bad_rows_are_named(change, says):
    with pytest.raises(CatalogueError, match=says):
        parse_offers([{**ROW, **change}])


def test_skypilot_columns_are_understood():
    row = {
        "provider": "aws",
        "InstanceType": "p4d",
        "AcceleratorName": "A100",
        "AcceleratorCount": "8",
        "vCPUs": "96",
        "MemoryGiB": "1152",
        "Price": "32.77",
        "SpotPrice": "0.0",
        "Region": "us-east-1",
    }
    (found,) = parse_offers([row])
    assert (found.card, found.card_count, found.on_demand_per_h, found.spot_per_h) == (
        "A100",
        8,
        Decimal("32.77"),
        None,
    )


def test_equal_names_get_ids_of_their_own():
    assert [one.id for one in parse_offers([ROW, ROW, ROW])] == ["p-i", "p-i-2", "p-i-3"]


def test_terms_become_prices_an_hour():
    (found,) = parse_offers([{**ROW, "terms": "monthly=730; 1-year=4380"}])
    assert [(term.name, term.months, term.per_h) for term in found.terms] == [
        ("monthly", 1, 1),
        ("1-year", 12, Decimal("0.5")),
    ]


def test_an_unknown_offer_says_what_is_near():
    with pytest.raises(CatalogueError) as caught:
        find_offer(parse_offers([ROW]), "p-j")
    assert "p-i" in caught.value.to_json()["hint"]


def test_a_mixed_currency_catalogue_is_converted_by_a_dated_rate(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("provider,instance,on_demand_per_h,currency\na,x,8.397,CNY\nb,y,1.172,USD\n")
    totals = [quote(QuoteJob(work_s=3600), one, rates=RATES, currency="EUR") for one in load_offers(path)]
    assert [answer.total for answer in totals] == [1, 1]
    assert totals[0].rate_date == "2025-06-30"


def test_a_currency_without_a_rate_is_named():
    with pytest.raises(PriceError, match="XAU"):
        quote(QuoteJob(work_s=1), offer(currency="XAU"), rates=RATES, currency="USD")
    assert rates(["XAU=0.0003"]).convert(Decimal("0.0003"), "XAU", "EUR") == 1


@pytest.mark.parametrize("pair", ["CNY", "CNY=", "=5", "CNY=-1", "CNY=x"])
def test_bad_rates_are_named(pair):
    with pytest.raises(PriceError):
        rates([pair])


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"offers": 5}', "{"])
def test_bad_json_tables_are_named(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(AnycardError, match=r"mine\.json"):
        load_offers(path)


def test_a_json_table(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"offers": [ROW]}))
    assert load_offers(path)[0].source == "mine.json"


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(NotFoundError):
        load_offers(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"metadata": {"gap_seconds": 0}, "data": [1]}', '{"metadata": {"gap_seconds": 5}, "data": ["x"]}'],
)
def test_bad_spot_records_are_named(tmp_path, content):
    path = tmp_path / "spot.json"
    path.write_text(content)
    with pytest.raises(CatalogueError, match=r"spot\.json"):
        load_availability(path)


def test_a_scorecard_says_what_it_does_not_know():
    facts = {fact.name: fact for fact in scorecard([offer(billing_step_s=3600)])}
    assert facts["card"].good is None and facts["queue"].good is None and facts["persistence"].good is None
    assert facts["billing_step"].good is False


def test_a_scorecard_with_a_report():
    report = {
        "card_model": "A100",
        "matmul_share": 0.8,
        "link": "NVLink",
        "storage_read_mb_s": 200,
        "network_mb_s": 900,
        "queue_wait_known": True,
    }
    facts = {fact.name: fact for fact in scorecard([offer(billing_step_s=1, persistence="persistent")], report)}
    assert [facts[name].good for name in ("card", "link", "billing_step", "queue", "persistence")] == [True] * 5
    assert facts["storage_read"].good is False and facts["network"].good is True


def test_longer_leases_are_offers_billed_by_the_whole_term():
    row = {
        "provider": "p",
        "instance": "i",
        "card": "A100",
        "on_demand_per_h": "12",
        "terms": "monthly=5000; 1-year=48000",
    }
    leases = {one.id: one for one in with_terms(parse_offers([row]))}
    assert list(leases) == ["p-i", "p-i:monthly", "p-i:1-year"]
    for hours, months in ((1, 1), (730, 1), (731, 2)):
        assert quote(QuoteJob(work_s=hours * 3600), leases["p-i:monthly"], rates=RATES).total == 5000 * months


def test_own_hardware_in_a_table_is_an_offer_at_its_true_price():
    row = {
        "provider": "mine", "instance": "box", "card": "A100", "card_count": "2", "currency": "CNY", "card_price": "60000",
        "host_price": "20000", "power_supply_price": "3000", "cooling_price": "2000", "setup_hours": "10", "wage_per_h": "200",
        "life_years": "4", "watts": "900", "electricity_per_kwh": "0.8", "idle_share": "0.6",
    }  # fmt: skip
    (own,) = parse_offers([row])
    capital, busy = Decimal(147_000), Decimal(4 * 365 * 24) * Decimal("0.4")
    assert own.place == "own" and own.card_count == 2
    assert round(own.on_demand_per_h, 9) == round(capital / busy + Decimal("0.72"), 9)
    with pytest.raises(CatalogueError, match="row 2: own hardware needs"):
        parse_offers([{**row, "life_years": "0"}])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"terms": "99999999999-year=5"}, "no length of a lease"),
        ({"terms": "0-month=5"}, "no length of a lease"),
        ({"terms": "=5"}, "no length of a lease"),
        ({"terms": "monthly=x"}, "is not a number"),
        ({"card_price": "4", "life_years": "1e-300"}, "own hardware needs"),
        ({"card_price": "4", "idle_share": "1"}, "own hardware needs"),
        ({"card_price": "4", "card_count": "1e999"}, "far above"),
    ],
)
def test_leases_and_hardware_that_cannot_be_are_named(change, says):
    with pytest.raises(CatalogueError, match=says):
        parse_offers([{"provider": "p", "instance": "i", "card": "A100", **change}])


def test_a_rate_that_makes_amounts_without_end_is_named():
    absurd = Rates({"USD": Decimal(1), "CNY": Decimal("1e-300")}, "today", "given")
    with pytest.raises(PriceError, match="makes no sense"):
        quote(QuoteJob(work_s=3600), offer(), rates=absurd, currency="USD")
