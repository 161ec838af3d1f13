"""Fixtures as evidence: SLUG.txt or SLUG.N.txt, where ``#!`` lines give platform and source, and ``#! person`` starts a person's words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Fixture:
    path: Path
    platform: str
    source: str
    printed: list[str]
    said: list[str]

    @property
    def cause(self) -> str:
        return self.path.name.split(".")[0]


def load(path: Path) -> Fixture:
    head: dict[str, str] = {}
    printed: list[str] = []
    said: list[str] = []
    into = printed
    for line in path.read_text("utf-8").splitlines():
        if line == "#! person":
            into = said
        elif line.startswith("#! "):
            name, _, value = line[3:].partition(": ")
            head[name] = value
        else:
            into.append(line)
    return Fixture(path, head["platform"], head["source"], printed, said)


def fixtures() -> list[Fixture]:
    return [load(path) for path in sorted(FOLDER.glob("*.txt"))]
