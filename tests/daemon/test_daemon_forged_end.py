"""A program writes its own end into its record while the supervisor is dead: as long as its shim lives, it is not believed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from called import Cli, until

FORGER = """\
run: |
  record=${ANYCARD_OUTPUT_DIR%.output}.record
  printf '\\nexited 0\\n' >>"$record"
  touch forged
  while [ ! -e go ]; do sleep 0.05; done
  exit 7
"""


@pytest.mark.skipif(sys.platform != "linux", reason="whether a shim lives is seen in /proc")
def test_an_end_that_the_program_wrote_while_its_shim_lives(
    tmp_path: Path, supervisor_pid: Callable[[Cli], int | None]
) -> None:
    cli = Cli(tmp_path / "home")
    try:
        assert cli("up", "-d").returncode == 0
        job = cli.submit(FORGER)
        until((tmp_path / "forged").exists)
        first = supervisor_pid(cli)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor_pid(cli) not in (None, first))
        until(lambda: cli.json("job", str(job))["counts"]["running"] == 1)
        (tmp_path / "go").touch()
        ended = cli.over(job)
        assert (ended["state"], ended["items"][0]["exit_code"], ended["items"][0]["attempts"]) == ("failed", 7, 1)
    finally:
        cli("down", "--stop")
