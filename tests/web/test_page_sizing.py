"""The sizing page: form, charts and numbers that agree with the command line; in Chromium and without."""

from __future__ import annotations

import json

import pytest
from called import until
from hypothesis import given
from hypothesis import strategies as st

from anycard.web.svgcharts import WIDTH, curve, nice_step, stack

LINES = """\
load_tensors: CPU_Mapped model buffer size = 1136.00 MiB
llama_kv_cache: CPU KV buffer size = 448.00 MiB
sched_reserve: CPU compute buffer size = 20.00 MiB
"""


def test_a_model_in_the_browser(tab, cli):
    tab.get_by_role("link", name="Sizing").click()
    tab.get_by_label("Model").fill("Qwen3-8B")
    tab.get_by_label("Card", exact=True).fill("RTX 3060 12GB")
    tab.get_by_label("Price of a machine to buy").fill("1500")
    tab.get_by_role("button", name="Size it").click()
    tab.locator("#memory").wait_for()
    assert "does not fit" in tab.locator("#verdicts").inner_text()
    shown = tab.locator("#memory rect").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert len(shown) == 4 and max(shown) > 400, "the chart has its parts, and they are to be seen"
    fills = tab.locator("#memory rect").evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    assert len(set(fills)) == 4, "each in its own colour: the policy lets the style sheet in"
    assert tab.locator("#memory .limit").count() == 1
    assert "quantise" in tab.locator("#options").inner_text()
    bars = tab.locator("#places .costbar rect").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert bars and bars[-1] > bars[0]
    assert tab.locator("#buying polyline").count() == 2
    told = json.loads(cli("fit", "Qwen3-8B", "--card", "RTX 3060 12GB", "--json").stdout)
    assert told["fits"][0]["verdict"] == "does-not-fit"
    parts = tab.locator("#memory title").evaluate_all("all => all.map(one => one.textContent)")
    assert any("weights" in part for part in parts)
    assert "context=&" in tab.url and "model=Qwen3-8B" in tab.url, "the address is the question"


def test_training_and_a_model_that_nobody_knows(tab):
    tab.goto(f"{tab.address}/sizing?model=Qwen3-0.6B&task=lora&context=2048&card=RTX+4090")
    assert "activations" in tab.locator("#mem-title ~ .scroll").first.inner_text()
    assert "trained on" in tab.content()


def test_the_bill_has_disk_and_traffic_line_by_line(tab):
    tab.goto(f"{tab.address}/sizing?model=Qwen3-8B&card=RTX+4090&tokens=1000000")
    assert "storage_running" not in tab.locator("#bill").inner_text(), "nothing is kept"
    tab.get_by_label("GB of disk").fill("500")
    tab.get_by_label("Disk kept afterwards").fill("10")
    tab.get_by_label("GB taken out").fill("200")
    tab.get_by_role("button", name="Size it").click()
    bill = tab.locator("#bill")
    bill.wait_for()
    told = bill.inner_text()
    assert all(line in told for line in ("compute", "storage_running", "storage_stopped", "data_out", "total", "days"))
    amounts = [float(cell.split()[0]) for cell in bill.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert abs(sum(amounts[:-1]) - amounts[-1]) < 0.001
    assert "kept=10&" in tab.url, "days, where no unit is said"


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("model=nothing-like-it", 404, "no model is called"),
        ("model=Qwen3-8B&card=banana", 404, "no card is called"),
        ("model=Qwen3-8B&context=-1", 400, "no whole number"),
        ("model=Qwen3-8B&context=%D9%A1", 400, "no whole number"),
        ("model=Qwen3-8B&task=fly", 400, "not among the choices"),
        ("model=Qwen3-8B&quant=zz", 404, "no weight format"),
        ("model=Qwen3-8B&buy=nan", 400, "cannot be a price"),
        ("model=Qwen3-8B&buy=x", 400, "not a number"),
        ("model=Qwen3-8B&currency=XYZ", 400, "no exchange rate"),
        ("model=Qwen3-8B&kept=for+ever", 400, "no length of time"),
        ("model=Qwen3-8B&storage_gb=-1", 400, "cannot be a price"),
        ("model=%00", 404, ""),
        ("model=%3Cscript%3Ealert(1)%3C/script%3E", 404, "&lt;script&gt;"),
    ],
)
def test_mistakes_are_answered_on_the_page(visitor, query, status, told):
    answer = visitor.ask(f"/sizing?{query}")
    assert answer.status == status
    assert told in answer.text and "<script>alert" not in answer.text


def test_runs_stand_beside_their_predictions(cli, visitor):
    (cli.folder / "lines.txt").write_text(LINES)
    made = cli.ran("run: cat lines.txt\nanycard: {model: {name: Qwen3-0.6B, server: llama.cpp}}\n")
    until(lambda: "model.measured" in {event["kind"] for event in cli.events(made["id"])})
    text = visitor.ask("/sizing").text
    assert 'id="learnt"' in text and f'href="/jobs/{made["id"]}"' in text


def test_in_chinese(visitor):
    text = visitor.ask("/sizing?model=Qwen3-8B&card=RTX+4090", headers={"Accept-Language": "zh-CN"}).text
    assert "权重" in text and "kv_cache" not in text


# ---- the drawing itself -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 1e13), min_size=1, max_size=12),
    st.floats(0, 1e13),
    st.floats(0, 1e13),
    st.none() | st.floats(0, 1e13),
)
def test_nothing_is_drawn_beyond_the_edge(sizes, low, high, limit):
    drawn = stack({str(at): size for at, size in enumerate(sizes)}, low, high, limit)
    assert all(part.x >= 0 and part.x + part.width <= WIDTH + 0.1 for part in drawn.segments)
    assert drawn.high <= WIDTH and (drawn.limit or 0) <= WIDTH


@given(st.floats(0.01, 1e6), st.floats(0, 1e4), st.floats(0, 1e4))
def test_curves_stay_on_the_paper(start, slope, other):
    drawn = curve([("a", 0.0, slope), ("b", start, other)], 168.0, 24.0, 50.0)
    for line in drawn.lines:
        for point in line.points.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH and -0.1 <= y <= drawn.height + 0.1
    assert 2 <= len(drawn.y_ticks) <= 12


@given(st.floats(1e-6, 1e12))
def test_steps_are_round(top):
    step = nice_step(top)
    assert 1 <= top / step <= 10.0001
    assert f"{step:e}"[0] in "125"
