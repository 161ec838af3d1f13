"""anycard as people and scripts call it: real processes on a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anycard.api.client import Client

PATIENCE_S = 90  # not a measure of anything: how long until a hang is called a hang
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

    def client(self) -> Client:
        """A connection to the running daemon from this process."""
        return Client(self.home)

    def start(self, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*ANYCARD, *argv], cwd=self.folder, env=self.environ, **more)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def submit(self, text: str, **more: Any) -> int:
        """Submits a job file's text from the folder; the (first) job's id."""
        with self.client() as client:
            return int(client.submit(text=text, cwd=more.pop("cwd", self.folder), **more)["jobs"][0]["id"])

    def over(self, job: int) -> dict[str, Any]:
        """The JOB once it is over, its items under ``items``."""

        def ended() -> dict[str, Any] | None:
            with self.client() as client:
                found = client.job(job)
                if found["state"] in ("queued", "running"):
                    return None
                return {**found, "items": list(client.all_items(job))}

        return until(ended)

    def ran(self, text: str, **more: Any) -> dict[str, Any]:
        """Submits and waits for its end."""
        return self.over(self.submit(text, **more))

    def log(self, job: int, item: int = 0, **more: Any) -> bytes:
        """What an item's program wrote, without anycard's own first and last line."""
        with self.client() as client:
            raw = b"".join(client.log(job, item, **more))
        return b"".join(line for line in raw.splitlines(keepends=True) if not line.startswith(b"[anycard] "))

    def events(self, job: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after: int | None = 0
        with self.client() as client:
            while after is not None:
                page = client.events(job, after=after, limit=1000)
                found += page["events"]
                after = page["next_after"]
        return found


def until(condition: Callable[[], Any]) -> Any:
    """Waits until ``condition()`` is true and returns its value."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it never came")
