"""A daemon on a machine with one A100 (the NVML stand-in)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from called import Cli
from nvml_standin import NvmlStandin


@dataclass(frozen=True)
class OneCard(Cli):
    standin: NvmlStandin | None = None
    uuid: str = ""

    def describe(self, words: str) -> None:
        assert self.standin is not None
        self.standin.describe(f"[card]\nuuid = {self.uuid}\n{words}\n")


@pytest.fixture
def one_card(nvml_library: Path, tmp_path: Path) -> Iterator[OneCard]:
    standin = NvmlStandin(nvml_library, tmp_path / "cards.txt")
    called = OneCard(tmp_path / "home", standin.env, standin, f"GPU-{uuid.uuid4()}")
    called.describe("")
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()
