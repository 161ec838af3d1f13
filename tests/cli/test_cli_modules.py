"""The command line where its script is not on the PATH."""

from __future__ import annotations

import subprocess
import sys

import pytest

import anycard


@pytest.mark.parametrize("module", ["anycard", "anycard.cli", "anycard.cli.main"])
def test_each_way_to_call_it_is_the_command_line(module):
    def call(*argv):
        return subprocess.run([sys.executable, "-m", module, *argv], capture_output=True, text=True, timeout=60)

    assert call("--version").stdout == f"anycard {anycard.__version__}\n"
    wrong = call("jbs")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "jobs" in wrong.stderr
