"""A machine whose first card is in MIG mode: jobs on its instances, and what happens when the layout changes under them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rawhttp
from called import Cli, until
from divided import divided
from nvml_standin import NvmlStandin
from visitor import Visitor

_OTHER = "[card]\nbus = 00000000:20:00.0\nname = NVIDIA H100 80GB HBM3\nuuid = {}\n"


@dataclass(frozen=True)
class Divided(Cli):
    """One divided card with three instances, and one whole card. Identities of its own: cards are locked machine-wide."""

    standin: NvmlStandin | None = None
    card: str = ""
    other: str = ""
    instances: tuple[str, str, str] = ("", "", "")

    def describe(self, more: str = "", without: int | None = None) -> None:
        """``without``: the slot of an instance that is no more."""
        assert self.standin is not None
        lines = divided(more, self.card, self.instances).splitlines()
        kept = [line for line in lines if without is None or not line.startswith(f"mig = {without} ")]
        self.standin.describe("\n".join(kept) + "\n" + _OTHER.format(self.other))

    def cards(self) -> dict[str, dict[str, Any]]:
        return {card["uuid"]: card for card in self.json("cards")["cards"]}


@pytest.fixture
def mig(nvml_library: Path, tmp_path: Path) -> Iterator[Divided]:
    standin = NvmlStandin(nvml_library, tmp_path / "cards.txt")
    whole, other = f"GPU-{uuid.uuid4()}", f"GPU-{uuid.uuid4()}"
    instances = (f"MIG-{uuid.uuid4()}", f"MIG-{uuid.uuid4()}", f"MIG-{uuid.uuid4()}")
    called = Divided(tmp_path / "home", standin.env, standin, whole, other, instances)
    called.describe()
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def test_two_jobs_run_side_by_side_on_two_instances(mig: Divided) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES\n  while ! test -e go; do sleep 0.1; done"
    asked = ("1", "2g.20gb")
    jobs = [mig.submit(f"resources: {{accelerators: {name}}}\nrun: |\n  {script}\n") for name in asked]
    until(lambda: all(mig.log(job) for job in jobs))
    assert [mig.log(job).decode().strip() for job in jobs] == list(mig.instances[:2])
    seen = mig.cards()
    assert [seen[one]["job"] for one in mig.instances] == [*jobs, None]
    assert (seen[mig.card]["divided"], seen[mig.card]["free"], seen[mig.other]["free"]) == (True, False, True)
    assert {seen[one]["part_of"] for one in mig.instances} == {seen[mig.card]["id"]}
    (mig.folder / "go").touch()
    assert [mig.over(job)["state"] for job in jobs] == ["succeeded", "succeeded"]


def test_instances_are_shown_under_their_card(mig: Divided) -> None:
    lines = mig("cards").stdout.decode().splitlines()
    at = next(number for number, line in enumerate(lines) if mig.card in line)
    assert "is divided into MIG instances: 1 x 1g.10gb, 1 x 2g.20gb, 1 x 3g.40gb" in lines[at]
    for line, one in zip(lines[at + 1 : at + 4], mig.instances, strict=True):
        assert line.startswith(f"  nvidia:{one} ")
    matrix = mig("cards", "--topology").stdout.decode()
    assert mig.other in matrix
    assert "MIG-" not in matrix
    alone = Cli(mig.home.parent / "nobody", mig.env)("cards").stdout.decode()  # without a daemon
    assert "is divided into MIG instances: 1 x 1g.10gb" in alone


def test_the_page_and_the_metrics_show_instances(mig: Divided) -> None:
    visitor = Visitor(mig)
    visitor.log_in()
    page = visitor.ask("/cards").text
    assert page.count('class="card part"') == 3
    assert "is divided into MIG instances: 1 x 1g.10gb" in page
    matrix = page[page.index('class="matrix"') :]
    assert matrix.count("<tr>") == 3  # its head, and two whole cards
    text = rawhttp.ask(mig.home, "GET", "/metrics").body.decode()
    assert f'part_of="nvidia:{mig.card}"' in text
    assert f'anycard_card_utilisation_ratio{{card="nvidia:{mig.instances[0]}"}}' not in text
    assert f'anycard_card_free{{card="nvidia:{mig.card}"}} 0.0' in text
    assert f'anycard_card_free{{card="nvidia:{mig.instances[0]}"}} 1.0' in text


def test_a_job_gets_what_it_names_and_what_cannot_be_is_refused_in_words(mig: Divided) -> None:
    for asked, given in (("3g.40gb", mig.instances[2]), ("A100-1g.10gb", mig.instances[0]), ("H100", mig.other)):
        job = mig.ran(f"resources: {{accelerators: {asked}}}\nrun: echo $CUDA_VISIBLE_DEVICES")
        assert mig.log(job["id"]).decode().strip() == given
    by_name = (
        "this machine has 0 that fit and are not divided; ask for a MIG instance by its name: 1g.10gb, 2g.20gb, 3g.40gb"
    )
    for asked, sentence in (
        ("A100", f"1 A100 asked, {by_name}"),
        ("2", "2 cards asked: of MIG instances a program can use one at a time, and of whole cards this machine has 1"),
        ("1g.10gb:2", "a program can use one at a time"),
        ("1g.5gb", "no card here is called 1g.5gb"),
    ):
        refused = mig("submit", "--gpus", asked, "--", "true")
        assert refused.returncode == 2
        assert sentence in refused.stderr.decode()


def test_a_program_on_one_instance_leaves_its_siblings_free(mig: Divided) -> None:
    mig.describe(f"process = {os.getpid()} 1000000 compute 0 0\n")
    until(lambda: not mig.cards()[mig.instances[0]]["free"])
    seen = mig.cards()
    assert "which anycard did not start" in seen[mig.instances[0]]["not_free_because"]
    assert [seen[one]["free"] for one in mig.instances[1:]] == [True, True]
    assert seen[mig.card]["processes"] == []


@pytest.mark.slow
def test_the_job_of_a_destroyed_instance_runs_again_on_another(mig: Divided) -> None:
    script = "echo on $CUDA_VISIBLE_DEVICES\n  [ $ANYCARD_ATTEMPT = 2 ] && exit 0\n  exec sleep 600"
    job = mig.submit(f"resources: {{accelerators: mig}}\nrun: |\n  {script}\n")
    until(lambda: mig.log(job))
    mig.describe(without=0)
    assert mig.over(job)["state"] == "succeeded"
    ends = [event["data"]["reason"] for event in mig.events(job) if event["kind"] == "item.ended"]
    assert ends == ["card-lost", "succeeded"]
    assert "card.lost" in [event["kind"] for event in mig.events(job)]
    assert mig.log(job, attempt=2).decode() == f"on {mig.instances[1]}\n"
    until(lambda: mig.instances[0] not in mig.cards())  # it does not stay listed for ever
    assert {*mig.instances[1:], mig.card, mig.other} < set(mig.cards())


@pytest.mark.slow
def test_mig_mode_without_an_instance_says_how_to_make_one(mig: Divided) -> None:
    assert mig.standin is not None
    mig.standin.describe(f"[card]\nuuid = {mig.card}\nmig = on\n")
    until(lambda: mig.instances[0] not in mig.cards())
    why = mig.cards()[mig.card]["not_free_because"]
    assert "is in MIG mode and has no instance: `sudo nvidia-smi mig -i 0 -cgi PROFILE -C` makes one" in why
    refused = mig("submit", "--gpus", "A100", "--", "true")
    assert refused.returncode == 2
    assert b"in MIG mode without an instance" in refused.stderr


def test_readings_and_metrics_know_instances_by_name_and_number(mig: Divided) -> None:
    script = "echo $$\n  while ! test -e go; do sleep 0.1; done"
    job = mig.submit(f"resources: {{accelerators: 1g.10gb}}\nrun: |\n  {script}\n")
    pid = until(lambda: mig.log(job)).decode().strip()
    mig.describe(f"process = {pid} 5000000 compute 0 0\n")
    first = f"nvidia:{mig.instances[0]}"

    def use() -> dict[str, Any] | None:
        with mig.client() as client:
            tick = client.live()
        assert not any(reading["utilisation"] for reading in tick["readings"] if reading["card"] == first)
        return next((use for use in tick["uses"] if use["card"] == first and use["job"] == job), None)

    assert until(use)["memory_bytes"] == 5000000
    asked = ("readings", "--csv", "--card", "nvidia0:0", "--since", "1m")
    rows = until(lambda: mig(*asked).stdout.decode().splitlines()[1:])
    assert f", 0:0, NVIDIA A100-SXM4-80GB MIG 1g.10gb, {mig.instances[0]}, [N/A], " in rows[-1]
    (mig.folder / "go").touch()
    assert mig.over(job)["state"] == "succeeded"
