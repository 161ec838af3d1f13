"""Jobs that name their model: sized against this host's cards, and judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizing_headers import tiny_llama

from anycard.jobs.fitcheck import Fit, check_fit
from anycard.jobs.modelsize import sized
from anycard.jobs.spec import JobSpec, ModelAsk, Need, Sizing
from anycard.model.demand import Demand
from anycard.scheduling.plan import CardState, HostState
from anycard.units import GIB

ONE_CARD = (Demand(card_count=1),)


def host(*memory_gib: float | None, ram_gib: float = 64, vendor: str = "nvidia") -> HostState:
    cards = tuple(
        CardState(f"c{at}", vendor, "Some Card", frozenset((vendor,)), None if gib is None else int(gib * GIB), True)
        for at, gib in enumerate(memory_gib)
    )
    return HostState(8.0, 8.0, int(ram_gib * GIB), int(ram_gib * GIB), cards)


def need(cards: int, low: float, total: float, high: float) -> Need:
    size = int(total * GIB)
    return Need(
        cards=cards,
        parts={"weights": size},
        total_bytes=size,
        low_bytes=int(low * GIB),
        high_bytes=int(high * GIB),
        buffers_bytes=size,
    )


def sizing(*needs: Need) -> Sizing:
    return Sizing(ask=ModelAsk(name="m"), model="m", needs=needs)


@pytest.mark.parametrize(
    ("cards", "fit"),
    [
        ((24,), Fit.FITS),
        ((21,), Fit.TIGHT),
        ((19,), Fit.UNLIKELY),
        ((12,), Fit.NEVER),
        ((12, 24), Fit.SOME_CARDS),
        ((12, 12), Fit.NEVER),
        ((None,), Fit.UNKNOWN),
        ((None, 24), Fit.FITS),
    ],
)
def test_one_card(cards: tuple[float | None, ...], fit: Fit) -> None:
    assert check_fit(sizing(need(1, 18, 20, 22)), ONE_CARD, host(*cards)).fit is fit


def test_two_cards_are_as_good_as_the_smaller_one() -> None:
    two = (Demand(card_count=2),)
    assert check_fit(sizing(need(2, 18, 20, 22)), two, host(24, 12)).fit is Fit.NEVER
    assert check_fit(sizing(need(2, 18, 20, 22)), two, host(24, 24, 12)).fit is Fit.SOME_CARDS
    assert check_fit(sizing(need(2, 18, 20, 22)), two, host(24, 24)).fit is Fit.FITS


def test_a_demand_for_large_cards_leaves_the_small_ones_out() -> None:
    large = (Demand(card_count=1, card_memory_bytes=20 * GIB),)
    assert check_fit(sizing(need(1, 18, 20, 22)), large, host(12, 24)).fit is Fit.FITS


def test_on_the_cpu_it_is_the_memory_asked_for_else_the_hosts() -> None:
    asked = sizing(need(0, 9, 10, 11))
    assert check_fit(asked, (Demand(),), host(ram_gib=64)).fit is Fit.FITS
    checked = check_fit(asked, (Demand(memory_bytes=4 * GIB),), host(ram_gib=64))
    assert checked.fit is Fit.NEVER and "host memory" in str(checked.text)


def test_the_best_alternative_counts() -> None:
    options = (Demand(card_count=1), Demand(card_count=2), Demand())
    asked = sizing(need(1, 30, 32, 34), need(2, 15, 16, 17), need(0, 30, 32, 34))
    assert check_fit(asked, options, host(24, 24, ram_gib=8)).fit is Fit.FITS


def test_what_runs_taught_is_counted_and_said() -> None:
    """Of the buffers alone: weights are what they are."""
    whole = need(1, 18, 20, 22)
    asked = sizing(whole.model_copy(update={"parts": {"weights": 16 * GIB, "compute": 4 * GIB}}))
    checked = check_fit(asked, ONE_CARD, host(26), factor=1.5)
    assert checked.fit is Fit.FITS and "1.50" in str(checked.text)
    assert checked.need is not None and checked.need.total_bytes == 22 * GIB
    assert check_fit(asked, ONE_CARD, host(24), factor=2.5).fit is Fit.UNLIKELY
    assert check_fit(sizing(whole), ONE_CARD, host(26), factor=1.5).need == whole


def test_what_cannot_be_sized_is_unknown_and_says_why() -> None:
    checked = check_fit(Sizing(ask=ModelAsk(name="m"), unsized="nobody knows it"), ONE_CARD, host(24))
    assert checked.fit is Fit.UNKNOWN and "nobody knows it" in str(checked.text)


@given(st.floats(1, 100), st.floats(0, 50), st.floats(0, 50), st.lists(st.floats(0.1, 200), min_size=1, max_size=5))
def test_a_larger_card_never_makes_it_worse(low: float, more: float, most: float, cards: list[float]) -> None:
    order = [Fit.NEVER, Fit.UNLIKELY, Fit.SOME_CARDS, Fit.TIGHT, Fit.FITS]
    asked = sizing(need(1, low, low + more, low + more + most))
    before = check_fit(asked, ONE_CARD, host(*cards)).fit
    after = check_fit(asked, ONE_CARD, host(*(card + 7 for card in cards))).fit
    assert order.index(after) >= order.index(before) or {before, after} == {Fit.TIGHT, Fit.SOME_CARDS}


# ---- sizing ---------------------------------------------------------------------------------------------------------------


def job(ask: ModelAsk, *options: Demand, **more: object) -> JobSpec:
    return JobSpec(name="j", run="true", workdir="/", options=options or (Demand(),), sizing=Sizing(ask=ask), **more)


def test_each_number_of_cards_is_sized_and_parts_add_up() -> None:
    spec = sized(
        job(ModelAsk(name="Qwen3-8B"), Demand(card_count=1), Demand(card_count=2), Demand()), [("RTX 4090", 24 * GIB)]
    )
    assert spec.sizing is not None
    assert [one.cards for one in spec.sizing.needs] == [1, 2, 0]
    for one in spec.sizing.needs:
        assert sum(one.parts.values()) == one.total_bytes
        assert one.low_bytes <= one.total_bytes <= one.high_bytes
    alone, two, cpu = spec.sizing.needs
    assert two.total_bytes < alone.total_bytes
    assert "runtime_context" in alone.parts and "runtime_context" not in cpu.parts
    assert set(spec.sizing.tokens_per_s) == {"RTX 4090", "cpu"}


def test_what_would_help_is_named_for_the_largest_card() -> None:
    spec = sized(job(ModelAsk(name="Llama-3.1-70B"), Demand(card_count=1)), [("A", 8 * GIB), ("RTX 4090", 24 * GIB)])
    assert spec.sizing is not None and spec.sizing.remedies
    assert all(remedy.total_bytes <= 24 * GIB for remedy in spec.sizing.remedies)


@pytest.mark.parametrize("task", ["lora", "qlora", "full", "train"])
def test_training_is_sized_too(task: str) -> None:
    spec = sized(job(ModelAsk(name="Qwen3-0.6B", task=task), Demand(card_count=1)), [("RTX 4090", 24 * GIB)])
    assert spec.sizing is not None
    (found,) = spec.sizing.needs
    assert "activations" in found.parts and spec.sizing.tokens_per_s["RTX 4090"] > 0


def test_a_model_that_nobody_knows_is_no_fault() -> None:
    spec = sized(job(ModelAsk(name="nothing-like-this")), [])
    assert spec.sizing is not None and spec.sizing.needs == () and "nothing-like-this" in (spec.sizing.unsized or "")


def test_paths_count_from_the_workdir_and_from_home(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "tiny.gguf").write_bytes(tiny_llama())
    here = job(ModelAsk(name="tiny.gguf")).model_copy(update={"workdir": str(folder)})
    at_home = job(ModelAsk(name="~/tiny.gguf")).model_copy(update={"environment": {"HOME": str(folder)}})
    for spec in (here, at_home):
        found = sized(spec, []).sizing
        assert found is not None and found.exact and found.server == "llama.cpp"
    (folder / "cut.gguf").write_bytes(tiny_llama()[:200])
    cut = sized(here.model_copy(update={"sizing": Sizing(ask=ModelAsk(name="cut.gguf"))}), []).sizing
    assert cut is not None and cut.unsized
