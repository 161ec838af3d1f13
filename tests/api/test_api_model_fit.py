"""A submitted job that names its model: refused, warned of, or sized; by a real daemon that sees stand-in cards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli

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


def test_a_job_that_names_no_model_has_no_estimate(on_cards: Cli) -> None:
    with on_cards.client() as client:
        (made,) = client.submit(command=["true"])["jobs"]
        assert made["fit"] is None and client.job(made["id"])["sizing"] is None
