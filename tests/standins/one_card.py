"""The command line on a machine with one A100 (the NVML stand-in)."""

from __future__ import annotations

from dataclasses import dataclass

from called import Cli
from nvml_standin import NvmlStandin


@dataclass(frozen=True)
class OneCard(Cli):
    standin: NvmlStandin | None = None
    uuid: str = ""

    def describe(self, words: str) -> None:
        assert self.standin is not None
        self.standin.describe(f"[card]\nuuid = {self.uuid}\n{words}\n")
