"""The API over its real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A home with a daemon, shared by the tests of a file."""
    called = Cli(tmp_path_factory.mktemp("api") / "home")
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
