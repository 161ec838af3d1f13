"""Looks at the processes of a home under test."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
from called import Cli


@pytest.fixture
def supervisor_pid() -> Callable[[Cli], int | None]:
    """The pid of a home's supervisor; None while there is none."""

    def find(cli: Cli) -> int | None:
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if str(cli.home) in words and any(word.endswith("supervisor/__main__.py") for word in words):
                return process.pid
        return None

    return find
