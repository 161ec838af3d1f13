"""fit, offers, quote and advise as a person calls them: one JSON document, exit codes of the contract, no daemon."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import pytest

from anycard import i18n
from anycard.cli import main as cli

JOB = """\
name: train
resources: {accelerators: "A100-80GB:1"}
run: python train.py
anycard: {time_limit: 160h}
"""
OFFERS = """\
provider,instance,card,card_count,currency,on_demand_per_h,billing_granularity,source_date
Mine,hourly,A100-80GB,1,CNY,4,per hour,2026-11-01
Mine,secondly,A100-80GB,1,CNY,4,per second,2026-11-01
Mine,unknown,A100-80GB,1,CNY,0.00,per second,2026-11-01
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "mine.csv").write_text(OFFERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYCARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANYCARD_LANG", "en")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["anycard", *words])
        for stream in ("stdin", "stdout", "stderr"):  # the command opens its own; afterwards these stand again
            monkeypatch.setattr(sys, stream, getattr(sys, stream))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    yield run
    i18n.use("en")


def test_fit_prints_one_document(call):
    code, out, _ = call(
        "fit", "Qwen3-8B", "--task", "infer", "--context", "8192", "--batch", "1", "--card", "RTX 4090", "--json"
    )
    body = json.loads(out)
    assert code == 0
    assert sum(part["size_bytes"] for part in body["breakdown"]) == body["total_bytes"]
    assert body["low_bytes"] <= body["total_bytes"] <= body["high_bytes"]
    assert body["fits"][0]["verdict"] == "fits"


def test_fit_that_does_not_fit_exits_1_with_options(call):
    code, out, _ = call("fit", "Llama-3.1-70B", "--task", "full", "--card", "RTX 4090", "--json")
    assert code == 1
    assert {"name", "total_bytes", "fits", "price"} <= json.loads(out)["options"][0].keys()


@pytest.mark.parametrize("task", ["infer", "lora", "qlora", "full", "train"])
def test_fit_for_a_person(call, task):
    code, out, _ = call("fit", "Qwen3-0.6B", "--task", task, "--card", "RTX 4090", "--context", "512")
    assert code == 0 and "total" in out


def test_fit_on_a_card_without_figures_is_undecided(call):
    code, out, _ = call("fit", "Qwen3-8B", "--card", "Cambricon MLU370-X4", "--json")
    assert code == 3 and json.loads(out)["fits"][0]["fits"] is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fit",), 2),
        (("fit", "Qwen3-8B", "--task", "fly"), 2),
        (("fit", "Qwen3-8B", "--server", "x"), 2),
        (("fit", "Qwen3-8B", "--cache", "x"), 2),
        (("fit", "nothing-like-this"), 3),
        (("fit", "Qwen3-8B", "--card", "banana"), 3),
        (("quote", "job.yaml", "--offer", "none"), 2),
        (("quote", "missing.yaml", "--offer", "none"), 3),
        (("quote", "job.yaml", "--offers", "mine.csv", "--offer", "mine-unknown"), 2),
        (("quote", "job.yaml", "--offers", "mine.csv", "--offer", "mine-hourly", "--hours", "soon"), 2),
        (("advise", "job.yaml", "--by", "luck"), 2),
        (("advise", "job.yaml", "--storage-gb", "-1"), 2),
        (("advise", "job.yaml", "--kept", "for ever"), 2),
        (("advise", "job.yaml", "--by", "deadline"), 2),
        (("offers", "--card", "banana"), 3),
        (("offers", "--offers", "missing.csv"), 3),
    ],
)
def test_mistakes_are_answered_without_a_traceback(call, words, code):
    got, _, err = call(*words)
    assert got == code
    assert "Traceback" not in err


def test_quote_of_160_hours(call):
    code, out, _ = call("quote", "job.yaml", "--offers", "mine.csv", "--offer", "mine-hourly", "--json")
    body = json.loads(out)
    assert code == 0
    assert [line["amount"] for line in body["lines"] if line["name"] == "compute"] == ["640.00"]
    assert sum(Decimal(line["amount"]) for line in body["lines"]) == Decimal(body["total"])


