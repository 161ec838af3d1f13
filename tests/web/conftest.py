"""A daemon with its page, a visitor, and Debian's Chromium."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from called import Cli
from visitor import Visitor

CHROMIUM_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A home with a daemon, shared by the tests of a file. Nothing that a visitor does may end in a traceback."""
    # The example's programs need the package: as in an activated virtual environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    called = Cli(tmp_path_factory.mktemp("web") / "home", {"PATH": path})
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    log = (called.home / "daemon.log").read_text()
    assert "Traceback" not in log, log


@pytest.fixture(scope="module")
def visitor(cli: Cli) -> Visitor:
    made = Visitor(cli)
    made.log_in()
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_FLAGS))
        yield started
        started.close()


@pytest.fixture
def tab(browser: Any, cli: Cli) -> Iterator[Any]:
    """A logged-in tab. Whatever goes wrong in a page's scripts fails the test."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    tab = context.new_page()
    tab.set_default_timeout(20_000)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on(
        "console",
        lambda said: (
            wrong.append(said.text) if said.type == "error" and "Failed to load resource" not in said.text else None
        ),
    )
    link = cli.json("up", "-d")["page"]
    tab.goto(link)
    tab.wait_for_url("**/cards")
    tab.address = link.partition("/login")[0]
    tab.wrong = wrong
    yield tab
    context.close()
    assert not wrong


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A home in which nothing was ever started."""
    called = Cli(tmp_path_factory.mktemp("fresh") / "home")
    yield called
    called("down", "--stop")
