"""A submitted job that names its model: refused, warned of, or sized; by a real daemon that sees stand-in cards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli, until

from anycard.errors import UsageError
from anycard.units import GIB

CARDS = "[card]\nname = NVIDIA GeForce RTX 4090\nmemory = 25757220864\n"


@pytest.fixture
def on_cards(nvml, tmp_path: Path) -> Iterator[Cli]:
    nvml.describe(CARDS)
    called = Cli(tmp_path / "home", nvml.env)
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def job(model: str, more: str = "") -> str:
    return f"name: m\nrun: 'true'\nresources: {{accelerators: 1}}\nanycard: {{model: {{name: {model}, {more}}}}}\n"


def test_what_cannot_fit_is_refused_with_the_numbers_and_what_would(on_cards: Cli) -> None:
    with pytest.raises(UsageError) as refused:
        on_cards.submit(job("Llama-3.1-70B"))
    assert "Llama-3.1-70B cannot fit" in str(refused.value) and "24" in str(refused.value)
    assert "offload" in (refused.value.to_json()["hint"] or "")
    with on_cards.client() as client:
        assert client.jobs()["jobs"] == []


def test_unless_its_file_wants_a_warning(on_cards: Cli) -> None:
    with on_cards.client() as client:
        answer = client.submit(text=job("Llama-3.1-70B", "too_large: warn"), cwd=on_cards.folder)
    (made,) = answer["jobs"]
    assert made["fit"]["fit"] == "never" and made["fit"]["low_bytes"] > made["fit"]["have_bytes"]


def test_the_estimate_is_kept_with_the_job(on_cards: Cli) -> None:
    with on_cards.client() as client:
        answer = client.submit(text=job("Qwen3-8B", "context: 8192"), cwd=on_cards.folder)
        (made,) = answer["jobs"]
        kept = client.job(made["id"])["sizing"]
        assert client.jobs()["jobs"][0]["sizing"] is None
    (need,) = kept["needs"]
    assert made["fit"]["fit"] == "fits" and made["fit"]["need_bytes"] == need["total_bytes"]
    assert 16 * GIB < need["total_bytes"] < 18 * GIB
    assert kept["ask"]["context"] == 8192 and kept["tokens_per_s"]
    told = on_cards("job", str(made["id"])).stdout.decode()
    assert "model: Qwen3-8B: about" in told


def test_a_warning_reaches_the_person(on_cards: Cli) -> None:
    done = on_cards("submit", on_cards.file("j.yaml", job("Qwen3-8B", "context: 32768, batch: 4")))
    assert done.returncode == 2 and b"cannot fit" in done.stderr
    done = on_cards("submit", on_cards.file("k.yaml", job("nobody/knows-it")))
    assert done.returncode == 0 and b"could not be sized" in done.stderr
    chinese = on_cards("--lang", "zh", "submit", str(on_cards.folder / "k.yaml")).stderr.decode()
    assert "无法估算 nobody/knows-it" in chinese and "no model is called" not in chinese


def test_a_job_that_names_no_model_has_no_estimate(on_cards: Cli) -> None:
    with on_cards.client() as client:
        (made,) = client.submit(command=["true"])["jobs"]
        assert made["fit"] is None and client.job(made["id"])["sizing"] is None


LINES = """\
load_tensors:        CUDA0 model buffer size =  8000.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   {kv}.00 MiB
sched_reserve:       CUDA0 compute buffer size =   300.00 MiB
slot print_timing: eval time = 1000.00 ms / 50 tokens (20.00 ms per token, 50.00 tokens per second)
"""


def test_the_truth_of_a_run_stands_beside_its_prediction(on_cards: Cli) -> None:
    """The program prints what llama.cpp prints; three runs of a kind correct the next one's buffers."""
    text = job("Qwen3-8B", "context: 8192, quant: q8_0, server: llama.cpp").replace("'true'", "cat lines.txt")
    (on_cards.folder / "lines.txt").write_text(LINES.format(kv=1152))
    jobs = [on_cards.ran(text)["id"] for _ in range(3)]

    def told() -> dict | None:
        with on_cards.client() as client:
            found = client.sizing()
        return found if len(found["runs"]) == 3 else None

    found = until(told)
    assert [one["job"] for one in found["runs"]] == jobs[::-1]
    run = found["runs"][0]
    assert run["source"] == "printed" and run["card"] == "NVIDIA GeForce RTX 4090" and run["device"] == "nvidia"
    assert run["parts"]["kv_cache"] == {"predicted_bytes": 1152 << 20, "measured_bytes": 1152 << 20}
    assert run["measured_tokens_per_s"] == 50.0 and run["predicted_tokens_per_s"] > 50
    (learnt,) = found["learnt"]
    assert learnt["runs"] == 3 and learnt["used"] and learnt["factor"] > 1
    events = {event["kind"] for event in on_cards.events(jobs[0])}
    assert "model.measured" in events
    shown = on_cards("fit", "--errors").stdout.decode()
    assert "llama.cpp" in shown and "Qwen3-8B" in shown and "the server's own lines" in shown
    said = on_cards("submit", on_cards.file("again.yaml", text)).stderr.decode()
    assert "as runs here have taught" in said
    on_cards("down")
    (kept,) = on_cards.json("fit", "--errors")["learnt"]  # a new daemon
    assert kept["factor"] == learnt["factor"] and kept["runs"] >= 3  # from the store


def test_a_batch_is_graded_once(on_cards: Cli) -> None:
    (on_cards.folder / "lines.txt").write_text(LINES.format(kv=1152))
    text = job("Qwen3-8B", "quant: q8_0, server: llama.cpp").replace("'true'", "cat lines.txt")
    made = on_cards.ran(text.replace("anycard: {", "anycard: {foreach: {count: 5}, "))
    until(lambda: [event for event in on_cards.events(made["id"]) if event["kind"] == "model.measured"])
    with on_cards.client() as client:
        assert len(client.sizing()["runs"]) == 1


@pytest.mark.slow
def test_without_the_servers_lines_the_driver_says_what_it_held(on_cards: Cli, nvml) -> None:
    """The program puts itself on the stand-in card, as a driver would list it."""
    (on_cards.folder / "held.txt").write_text(CARDS + "process = PID 2147483648 compute 80\n")
    script = f"sed s/PID/$$/ held.txt > next.txt; mv next.txt {nvml.description}; sleep 10"
    text = job("Qwen3-0.6B", "context: 8192").replace("'true'", f'"{script}"')
    made = on_cards.ran(text)
    assert made["state"] == "succeeded", made

    def told() -> list:
        with on_cards.client() as client:
            return client.sizing()["runs"]

    (run,) = until(told)
    assert run["source"] == "card" and run["measured_bytes"] == 2 * GIB
    assert run["predicted_bytes"] > GIB
