"""What the daemon prints where it is kept for others to read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from called import Cli, until


@pytest.mark.parametrize("journal", [True, False])
def test_no_secret_goes_into_a_journal(tmp_path: Path, journal: bool) -> None:
    """systemd says in JOURNAL_STREAM which file its journal reads; the group systemd-journal reads it, too."""
    cli = Cli(tmp_path / "home")
    printed = cli.folder / "printed"
    with printed.open("wb") as out:
        found = os.fstat(out.fileno())
        stream = f"{found.st_dev}:{found.st_ino}" if journal else f"{found.st_dev}:{found.st_ino + 1}"
        daemon = replace(cli, env={**cli.env, "JOURNAL_STREAM": stream}).start(
            "up", "--port", "0", stdout=out, stderr=out
        )
        try:
            until(lambda: b" ready: home " in printed.read_bytes())
        finally:
            daemon.terminate()
            assert daemon.wait(60) == 0
    text = printed.read_text()
    assert "http://127.0.0.1:" in text  # where it listens is no secret
    assert ("login?code=" in text, "ANYCARD_TOKEN_FILE" in text) == (not journal, journal), text
