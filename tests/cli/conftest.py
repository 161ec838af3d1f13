"""The command line as people and scripts meet it: real processes, a real daemon on a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ANYCARD = (sys.executable, "-m", "anycard.cli")


@dataclass(frozen=True)
class Cli:
    """Calls anycard for one home, from the folder beside it."""

    home: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home.parent

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANYCARD_", "LC_", "LANG"))}
        return {**kept, "ANYCARD_HOME": str(self.home), "LC_ALL": "C.UTF-8", **self.env}

    def __call__(
        self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*ANYCARD, *argv],
            input=stdin,
            capture_output=True,
            timeout=120,
            cwd=self.folder,
            env={**self.environ, **(env or {})},
        )

    def json(self, *argv: str) -> Any:
        """What a --json call printed: exactly one document."""
        return json.loads(self(argv[0], "--json", *argv[1:]).stdout)

    def start(self, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*ANYCARD, *argv], cwd=self.folder, env=self.environ, **more)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


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
