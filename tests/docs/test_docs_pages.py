"""The pages themselves: nothing untested by accident, no dead links, pictures that load fast."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from doc_pages import PAGES, ROOT, anchors, blocks, commands, faults, links, matches

PICTURES = sorted((ROOT / "docs" / "img").glob("*.svg"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{link} leads nowhere"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{link}: there is no such heading"


def test_the_index_names_every_page() -> None:
    index = set(links((ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - index == set()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_are_light_and_need_nothing_from_elsewhere(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "url(http" not in text and "<script" not in text


def test_a_page_is_read_as_it_says() -> None:
    page = (
        "a\n\n<!-- file: x.yaml -->\n```yaml\nrun: a\n```\n<!-- not run: needs a card -->\n```sh\nb\n```\n"
        "```console\n$ c \\\n  d\nout\n$ e\n```\n"
    )
    file, shown, run = blocks(page)
    assert (file.file, file.text, shown.not_run) == ("x.yaml", "run: a\n", "needs a card")
    assert [(one.text, one.expected) for one in commands(run)] == [("c \\\n  d", ("out",)), ("e", ())]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("    anycard jobs\n", "fenced"),
        ("```\n$ anycard jobs\n```\n", "console or sh"),
        ("```perl\n1\n```\n", "none of"),
        ("<!-- not run: -->\n```sh\nx\n```\n", "reason"),
        ("```sh\nx\n", "does not end"),
    ],
)
def test_what_would_escape_the_tests_is_a_fault(page: str, fault: str) -> None:
    assert fault in "".join(faults(page))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ((), "", True),
        ((), "something\n", False),
        (("took ...s",), "took 1.2s\n", True),
        (("took ...s",), "took 1.2m\n", False),
        (("a", "...", "c"), "a\nc\n", True),
        (("a", "...", "c"), "a\nb\nb\nc\n", True),
        (("a", "...", "c"), "a\nb\n", False),
        (("a",), "a\nb\n", False),
        (("a (b) *",), "a (b) *   \n", True),
    ],
)
def test_what_was_promised(expected: tuple[str, ...], printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
