"""What the documentation shows is run: each page's blocks, in order, in a folder and an ANYCARD_HOME of the page's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, RUN, Block, blocks, commands, matches

_END = "\x1e"  # after each command: this, its exit code, this again
_LONGEST_S = 150
_SHELL = shutil.which("bash") or "sh"


@dataclass(frozen=True)
class Place:
    """Where a page is followed: ``folder`` holds what a clone shows of use here, ``env`` is that of a person who installed anycard."""

    folder: Path
    env: dict[str, str]

    def call(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=self.folder, env=self.env, text=True, errors="replace", timeout=_LONGEST_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    page: Path = request.getfixturevalue("page")
    folder = tmp_path / "here"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANYCARD_", "LC_", "LANG"))}
    env = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "ANYCARD_HOME": str(tmp_path / "home"),
        "ANYCARD_LANG": "zh" if page.name.endswith(".zh-CN.md") else "en",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(tmp_path),
    }
    made = Place(folder, env)
    yield made
    made.call("anycard", "down", "--stop")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the platform runs on POSIX systems: use WSL 2")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_the_page_shows_is_what_happens(page: Path, place: Place) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.file is not None:
            file = place.folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language in RUN and block.not_run is None:
            where = f"{page.name}, line {block.line}"
            if block.language == "console":
                follow(place, block, where)
            else:
                shell = (_SHELL, "-euc") if block.language == "sh" else (sys.executable, "-c")
                done = place.call(*shell, block.text)
                assert done.returncode == 0, f"{where}: exit {done.returncode}\n{done.stdout}"


def follow(place: Place, block: Block, where: str) -> None:
    """Runs a console block in one shell, so that what a command sets the next one finds, and compares what each printed."""
    asked = commands(block)
    # Each command sees the exit code of the one before it, as `$ echo $?` wants it.
    marked = "\n".join(
        f"{command.text}\n{{ doc_rc=$?; printf '\\036%d\\036' $doc_rc; (exit $doc_rc); }}" for command in asked
    )
    done = place.call(_SHELL, "-c", marked)
    pieces = done.stdout.split(_END)
    assert len(pieces) == 2 * len(asked) + 1, f"{where}: the block ended early\n{done.stdout}"
    for number, command in enumerate(asked):
        printed, code = pieces[2 * number], int(pieces[2 * number + 1])
        assert "Traceback (most recent" not in printed, (
            f"{where}: {command.text!r}\n{printed}"
        )  # `...` must not hide one
        shown_next = number + 1 < len(asked) and asked[number + 1].text == "echo $?"
        assert code == 0 or shown_next, f"{where}: {command.text!r} ended with {code}\n{printed}"
        assert matches(command.expected, printed), (
            f"{where}: {command.text!r} should print\n{chr(10).join(command.expected)}\nbut printed\n{printed}"
        )