def test_ten_minutes_by_hour_and_by_second(call):
    totals = []
    for name in ("mine-hourly", "mine-secondly"):
        _, out, _ = call("quote", "job.yaml", "--offers", "mine.csv", "--offer", name, "--hours", "10m", "--json")
        totals.append(Decimal(json.loads(out)["total"]))
    assert round(totals[0] / totals[1], 2) == 6


def test_quote_for_a_person_says_what_is_unknown(call):
    _, out, err = call(
        "quote", "job.yaml", "--offers", "mine.csv", "--offer", "mine-hourly", "--out-gb", "10", "--currency", "USD"
    )
    assert "total" in out and "egress_per_gb" in err


TERMS_OFFERS = """\
provider,instance,card,card_count,currency,on_demand_per_h,billing_granularity,storage_running_per_gb_month,storage_stopped_per_gb_month,egress_per_gb,ingress_per_gb,source,source_date
Open,all,A100-80GB,1,USD,3.968,per second,0.10,0.20,0.09,0,open.example/prices,2026-11-01
Open,dear,A100-80GB,1,USD,9,per second,0,0,0,0,open.example/prices,2026-11-01
Shut,some,A100-80GB,1,USD,1,per second,,,,,shut.example,2026-11-01
"""
THREE_WEEKS = ("--hours", "21d", "--download-gb", "100", "--storage-gb", "2000", "--kept", "30d", "--out-gb", "3000")


@pytest.fixture
def with_terms(tmp_path, call):
    (tmp_path / "terms.csv").write_text(TERMS_OFFERS)
    return ("job.yaml", "--offers", "terms.csv", *THREE_WEEKS)


def test_the_third_of_the_bill_that_nobody_expects_is_itemised(call, with_terms):
    code, out, err = call("quote", *with_terms, "--offer", "open-all", "--json")
    body = json.loads(out)
    amounts = {line["name"]: Decimal(line["amount"]) for line in body["lines"]}
    assert code == 0 and body["total_is_whole"] and sum(amounts.values()) == Decimal(body["total"])
    assert amounts["compute"] < 2001 and amounts["data_in"] == 0
    data = amounts["storage_running"] + amounts["storage_stopped"] + amounts["data_out"]
    assert data / Decimal(body["total"]) > Decimal("0.28")
    assert {line["origin"]["source"] for line in body["lines"]} == {"open.example/prices"}
    _, out, err = call("quote", *with_terms, "--offer", "open-all")
    assert "storage_stopped" in out and "0.20" in out and "days" in out
    assert "open.example/prices" in err


def test_a_bill_that_is_not_wholly_known_says_so(call, with_terms):
    _, out, err = call("quote", *with_terms, "--offer", "shut-some")
    assert "+ ?" in out.splitlines()[-1]
    assert "storage_running_per_gb_month" in err and "ingress_per_gb" in err
    _, out, _ = call("quote", *with_terms, "--offer", "shut-some", "--json")
    body = json.loads(out)
    assert not body["total_is_whole"] and {line["name"] for line in body["lines"]} == {"setup", "compute"}


def test_advice_counts_data_and_ranks_what_is_not_said_last(call, with_terms):
    code, out, _ = call("advise", *with_terms, "--json")
    body = json.loads(out)
    assert code == 0 and [one["offer"] for one in body["ranked"]] == ["open-all", "open-dear", "shut-some"]
    assert [one["cost_is_whole"] for one in body["ranked"]] == [True, True, False]
    choice = body["choice"]
    assert sum(Decimal(line["amount"]) for line in choice["lines"]) == Decimal(choice["cost"])
    assert choice["lines"][-1]["name"] == "data_out" and choice["lines"][-1]["origin"]["age_days"] is not None
    _, out, err = call("advise", *with_terms)
    assert "USD + ?" in out and "storage_running" in out and "come last: 1" in err and "open.example" in err


