"""The command line as people and scripts meet it: a real daemon on a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A home with a daemon, shared by the tests of a file; the first verb that needs the daemon starts it."""
    called = Cli(tmp_path_factory.mktemp("cli") / "home")
    yield called
    called("down", "--stop")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Cli]:
    """A home in which nothing was ever started."""
    called = Cli(tmp_path / "home")
    yield called
    called("down", "--stop")
