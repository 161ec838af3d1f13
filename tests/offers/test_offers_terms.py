"""Terms of providers: one figure a row, who says it and when; joined where an offer does not say it itself."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from anycard.offers.advice import RENTED, Candidate, Wish, advise
from anycard.offers.catalogue import CatalogueError, parse_offers, with_terms
from anycard.offers.files import load_offers, rates, shipped_offers, shipped_terms
from anycard.offers.offer import BY_AMOUNT
from anycard.offers.quote import QuoteJob, quote
from anycard.offers.scorecard import scorecard
from anycard.offers.terms import parse_terms, with_provider_terms

TODAY = date(2026, 12, 1)
ROW = {"provider": "P", "instance": "big.1", "card": "A100", "on_demand_per_h": "2", "region": "eu-1"}
FIGURE = {"provider": "P", "what": "egress_per_gb", "value": "0.09", "currency": "USD", "source": "p.example/prices"}
RATES = rates()


def joined(row: dict[str, str], *figures: dict[str, str]):
    (offer,) = with_provider_terms(
        parse_offers([ROW | row], source="mine.csv"), parse_terms([FIGURE | one for one in figures])
    )
    return offer


def test_a_figure_is_joined_with_who_says_it_and_when():
    offer = joined({}, {"source_date": "2026-11-01", "note": "beyond Europe"})
    origin = offer.origin("egress_per_gb")
    assert offer.egress_per_gb == Decimal("0.09")
    assert (origin.source, origin.age_days(TODAY), origin.note) == ("p.example/prices", 30, "beyond Europe")
    assert offer.origin("on_demand_per_h").source == "mine.csv"


def test_what_an_offer_says_itself_stands():
    offer = joined({"egress_per_gb": "0"}, {})
    assert offer.egress_per_gb == 0 and offer.origin("egress_per_gb").source == "mine.csv"


def test_the_nearer_figure_wins_and_a_regions_figure_stays_there():
    figures = (
        {"value": "1"},
        {"value": "2", "region": "eu"},
        {"value": "3", "instance": "big"},
        {"value": "4", "region": "us"},
    )
    assert joined({}, *figures).egress_per_gb == 3
    assert joined({"instance": "small"}, *figures).egress_per_gb == 2
    assert joined({"instance": "small", "region": "asia-1"}, *figures).egress_per_gb == 1
    assert joined({"instance": "small", "region": ""}, *figures).egress_per_gb == 1
    assert joined({"region": "asia-1"}, {"region": "us"}).egress_per_gb is None
    nowhere = joined({"region": ""}, {"region": "us"})
    assert nowhere.egress_per_gb == Decimal("0.09") and nowhere.origin("egress_per_gb").note == "as in us"


def test_another_currency_is_not_converted_behind_ones_back():
    assert joined({"currency": "CNY"}, {}).egress_per_gb is None
    assert joined({"currency": "CNY"}, {"value": "0"}).egress_per_gb == 0, "nothing is nothing in any currency"


def test_own_hardware_has_no_provider():
    offer = joined({"card_price": "9000", "region": ""}, {"what": "stop", "value": "no-stop"})
    assert offer.place == "own" and offer.stop == ""


def test_no_figure_and_why_is_told():
    offer = joined({}, {"value": "", "note": "set by each host"})
    answer = quote(QuoteJob(work_s=3600, data_out_gb=Decimal(5)), offer, rates=RATES)
    assert offer.egress_per_gb is None and offer.origin("egress_per_gb").note == "set by each host"
    assert answer.missing == ("egress_per_gb",) and not answer.line("data_out")


def test_what_coming_in_costs_is_doubted_only_where_leaving_is_not_said_either():
    job = QuoteJob(work_s=3600, download_gb=Decimal(5))
    told, silent = (
        quote(job, joined({}, {}), rates=RATES),
        quote(job, joined({}, {"value": "", "note": "-"}), rates=RATES),
    )
    assert "ingress_per_gb" in told.unknown and not told.missing
    assert silent.missing == ("ingress_per_gb",)


def test_long_terms_as_a_price_and_as_a_discount():
    offer = joined({}, {"what": "terms", "value": "monthly=730; 1-year=-25%"})
    assert [(term.name, term.per_h) for term in offer.terms] == [("monthly", 1), ("1-year", Decimal("1.5"))]
    lease = list(with_terms([offer]))[2]
    assert lease.id == "p-big.1-eu-1:1-year"
    assert lease.origin("on_demand_per_h").source == "p.example/prices", "whose price it is, not the offer's"
    (unpriced,) = parse_offers([ROW | {"on_demand_per_h": "", "terms": "1-year=-25%"}])
    assert unpriced.terms == ()


def test_a_lease_is_paid_whole_its_disk_only_while_the_job_has_it():
    offer = joined({"terms": "monthly=1460", "storage_running_per_gb_month": "0.1", "billing_step_s": "1"}, {})
    lease = list(with_terms([offer]))[1]
    answer = quote(QuoteJob(work_s=73 * 3600, storage_gb=Decimal(1000)), lease, rates=RATES)
    assert answer.total - answer.line("storage_running") == 1460
    assert answer.line("storage_running") == 10


@pytest.mark.parametrize(
    "change",
    [
        {"what": "colour"},
        {"source": ""},
        {"provider": ""},
        {"value": "-1"},
        {"value": "dear"},
        {"what": "stop", "value": "sometimes"},
        {"what": "billing_step_s", "value": "-5"},
    ],
)
def test_figures_that_cannot_be_are_named_by_their_row(change):
    with pytest.raises(CatalogueError, match="row 2: "):
        parse_terms([FIGURE | change])


@pytest.mark.parametrize("terms", ["1-year=8%", "1-year=-100%", "1-year=-x%", "1-year=-%"])
def test_discounts_that_cannot_be(terms):
    with pytest.raises(CatalogueError, match="row 2: "):
        parse_offers([ROW | {"terms": terms}])


def test_what_is_free_is_not_charged():
    row = {
        "egress_free_gb": "100",
        "storage_free_gb": "50",
        "storage_running_per_gb_month": "0.1",
        "billing_step_s": "1",
    }
    offer = joined(row | {"storage_stopped_per_gb_month": "0.2", "ingress_per_gb": "0.01", "stop": "disk-billed"}, {})
    job = QuoteJob(
        work_s=730 * 3600,
        storage_gb=Decimal(150),
        stopped_s=730 * 3600,
        data_out_gb=Decimal(600),
        download_gb=Decimal(300),
        download_mb_s=Decimal(10**9),
    )
    answer = quote(job, offer, rates=RATES)
    amounts = [answer.line(name) for name in ("storage_running", "storage_stopped", "data_out", "data_in")]
    assert amounts == [10, 20, 45, 3]
    small = quote(QuoteJob(work_s=3600, data_out_gb=Decimal(99)), offer, rates=RATES)
    assert small.line("data_out") == 0 and any(line.name == "data_out" for line in small.lines), "shown, as free"


def test_where_a_stop_does_not_help_that_is_told():
    offer = joined({"stop": "billed-in-full", "storage_stopped_per_gb_month": "0.1"}, {})
    answer = quote(QuoteJob(work_s=1, storage_gb=Decimal(1), stopped_s=10**7), offer, rates=RATES)
    assert "billed in full" in str(next(line.note for line in answer.lines if line.name == "storage_stopped"))


def test_what_nobody_says_is_not_ranked_as_free():
    def place(name: str, hourly: str, egress: str) -> Candidate:
        (offer,) = parse_offers([ROW | {"provider": name, "on_demand_per_h": hourly, "egress_per_gb": egress}])
        answer = quote(QuoteJob(work_s=3600, data_out_gb=Decimal(100)), offer, rates=RATES)
        return Candidate(RENTED, name, 1.0, answer.total, 1.1, "A100", "nvidia", "", answer)

    silent, known, dear = place("silent", "1", ""), place("known", "2", "0"), place("dear", "1.5", "0.5")
    answer = advise([silent, known, dear], Wish(), currency="USD")
    assert [one.name for one in answer.ranked] == ["known", "dear", "silent"]
    assert [one.to_json()["cost_is_whole"] for one in answer.ranked] == [True, True, False]
    assert "+ ?" in str(advise([silent], Wish(), currency="USD").reason)


def test_every_shipped_figure_has_a_source_and_fits_a_provider_that_we_know():
    from anycard.offers.skypilot import CLOUDS

    providers = (
        {offer.provider for offer in shipped_offers()} | set(CLOUDS.values()) | {"AutoDL"}
    )  # a table of one's own may have it
    for figure in shipped_terms():
        assert figure.provider in providers
        assert set("./") & set(figure.origin.source), "an address, or a repository"
        assert not figure.origin.source_date or figure.origin.age_days(TODAY) is not None
        assert figure.value is not None or figure.origin.note, "no figure is there for a reason"
        assert figure.origin.least_age_days(TODAY) is not None
        if figure.what in BY_AMOUNT and figure.value:
            assert figure.currency in ("USD", "EUR", "CNY") and figure.value < 2
    told = [(one.provider, one.region, one.instance, one.what) for one in shipped_terms()]
    assert len(told) == len(set(told)), "no figure twice"


def test_most_shipped_offers_say_what_data_costs():
    offers = shipped_offers()
    for figure in ("storage_running_per_gb_month", "storage_stopped_per_gb_month", "egress_per_gb"):
        known = [offer for offer in offers if getattr(offer, figure) is not None]
        assert len(known) > len(offers) / 2
        assert all(offer.origin(figure).source for offer in known)


def test_runpods_disk_costs_twice_as_much_while_the_pod_is_stopped():
    pod = next(offer for offer in shipped_offers() if offer.provider == "RunPod" and offer.instance.startswith("Pod"))
    answer = quote(QuoteJob(work_s=730 * 3600, storage_gb=Decimal(100), stopped_s=730 * 3600), pod, rates=RATES)
    assert (answer.line("storage_running"), answer.line("storage_stopped")) == (10, 20)
    lines = {line["name"]: line["origin"] for line in answer.to_json_lines(TODAY)}
    assert "runpod.io" in lines["storage_stopped"]["source"] and lines["storage_stopped"]["age_days"] == 64


def test_a_table_of_ones_own_may_carry_all_of_it(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "provider,instance,card,on_demand_per_h,ingress_per_gb,egress_per_gb,egress_free_gb,storage_free_gb,stop,network_mb_s,terms\n"
        "Mine,a,A100,2,0.01,0.5,10,20,no-stop,1000,1-year=-10%\nRunPod,b,A100,2,,,,,,,\n"
    )
    mine, pod = load_offers(tmp_path / "mine.csv")
    assert (mine.ingress_per_gb, mine.egress_free_gb, mine.stop, mine.terms[0].per_h) == (
        Decimal("0.01"),
        10,
        "no-stop",
        Decimal("1.8"),
    )
    assert pod.egress_per_gb == 0 and pod.to_json(TODAY)["origins"]["egress_per_gb"]["age_days"] == 64
    assert mine.to_json(TODAY)["origins"] == {}


def test_a_scorecard_takes_the_providers_word_until_somebody_measures():
    offers = [offer for offer in shipped_offers() if offer.provider == "Oracle OCI"]
    facts = {fact.name: fact for fact in scorecard(offers)}
    assert facts["stop"].good is False and facts["stop"].value == "billed-in-full, disk-billed"
    assert facts["storage_read"].good is False and facts["storage_read"].to_json(TODAY)["origin"]["age_days"] > 0
    measured = {fact.name: fact for fact in scorecard(offers, {"storage_read_mb_s": 900})}
    assert measured["storage_read"].good is True and measured["storage_read"].origin is None
