"""Bad input and faults, as a user meets them: the command line, a daemon, a supervisor and real programs on a home of their own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from called import Cli
from nvml_standin import NvmlStandin

_PAIR = "driver = 580.95.05\ncuda = 13000\n"


@dataclass(frozen=True)
class TwoCards(Cli):
    """A machine with two A100 (the NVML stand-in). ``describe`` makes faults while everything runs."""

    standin: NvmlStandin | None = None
    # Cards are locked machine-wide by UUID: another test's daemon must not hold these.
    uuids: tuple[str, ...] = field(default_factory=lambda: (f"GPU-{uuid.uuid4()}", f"GPU-{uuid.uuid4()}"))

    def describe(self, *words: str) -> None:
        """``words``: lines of the stand-in's language for the first and the second card."""
        assert self.standin is not None
        blocks = [
            f"[card]\nbus = 00000000:{16 + at:02X}:00.0\nuuid = {card}\n{words[at] if at < len(words) else ''}\n"
            for at, card in enumerate(self.uuids)
        ]
        self.standin.describe(_PAIR + "".join(blocks))


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A home with a daemon, shared by the tests of a file."""
    called = Cli(tmp_path_factory.mktemp("faults") / "home")
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Cli]:
    """A home in which nothing was ever started."""
    called = Cli(tmp_path / "home")
    yield called
    called("down", "--stop")


@pytest.fixture
def two_cards(nvml_library: Path, tmp_path: Path) -> Iterator[TwoCards]:
    """Two healthy cards and no daemon yet."""
    standin = NvmlStandin(nvml_library, tmp_path / "cards.txt")
    called = TwoCards(tmp_path / "home", standin.env, standin)
    called.describe()
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")


@pytest.fixture
def as_root() -> None:
    """For what needs a control group or a mount of its own."""
    if os.getuid() != 0:
        pytest.skip("run as root: this test limits memory by a control group")
