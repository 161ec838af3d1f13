"""What a page of documentation promises: its fenced blocks, and the comment that may stand above one.

    <!-- file: job.yaml -->           the block is this file, in the folder in which the page's blocks run
    <!-- not run: why it cannot be --> the block is shown only; the reason is obligatory

A ``console`` block holds commands after ``$ `` and what they print; ``...`` stands for the rest of a line, alone on a line for any number
of lines. A command that fails is followed by ``$ echo $?``. ``sh`` holds commands alone, ``python`` a program: both must end with 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
RUN = ("console", "sh", "python")
SHOWN = ("yaml", "toml", "json", "text", "mermaid")
_COMMAND = re.compile(r"^\s*(\$ |sudo |anycard |make |pip |python3? |apt-get |systemctl )", re.MULTILINE)
_COMMENT = re.compile(r"<!--\s*(?P<key>file|not run):\s*(?P<value>.*?)\s*-->", re.DOTALL)
_BLANKS = re.compile(r"[ \t]+")
_FENCE = re.compile(
    r"^(?:(?P<above><!--(?:(?!-->).)*-->)\n+)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str
    file: str | None = None
    not_run: str | None = None


@dataclass(frozen=True)
class Command:
    """One command of a console block and what it shall print, both streams as they come."""

    text: str
    expected: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    found = []
    for fence in _FENCE.finditer(page):
        comment = _COMMENT.fullmatch(fence["above"] or "")
        note = {comment["key"]: comment["value"]} if comment else {}
        line = page.count("\n", 0, fence.start("text"))
        found.append(Block(line, fence["language"].strip(), fence["text"], note.get("file"), note.get("not run")))
    return found


def commands(block: Block) -> list[Command]:
    """Those of a console block. A line that ends with a backslash goes on in the next."""
    found: list[tuple[str, list[str]]] = []
    going_on = False
    for line in block.text.splitlines():
        if going_on:
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"line {block.line}: a console block begins with a command")
        going_on = line.endswith("\\") and not found[-1][1]
    return [Command(text, tuple(expected)) for text, expected in found]


def faults(page: str) -> list[str]:
    """What keeps a page from being tested: commands where no test looks for them, unknown languages, missing reasons."""
    found = []
    for block in blocks(page):
        if block.language not in (*RUN, *SHOWN, ""):
            found.append(f"line {block.line}: {block.language} is none of {', '.join((*RUN, *SHOWN))}")
        elif block.language in ("text", "") and _COMMAND.search(block.text):
            found.append(f"line {block.line}: commands stand in a console or sh block, so that they are run")
        if block.not_run is not None and len(block.not_run) < 10:
            found.append(f"line {block.line}: the reason why it is not run is missing")
    without = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), page)
    for number, line in enumerate(without.splitlines(), 1):
        if line.startswith("    ") and _COMMAND.match(line):
            found.append(f"line {number}: commands stand in a fenced block, so that they are run")
        if line.startswith("```"):
            found.append(f"line {number}: this fence does not end")
    return found


def matches(expected: tuple[str, ...], printed: str) -> bool:
    """Whether ``printed`` is what was promised. How many blanks part two words does not count (columns are as wide as what is in them), nor
    do blank lines at either end."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(map(re.escape, _BLANKS.sub(" ", line.rstrip()).split("..."))) + " ?\n"
    seen = _BLANKS.sub(" ", printed.strip("\n"))
    return re.fullmatch(pattern, seen + "\n" if seen else "") is not None


def links(page: str) -> list[str]:
    """Targets of links and pictures, in prose."""
    prose = _FENCE.sub("", page)
    return re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r"(?:src|href)=\"([^\"]+)\"", prose)


def anchors(page: str) -> set[str]:
    """Of headings, as GitHub makes them."""
    headings = re.findall(r"^#+\s+(.*)$", _FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-") for heading in headings}