def test_without_data_nothing_about_it_is_missing(call, with_terms):
    code, out, _ = call("advise", "job.yaml", "--offers", "terms.csv", "--json")
    assert code == 0 and json.loads(out)["choice"]["offer"] == "shut-some"


def test_offers_show_what_outlives_a_stop_and_who_says_so(call):
    _, out, _ = call("offers", "--provider", "Hyperstack")
    assert "stop: disk-billed" in out and "days old, from docs.hyperstack.cloud" in out
    _, out, _ = call("offers", "--provider", "Hyperstack", "--json", "--limit", "1")
    body = json.loads(out)
    assert body["offers"][0]["origins"]["egress_per_gb"]["source_date"] == "2026-08-26"
    assert next(fact for fact in body["scorecard"] if fact["name"] == "stop")["origin"]["source"]


def test_offers_have_ids_and_ages(call):
    code, out, _ = call("offers", "--offers", "mine.csv", "--json")
    body = json.loads(out)
    assert code == 0
    assert [one["id"] for one in body["offers"]] == [
        "mine-hourly",
        "mine-secondly",
        "mine-unknown",
    ]  # what has no price comes last
    assert body["offers"][2]["on_demand_per_h"] is None
    assert body["offers"][0]["age_days"] is not None


def test_every_shipped_offer_with_a_price_can_be_quoted(call):
    _, out, _ = call("offers", "--card", "A100-80GB", "--json")
    for one in json.loads(out)["offers"][:5]:
        if one["on_demand_per_h"]:
            code, text, _ = call("quote", "job.yaml", "--offer", one["id"], "--json")
            assert code == 0 and Decimal(json.loads(text)["total"]) > 0


def test_advice_names_a_choice_and_a_runner_up(call):
    code, out, _ = call("advise", "job.yaml", "--json", "--buy", "15000", "--watts", "400", "--kwh", "0.2")
    body = json.loads(out)
    assert code == 0
    assert body["choice"] and body["runner_up"] and body["reason"]
    assert "hours_per_week" in body["break_even"] and body["rule_of_thumb"]["says"] in ("rent", "local")


def test_advice_for_a_model(call):
    code, out, _ = call("advise", "SmolLM2-135M", "--tokens", "1000")
    assert code == 0 and out


def test_data_that_stays_leaves_the_cards_of_others(call):
    _, out, _ = call("advise", "Qwen3-0.6B", "--data-stays", "--json")
    assert {one["place"] for one in json.loads(out)["ranked"]} <= {"here", "cpu"}


def test_a_job_without_a_length_is_priced_for_an_hour_and_says_so(call, tmp_path):
    (tmp_path / "bare.yaml").write_text("run: echo hi\nresources: {accelerators: A100}\n")
    _, out, _ = call("quote", "bare.yaml", "--offers", "mine.csv", "--offer", "mine-secondly", "--json")
    assert any("one hour" in text for text in json.loads(out)["assumed"])


CPU_JOB = """\
name: sums
resources: {cpus: 1}
run: python sum.py $x
anycard: {time_limit: 8h, parallel: 2, foreach: {matrix: {x: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}}
"""
CPU_OFFERS = """\
provider,instance,card,card_count,cpus,currency,on_demand_per_h,billing_granularity
Box,four,,0,4,USD,0.10,per second
Box,one,,0,1,USD,0.02,per second
Box,card,A100-80GB,1,8,USD,1,per second
"""


@pytest.fixture
def cpu_job(tmp_path, call):
    (tmp_path / "sums.yaml").write_text(CPU_JOB)
    (tmp_path / "boxes.csv").write_text(CPU_OFFERS)


