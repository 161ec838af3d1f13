"""A daemon with two stand-in cards, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nvml_standin
import pytest
from called import Cli

from anycard.cards.readings.nvidia import NvidiaReader
from anycard.host.live import LiveHost


@dataclass(frozen=True)
class Machine:
    """``anycard`` on a home whose daemon runs, and the stand-in that it sees."""

    cli: Cli
    standin: nvml_standin.NvmlStandin


@pytest.fixture(scope="module")
def machine(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("readings")
    standin = nvml_standin.NvmlStandin(nvml_library, folder / "cards.txt")
    standin.describe(
        "[card]\nuuid = GPU-aaaaaaaa-0000-4000-8000-000000000001\nutilisation = 40\nmemory_used = 1073741824\n"
        "[card]\nuuid = GPU-bbbbbbbb-0000-4000-8000-000000000002\nbus = 00000000:11:00.0\nutilisation = 0\n"
    )
    cli = Cli(folder / "home", standin.env)
    assert cli("up", "-d").returncode == 0
    yield Machine(cli, standin)
    cli("down", "--stop")
    assert "Traceback" not in (cli.home / "daemon.log").read_text()


@pytest.fixture
def reader(nvml: nvml_standin.NvmlStandin) -> Iterator[NvidiaReader]:
    """Of the stand-in that this very process sees."""
    made = NvidiaReader(LiveHost())
    yield made
    made.close()
