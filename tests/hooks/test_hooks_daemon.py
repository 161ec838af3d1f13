"""A daemon with hooks: jobs and cards are told, a wrong configuration is said, secrets stay where they are."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli, until
from nvml_standin import NvmlStandin

TOKEN = "t0ken-of-the-address"
SECRET = "SEC-of-the-signature"


def configured(cli: Cli, text: str) -> None:
    cli.home.mkdir(mode=0o700, exist_ok=True)
    file = cli.home / "config.toml"
    file.touch(mode=0o600)
    file.write_text(text)


@pytest.fixture
def machine(nvml_library: Path, tmp_path: Path) -> Iterator[tuple[Cli, NvmlStandin, str]]:
    """A home, the stand-in with one card, and that card's UUID."""
    standin = NvmlStandin(nvml_library, tmp_path / "cards.txt")
    card = f"GPU-{uuid.uuid4()}"
    standin.describe(f"[card]\nuuid = {card}\n")
    called = Cli(tmp_path / "home", standin.env)
    yield called, standin, card
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def test_jobs_and_cards_are_told(machine, receiver):
    cli, standin, card = machine
    configured(
        cli,
        f"""
[cards]
idle_after = "1s"
hot_c = 80

[[hooks]]
name = "all"
url = "{receiver.url}/{TOKEN}"
secret = "{SECRET}"
""",
    )
    assert cli("up", "-d").returncode == 0
    done = cli.ran("name: good\nrun: echo hello\n")
    failed = cli.ran("name: bad\nrun: exit 3\nanycard: {foreach: {count: 2}}\n")
    job = cli.submit("name: lazy\nresources: {accelerators: 1}\nrun: exec sleep 600\n")

    def told(kind: str):
        return next((post.json for post in receiver.posts if post.json["kind"] == kind), None)

    idle = until(lambda: told("card-idle"))
    assert (idle["job"]["id"], idle["card"]["id"]) == (job, f"nvidia:{card}")
    standin.describe(f"[card]\nuuid = {card}\ntemperature = 95\n")
    hot = until(lambda: told("too-hot"))
    assert hot["card"]["temperature_c"] == 95
    standin.describe(f"[card]\nuuid = {card}\nfault = lost\n")
    assert until(lambda: told("card-lost"))["job"]["name"] == "lazy"
    assert (told("done")["job"]["id"], told("failed")["job"]["id"]) == (done["id"], failed["id"])
    assert "2 of 2 items failed" in told("failed")["text"]
    lazy = [event["kind"] for event in cli.events(job)]
    assert {"card.idle", "card.hot", "card.lost"} <= set(lazy)
    assert all(post.headers["x-anycard-signature"].startswith("sha256=") for post in receiver.posts)
    for path in cli.home.rglob("*"):
        if path.is_file() and path.name != "config.toml":
            data = path.read_bytes()
            assert TOKEN.encode() not in data and SECRET.encode() not in data, path


def test_a_wrong_configuration_is_said_and_nothing_starts(tmp_path):
    cli = Cli(tmp_path / "home")
    configured(cli, f'[[hooks]]\nurl = "https://example.com/{TOKEN}"\nshape = "telex"\n')
    told = cli("up", "-d")
    assert told.returncode in (2, 125)
    assert b"telex is no shape" in told.stderr
    assert TOKEN.encode() not in told.stderr
    (cli.home / "config.toml").chmod(0o640)
    assert b"may be read by others" in cli("up", "-d").stderr
