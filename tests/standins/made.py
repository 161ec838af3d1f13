"""What the stand-ins in C have in common: built by the tests, told what to answer by a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")


class CannotBuild(Exception):
    """The message says what to install."""


def shared_library(source: Path, library: Path, flags: Sequence[str] = ()) -> Path:
    """``library``, built of ``source``; CannotBuild when gcc is missing."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise CannotBuild(f"install gcc: the stand-in {library.name} is built with it")
    subprocess.run([gcc, *FLAGS, *flags, "-o", str(library), str(source)], check=True, timeout=120)
    return library


def put_in_place(path: Path, text: str) -> None:
    """Whole: whoever reads ``path`` meanwhile has what it held before, or this."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, path)
