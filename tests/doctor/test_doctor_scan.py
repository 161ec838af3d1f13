"""The one pass over the evidence finds what a plain search of every line finds."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.doctor import facts
from anycard.doctor.literals import literals
from anycard.doctor.reading import text_source
from anycard.doctor.rules import all_rules
from anycard.doctor.scan import scan
from anycard.doctor.shapes import Source

EXPRESSIONS = sorted({*facts.patterns(), *(pattern for rule in all_rules() for pattern in rule.patterns())})
WORDS = st.sampled_from(
    ["NVRM:", "Xid", "(PCI:0000:01:00):", "79,", "fallen off the bus", "cuda", "error 999", "nouveau", "日志", "x" * 50]
)


def test_expressions_compile_and_have_literals():
    for expression in EXPRESSIONS:
        re.compile(expression, re.IGNORECASE)
        assert literals(expression), expression


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_match_holds_a_literal(data):
    expression = data.draw(st.sampled_from(EXPRESSIONS))
    text = data.draw(st.from_regex(re.compile(expression, re.IGNORECASE | re.ASCII)))
    assert any(piece in text.lower() for piece in literals(expression))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=6).map(" ".join), max_size=40), st.integers(1, 400))
def test_finds_the_lines_that_a_plain_search_finds(lines, block_size):
    expressions = [r"Xid \(PCI[^)]*\): (\d+)", r"fallen off the bus", r"\bnouveau\b", r"error 9\d\d"]
    data = ("\n".join(lines) + "\n").encode()
    cuts = [0]
    while cuts[-1] < len(data):  # blocks end at a line's end
        end = data.find(b"\n", cuts[-1] + block_size - 1) + 1
        cuts.append(end or len(data))
    blocks = [data[a:b] for a, b in pairwise(cuts)]
    seen = scan([Source("log", lambda: iter(blocks))], expressions).matches
    for expression in expressions:
        wanted = [(n, line) for n, line in enumerate(lines, 1) if re.search(expression, line, re.IGNORECASE)]
        assert [(line.number, line.text) for line in seen.get(expression, [])] == wanted[:40]


def test_literals_of_alternatives_are_a_set():
    assert literals(r"(?:alpha|beta) \d+ g") == {"alpha", "beta"}
    assert literals(r"colou?r of money") == {"r of money"}
    with pytest.raises(ValueError, match="no literal"):
        literals(r"\d+ (?:ab)?")


def test_terminal_colours_and_progress_bars_do_not_hide_a_line():
    text = "10%|#   |\r50%|## |\r\x1b[31mCUDA error: out of\x1b[0m memory\n"
    seen = scan([text_source("log", text)], [r"CUDA error: out of memory"]).matches
    assert [line.text.strip() for line in seen[r"CUDA error: out of memory"]] == ["CUDA error: out of memory"]


def test_an_endless_line_is_cut_around_the_hit():
    text = "y" * 100_000 + "fallen off the bus" + "z" * 100_000
    (line,) = scan([text_source("log", text)], ["fallen off the bus"]).matches["fallen off the bus"]
    assert len(line.text) < 3000
