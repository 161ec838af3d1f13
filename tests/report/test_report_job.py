"""The report of real jobs on a stand-in card, over the API and on the command line."""

from __future__ import annotations

import json

import pytest
from called import until

from anycard.api import answers

SPIN = "resources: {accelerators: 1, cpus: 2}\nrun: |\n  python3 -c 'while True: pass' &\n  python3 -c 'while True: pass'\n"


def report(cli, job):
    with cli.client() as client:
        told = client.report(job)
    answers.Report.model_validate_json(json.dumps(told), strict=True)
    return told


@pytest.mark.slow
def test_a_card_that_waits_for_the_cpu(one_card):
    one_card.describe("utilisation = 0\nmemory_used = 1073741824")
    job = one_card.submit(f"name: slow\n{SPIN}")
    until(lambda: report(one_card, job)["cards"] and report(one_card, job)["cards"][0]["seen_s"] >= 12)
    (unused,) = (one for one in report(one_card, job)["findings"] if one["kind"] == "unused")
    assert unused["share"] == 1.0
    one_card.describe("utilisation = 95\nmemory_used = 84825604096\ntemperature = 88\nthrottle = 0x40")
    until(lambda: any(one["kind"] == "near-cap" for one in report(one_card, job)["findings"]))
    one_card.describe("utilisation = 0")
    until(lambda: report(one_card, job)["cards"][0]["idle_after_s"] >= 12)
    one_card.describe("utilisation = 95")
    until(lambda: report(one_card, job)["cards"][0]["idle_between_s"].get("cpu-bound", 0) >= 5)
    one_card("cancel", str(job))
    one_card.over(job)
    told = report(one_card, job)
    (card,) = told["cards"]
    assert card["card"] == f"nvidia:{one_card.uuid}"
    assert card["memory_total_bytes"] == 85899345920
    assert card["memory_peak_bytes"] == 84825604096
    assert 0 < card["idle_share"] < 1
    assert card["idle_before_s"] > 0
    assert card["temperature_peak_c"] == 88
    kinds = {one["kind"] for one in told["findings"]}
    assert {"idle-before", "cpu-bound", "near-cap"} <= kinds
    assert "cpu-bound" in {one["cause"] for one in card["idle_stretches"]}
    shown = one_card("report", "slow").stdout.decode()
    assert "before the program first used it" in shown
    assert "`setup:`" in shown
    assert "88 °C" in shown
    zh = one_card("--lang", "zh", "report", "slow").stdout.decode()
    assert "程序才第一次用它" in zh
    assert one_card.json("report", "slow") == told


def test_jobs_that_held_no_card_never_started_or_are_not_there(one_card):
    short = one_card.ran("name: short\nrun: 'true'\n")["id"]
    told = report(one_card, short)
    assert told["cards"] == []
    assert [one["kind"] for one in told["findings"]] in (["no-readings"], ["too-short"])
    held = one_card.submit("run: 'true'\n", options={"held": True})
    told = report(one_card, held)
    assert (told["since"], told["cpus"], [one["kind"] for one in told["findings"]]) == (None, None, ["not-started"])
    assert one_card("report", str(held)).returncode == 0
    assert one_card("report", "nobody").returncode == 3
