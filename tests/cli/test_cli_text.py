"""Text on its way to a terminal: made safe, measured, wrapped; anycard's own lines taken out of a log."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.cli.follow import said_by_program
from anycard.cli.main import _split
from anycard.cli.output import safe
from anycard.cli.tables import _PIECE, cut, pad, table, width, wrap

_OWN = b"[anycard] job 1 (x) item 0 attempt 1 started\n"
_END = b"[anycard] ended 2026-11-30T17:00:00Z succeeded\n"


@given(st.text(st.characters(exclude_categories=())))
def test_safe_text_is_one_line_without_control(text):
    made = safe(text)
    assert all(unicodedata.category(char)[0] != "C" for char in made)
    assert len(made.splitlines()) <= 1
    made.encode()


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_safe_leaves_plain_text_alone(text):
    plain = "".join(char for char in text if unicodedata.category(char) in ("Lu", "Ll", "Lo", "Nd", "Po", "Sm"))
    assert safe(plain) == plain


def test_safe_writes_out_what_steers_a_terminal():
    assert safe("a\x1b[31mb\n\u202ec") == "a\\x1b[31mb\\n\\u202ec"


@given(st.text(st.sampled_from("ab 中文，。…é")), st.integers(0, 30))
def test_cut_and_pad_keep_to_the_columns(text, columns):
    assert width(cut(text, columns)) <= columns
    assert width(pad(text, columns)) >= columns


@given(st.text(st.sampled_from("abc 中文，。")), st.integers(4, 30))
def test_wrap_loses_nothing_but_blanks(text, columns):
    lines = wrap(text, columns)
    assert "".join("".join(lines).split()) == "".join(text.split())
    longest = max((width(piece) for piece in re.findall(_PIECE, text)), default=0)  # what is never broken may stick out
    assert all(width(line) <= max(columns, longest) for line in lines)


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_the_reason_is_whole_or_cut_late_however_narrow_the_terminal(monkeypatch, columns):
    why = "exit code 1: " + "the file is damaged in row 17 "
    monkeypatch.setattr("anycard.cli.tables.screen_width", lambda: columns)
    lines = table(
        ["ITEM", "STATE", "VALUES", "WHY"], [["7", "failed", "data/part-7.csv", why], ["8", "succeeded", "x", ""]]
    )
    assert all(width(line) <= columns for line in lines)
    assert "exit code 1: the file is dama" in " ".join(" ".join(lines).split())
    assert len(lines) == (3 if columns == 100 else 4 if columns == 60 else 5)


def test_wrap_breaks_between_wide_characters():
    assert wrap("一二三四五六", 4) == ["一二", "三四", "五六"]
    assert wrap("one two three", 7) == ["one two", "three"]


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), min_size=1))
def test_a_log_keeps_its_bytes_however_it_is_cut(said, sizes):
    said = said.replace(b"[anycard]", b"")
    body = said if said.endswith(b"\n") or not said else said + b"\n"
    log = _OWN + body + _END
    chunks, at, turn = [], 0, 0
    while at < len(log):
        size = sizes[turn % len(sizes)]
        chunks.append(log[at : at + size])
        at, turn = at + size, turn + 1
    assert b"".join(said_by_program(iter(chunks))) == body


def test_an_open_line_is_shown_before_it_ends():
    shown = said_by_program(iter([_OWN, b"50 %", b" done\n"]))
    assert next(shown) == b"50 %"


@pytest.mark.parametrize(
    ("argv", "globals_", "rest", "command"),
    [
        (["jobs", "--home", "x", "--json"], ["--home", "x"], ["jobs", "--json"], ()),
        (["--lang=zh", "run", "--", "--lang", "en"], ["--lang=zh"], ["run"], ("--lang", "en")),
        (["run", "--no-start", "--", "a", "--", "b"], ["--no-start"], ["run"], ("a", "--", "b")),
        (["run", "--home"], ["--home"], ["run"], ()),
    ],
)
def test_global_options_are_found_before_the_command(argv, globals_, rest, command):
    assert _split(argv) == (globals_, rest, command)
