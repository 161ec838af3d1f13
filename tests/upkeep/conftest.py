"""capture, prune, backup and card locks through the command line, with daemons that run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Cli]:
    """A home in which nothing was ever started."""
    called = Cli(tmp_path / "home")
    yield called
    called("down", "--stop")
    log = called.home / "daemon.log"
    assert not log.exists() or "Traceback" not in log.read_text()


@pytest.fixture
def up(fresh: Cli) -> Cli:
    """A home with its daemon."""
    assert fresh("up", "-d").returncode == 0
    return fresh