@pytest.mark.usefixtures("cpu_job")
def test_items_run_side_by_side_in_advice_as_in_a_quote(call, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    _, out, _ = call("advise", "sums.yaml", "--offers", "boxes.csv", "--json")
    hours = {one["place"] if one["place"] == "cpu" else one["offer"]: one["hours"] for one in json.loads(out)["ranked"]}
    assert hours == {"cpu": 40.0, "box-four": 40.0, "box-one": 80.0}
    _, out, _ = call("quote", "sums.yaml", "--offers", "boxes.csv", "--offer", "box-one", "--json")
    assert json.loads(out)["elapsed_s"] == 80 * 3600


@pytest.mark.usefixtures("cpu_job")
def test_advice_for_a_job_without_cards_speaks_of_no_model_and_no_card(call):
    _, out, err = call("advise", "sums.yaml", "--offers", "boxes.csv")
    assert "rule of thumb" not in out and "no rented offer" not in out
    assert "1d16h" in out and "box-four" in out and "as fast as" in err


@pytest.mark.usefixtures("cpu_job")
def test_offers_are_sorted_by_the_price_of_one_card_and_bounded(call):
    _, out, _ = call("offers", "--offers", "boxes.csv", "--json")
    assert [one["id"] for one in json.loads(out)["offers"]] == ["box-one", "box-four", "box-card"]
    _, out, _ = call("offers", "--offers", "boxes.csv", "--sort", "card", "--max-price", "0.05", "--json")
    assert [one["id"] for one in json.loads(out)["offers"]] == ["box-one"]
    _, out, _ = call("offers", "--offers", "boxes.csv", "--card", "CPU")
    assert "box-four" in out and "box-card" not in out
    assert "SPOT" not in out.splitlines()[0], "nothing is known of spot: no column full of ?"
    assert call("offers", "--sort", "luck")[0] == 2


def test_quote_without_an_offer_says_where_they_are(call):
    code, _, err = call("quote", "job.yaml")
    assert code == 2 and "which offer?" in err and "anycard offers lists" in err
    code, _, err = call("quote", "17")
    assert code == 2 and "17 is a job's number" in err and "which offer?" not in err
    code, _, err = call("advise", "zzzzzzzz")
    assert code == 3 and "did you mean" not in err and "anycard fit --models" in err
    _, _, err = call("quote", "job.yaml", "--offer", "zzzzzzzz")
    assert "near it" not in err and "anycard offers lists them" in err


def test_answers_are_chinese_throughout_and_json_stays_english(call, monkeypatch):
    monkeypatch.setenv("ANYCARD_LANG", "zh")
    _, out, _ = call("fit", "Qwen3-8B", "--card", "RTX 3060 12GB")
    assert "81.91 亿参数" in out and "权重" in out and "量化为 fp8" in out and "kv_cache" not in out
    _, out, err = call("advise", "Qwen3-0.6B", "--data-stays", "--tokens", "1000")
    assert "本机 CPU" in out and "词元" in err and "on the CPU" not in out
    _, out, _ = call("advise", "Qwen3-0.6B", "--data-stays", "--json", "--tokens", "1000")
    body = json.loads(out)
    assert body["assumed"][0] == "1000 tokens are generated one after another"
    assert "here, on the CPU" in [one["name"] for one in body["ranked"]]


def test_a_refresh_without_a_network_says_what_to_do(call, monkeypatch):
    monkeypatch.setenv("ANYCARD_CATALOGUE_URL", "http://127.0.0.1:9/none")
    code, out, err = call("offers", "--refresh", "--cloud", "aws")
    assert code == 125 and not out
    assert "cannot be reached" in err and "ships with anycard" in err


def test_a_mixed_currency_table_is_compared_and_an_unknown_currency_left_out(call, tmp_path):
    (tmp_path / "mixed.csv").write_text(
        "provider,instance,card,card_count,currency,on_demand_per_h\n"
        "A,usd,A100-80GB,1,USD,2\nB,cny,A100-80GB,1,CNY,4\nC,gbp,A100-80GB,1,GBP,9\nD,odd,A100-80GB,1,XYZ,0.01\n"
    )
    code, out, _ = call("offers", "--offers", "mixed.csv", "--json")
    assert code == 0
    assert [one["id"] for one in json.loads(out)["offers"]] == ["b-cny", "a-usd", "c-gbp", "d-odd"]
    code, out, err = call("advise", "job.yaml", "--offers", "mixed.csv", "--currency", "CNY", "--json")
    assert code == 0 and json.loads(out)["choice"]["offer"] == "b-cny"
    assert "no exchange rate for XYZ" in err


def test_every_price_shows_an_age(call):
    _, out, _ = call("offers", "--json", "--limit", "1000")
    assert all(one["age_at_least_days"] is not None for one in json.loads(out)["offers"])
    _, out, _ = call("offers", "--limit", "1000")
    assert not any(line.rstrip().endswith("?") for line in out.splitlines()[1:])


def test_a_job_that_names_its_model_goes_where_the_model_fits(call, tmp_path):
    (tmp_path / "llm.yaml").write_text(
        "run: x\nresources: {accelerators: RTX 4090}\nanycard: {time_limit: 1h, model: {name: Qwen3-32B, context: 4096}}\n"
    )
    (tmp_path / "cards.csv").write_text(
        "provider,instance,card,card_count,card_memory_gib,currency,on_demand_per_h\n"
        "A,small,RTX 4090,1,24,USD,0.4\nB,large,H100,1,80,USD,3\n"
    )
    code, out, _ = call("advise", "llm.yaml", "--offers", "cards.csv", "--json")
    body = json.loads(out)
    assert code == 0 and [one["offer"] for one in body["ranked"]] == ["b-large"]
    assert any("Qwen3-32B needs" in text for text in body["assumed"])


def test_what_is_left_out_is_counted_with_its_reason(call, tmp_path):
    rows = (
        "provider,instance,card,currency,on_demand_per_h\ns,a,Frobnicator 9,CNY,4\ns,b,A100,CNY,0.00\ns,c,A100,XXX,4\n"
    )
    (tmp_path / "odd.csv").write_text(rows)
    (tmp_path / "train.yaml").write_text("run: train\nresources: {accelerators: A100}\n")
    code, _, err = call("advise", "train.yaml", "--hours", "3", "--offers", "odd.csv")
    assert code == 3
    assert "the card is not in the table: 1" in err and "no price is known: 1" in err and "rate for XXX: 1" in err


def test_what_a_deadline_rules_out_is_not_compared_with_buying(call, tmp_path):
    (tmp_path / "train.yaml").write_text("run: train\nresources: {accelerators: A100}\n")
    _, out, _ = call("advise", "train.yaml", "--hours", "20", "--deadline", "5h", "--json")
    body = json.loads(out)
    note = body["break_even"]["note"]
    assert any(one["card"] and f"buying {one['card']} beats" in note for one in body["ranked"])


def _need(call, *how):
    code, out, _ = call("fit", "Qwen3-8B", "--card", "A100-80GB", "--cards", "8", "--json", *how)
    assert code in (0, 1)
    return json.loads(out)["total_bytes"]


def test_each_way_to_spread_a_training_needs_less_of_a_card(call):
    full = ("--task", "full", "--context", "2048")
    needs = [_need(call, *full, "--zero", stage) for stage in "0123"]
    assert needs == sorted(needs, reverse=True) and len(set(needs)) == 4
    assert _need(call, *full, "--zero", "3", "--offload") < needs[3] == _need(call, *full)
    assert _need(call, *full, "--zero", "2", "--optimizer", "adamw-8bit") < needs[2]


def test_ways_to_split_a_served_model(call):
    assert _need(call, "--split", "tensor") < _need(call, "--split", "data")


@pytest.mark.parametrize(
    "wrong", [("--zero", "2"), ("--split", "x"), ("--task", "full", "--optimizer", "x"), ("--offload",)]
)
def test_what_does_not_go_together_is_refused(call, wrong):
    code, _, err = call("fit", "Qwen3-8B", *wrong)
    assert code == 2 and err
