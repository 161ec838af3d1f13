"""A wall clock that a test sets under running programs (``wallclock/wallclock.c``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from made import put_in_place, shared_library

SOURCE = Path(__file__).parent / "wallclock" / "wallclock.c"


def build(folder: Path) -> Path:
    """CannotBuild when gcc is missing."""
    return shared_library(SOURCE, folder / "wallclock.so")


@dataclass(frozen=True)
class WallClock:
    """``env`` is for programs that the test starts; those that run see each ``set`` at once."""

    library: Path
    file: Path

    def set(self, ahead_s: int) -> None:
        """So many seconds ahead of the true time."""
        put_in_place(self.file, str(ahead_s))

    @property
    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "WALL_CLOCK": str(self.file)}
