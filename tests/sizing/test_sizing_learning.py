"""Predictions beside the truth, and what they teach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.jobs.grading import grade
from anycard.jobs.spec import ModelAsk, Need, Sizing
from anycard.model.card import Card
from anycard.sizing.inference import Server
from anycard.sizing.learning import LEARNT_FROM, Graded, factor_of, learn
from anycard.sizing.serverlog import Printed


def run(job: int, rest: int, measured: int, *, exact: int = 1000, **more: object) -> Graded:
    values: dict[str, object] = {
        "job": job,
        "at": float(job),
        "model": "m",
        "task": "infer",
        "server": "llama.cpp",
        "device": "nvidia",
        "card": "A",
        "cards": 1,
        "source": "printed",
        "predicted_bytes": exact + rest,
        "rest_bytes": rest,
        "low_bytes": exact,
        "high_bytes": exact + 2 * rest,
        "measured_bytes": measured,
        **more,
    }
    return Graded(**values)  # type: ignore[arg-type]


def test_errors_are_of_the_whole_and_factors_of_the_rest() -> None:
    (found,) = learn([run(at, 100, 1150) for at in range(3)])
    assert found.mean_error == pytest.approx(1 - 1100 / 1150)
    assert found.factor == pytest.approx(1.5) and found.used and found.inside == 1.0
    assert factor_of([found], "infer", "llama.cpp", "nvidia") == (pytest.approx(1.5), 3)
    assert factor_of([found], "infer", "llama.cpp", "amd") == (1.0, 0)


def test_known_parts_are_compared_by_themselves() -> None:
    """A guess at the weights that is off says nothing about buffers."""
    parts = {"weights": (1000, 800), "compute": (100, 150)}
    (found,) = learn([run(at, 100, 950, parts=parts) for at in range(3)])
    assert found.factor == pytest.approx(1.5)


def test_few_runs_or_absurd_ones_correct_nothing() -> None:
    (few,) = learn([run(at, 100, 1150) for at in range(LEARNT_FROM - 1)])
    assert not few.used and factor_of([few], "infer", "llama.cpp", "nvidia") == (1.0, 0)
    (absurd,) = learn([run(at, 100, 9000) for at in range(5)])
    assert not absurd.used


def test_a_job_graded_twice_counts_once() -> None:
    (found,) = learn([run(1, 100, 1150), run(1, 100, 1100), run(2, 100, 1100)])
    assert found.runs == 2 and found.factor == pytest.approx(1.0)


def test_without_a_rest_nothing_is_corrected() -> None:
    (found,) = learn([run(at, 0, 900) for at in range(4)])
    assert found.factor == 1.0 and not found.used


def test_kinds_are_kept_apart_and_rates_learnt() -> None:
    runs = [run(at, 100, 1100, predicted_rate=10.0, measured_rate=4.0) for at in range(3)]
    runs += [run(at, 100, 1200, task="lora") for at in range(10, 14)]
    lora, infer = learn(runs)
    assert (lora.task, lora.runs, lora.rate_factor) == ("lora", 4, None)
    assert (infer.task, infer.rate_factor) == ("infer", pytest.approx(0.4))


@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**13)), min_size=1, max_size=20))
def test_any_runs_can_be_learnt_from(pairs: list[tuple[int, int]]) -> None:
    for found in learn(run(at, rest, measured) for at, (rest, measured) in enumerate(pairs)):
        assert found.factor >= 0 and 0 <= found.inside <= 1


# ---- grading ------------------------------------------------------------------------------------------------------------------

CARD = Card(id="c0", vendor="nvidia", model="RTX 4090")


def sizing(*cards: int, server: str | None = "llama.cpp") -> Sizing:
    parts = {"weights": 1000, "kv_cache": 200, "compute": 50, "runtime_context": 300}
    needs = tuple(
        Need(cards=count, parts=parts, total_bytes=1550, low_bytes=1400, high_bytes=1800, buffers_bytes=1250)
        for count in cards
    )
    return Sizing(
        ask=ModelAsk(name="m"), model="m", server=server, needs=needs, tokens_per_s={"RTX 4090": 50.0, "cpu": 5.0}
    )


def printed(device: str, server: Server = Server.LLAMA_CPP, **parts: int) -> Printed:
    return Printed(server, {device: parts}, tokens_per_s=40.0)


def test_the_servers_own_lines_are_compared_part_by_part() -> None:
    found = grade(sizing(1), [CARD], printed("CUDA0", weights=1000, kv_cache=200, compute=80), None)
    assert found is not None
    assert found["parts"] == {"weights": [1000, 1000], "kv_cache": [200, 200], "compute": [50, 80]}
    assert (found["predicted_bytes"], found["measured_bytes"], found["rest_bytes"]) == (1250, 1280, 50)
    assert (found["low_bytes"], found["high_bytes"]) == (1100, 1500)  # without the runtime, of which no line tells
    assert (found["source"], found["card"], found["predicted_rate"], found["measured_rate"]) == (
        "printed",
        "RTX 4090",
        50.0,
        40.0,
    )


def test_vllms_pool_is_no_need() -> None:
    found = grade(sizing(1, server="vllm"), [CARD], printed("worker", Server.VLLM, weights=1010, compute=60), None)
    assert found is not None and (found["predicted_bytes"], found["measured_bytes"]) == (1050, 1070)


def test_on_the_cpu_the_programs_memory_counts_where_no_line_tells() -> None:
    found = grade(sizing(0), [], None, 1600)
    assert found is not None and (found["source"], found["device"], found["measured_bytes"]) == ("host", "cpu", 1600)
    assert grade(sizing(0), [], None, 20) is None  # it never held the model
    assert grade(sizing(0), [], None, None) is None


def test_on_a_card_the_drivers_word_counts_where_no_line_tells() -> None:
    found = grade(sizing(1), [CARD], None, 1700)
    assert found is not None and (found["source"], found["measured_bytes"], found["predicted_bytes"]) == (
        "card",
        1700,
        1550,
    )


def test_what_does_not_compare_is_not_graded() -> None:
    assert grade(sizing(1), [CARD], None, None) is None
    assert grade(sizing(1, server="vllm"), [CARD], None, 10**9) is None  # it holds what it was given
    assert grade(sizing(1), [CARD], printed("CPU", weights=1000), None) is None  # it ran beside its card
    assert grade(sizing(2), [CARD], printed("CUDA0", weights=1000), None) is None  # never sized for one card
