"""A wall clock that a test sets under running programs (``wallclock/wallclock.c``)."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "wallclock" / "wallclock.c"


class CannotBuild(Exception):
    """The message says what to install."""


def build(folder: Path) -> Path:
    gcc = shutil.which("gcc")
    if gcc is None:
        raise CannotBuild("install gcc: the clock stand-in is built with it")
    library = folder / "wallclock.so"
    flags = ("-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
    subprocess.run([gcc, *flags, "-o", str(library), str(SOURCE)], check=True, timeout=120)
    return library


@dataclass(frozen=True)
class WallClock:
    """``env`` is for programs that the test starts; those that run see each ``set`` at once."""

    library: Path
    file: Path

    def set(self, ahead_s: int) -> None:
        """So many seconds ahead of the true time."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(str(ahead_s))
        os.replace(draft, self.file)

    @property
    def env(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "WALL_CLOCK": str(self.file)}
