"""Whatever the text, the reader answers with jobs or with faults that point into it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.jobs.file.faults import Faults, JobFileError
from anycard.jobs.file.foreach import expand, item_variables
from anycard.jobs.file.parse import parse
from anycard.jobs.file.resolve import from_command, resolve

PAGE = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text()
EXAMPLES = [block.split("```")[0] for block in PAGE.split("```yaml\n")[1:]]
# Pieces that mean something to YAML or to us.
PIECES = [
    "\t", "\n", " ", ":", ": ", "- ", "{", "}", "[", "]", ",", "&a ", "*a", "<<: *a", "#", "? ", "| ", "> ", "!", "!!str ",
    "%YAML 1.1\n", "---\n", "...\n", "'", '"', "\\", "\\U99999999", "@", "`", "~", "null", "\r", "\x00", "\x85", "\u2028", "\ufeff",
    "\udc80", "é", "🦀", "1e400", "9" * 400, "-1", ".inf", ".nan", "0.5", "any_of", "accelerators", "anycard:", "foreach:", "secrets:",
    "x", "+", "2026-12-01T08:00",
]  # fmt: skip


@st.composite
def mutated_examples(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        text = text[:start] + draw(st.one_of(st.sampled_from(PIECES), st.just(""))) + text[end:]
    return text


def check(text: str | bytes) -> None:
    decoded = text if isinstance(text, str) else text.decode("utf-8", "replace")
    lines = re.split("\r\n|\n|\r", decoded)
    try:
        jobs = parse(text, "j")
    except JobFileError as error:
        assert error.faults
        for fault in error.faults:
            assert fault.file == "j"
            assert 1 <= fault.line <= len(lines)
            assert fault.column >= 1
            assert set(re.findall(r"{(\w+)}", fault.message.msgid)) <= fault.message.params.keys()
        return
    for job in jobs:
        assert job.run and job.run.strip()
        options = job.resources.demands(job.resources.asks[0])
        assert all(option.cpus > 0 and 0 <= option.card_count <= 1024 for option in options)


@given(st.text())
@settings(max_examples=150, deadline=None)
def test_any_text(text: str) -> None:
    check(text)


@given(st.binary())
@settings(max_examples=150, deadline=None)
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_pieces_of_yaml(text: str) -> None:
    check(text)


@given(mutated_examples())
@settings(max_examples=400, deadline=None)
def test_mutated_examples(text: str) -> None:
    check(text)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.text(max_size=5), max_size=3),
)
KEYS = st.sampled_from(
    ["name", "cpus", "memory", "accelerators", "priority", "time_limit", "parallel", "retry", "held", "other"]
)


@given(st.dictionaries(KEYS, VALUES), st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3))
@settings(max_examples=200, deadline=None)
def test_any_options(options: dict[str, object], given_values: dict[str, str]) -> None:
    try:
        spec = from_command(["true"], cwd="/", environ={}, options=options, given=given_values).spec
    except JobFileError as error:
        assert all(fault.line == 0 and fault.file.startswith("--") for fault in error.faults)
    else:
        assert spec.options and spec.model_validate_json(spec.model_dump_json()) == spec


@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda raw: not set(raw) & {0, 10, 13}), min_size=1, max_size=20)
)
@settings(max_examples=100, deadline=None)
def test_any_line_arrives_whole(tmp_path_factory: object, lines: list[bytes]) -> None:
    folder = Path(tmp_path_factory.mktemp("lines"))  # type: ignore[attr-defined]
    (folder / "list.txt").write_bytes(b"\n".join(lines))
    (job,) = parse("run: x\nanycard: {foreach: {lines: list.txt}}", str(folder / "job.yaml"))
    spec = resolve(job, cwd="/", environ={}).spec
    kept = spec.model_validate_json(spec.model_dump_json()).items or ()
    assert [item_variables(item)["ANYCARD_LINE"].encode("utf-8", "surrogateescape") for item in kept] == lines


AXES = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True).map(lambda name: "k_" + name),
    st.lists(st.integers(0, 99), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)


@given(AXES)
@settings(max_examples=100, deadline=None)
def test_a_matrix_holds_every_combination_once(axes: dict[str, list[int]]) -> None:
    (job,) = parse(f"run: x\nanycard: {{foreach: {{matrix: {axes}}}}}".replace("'", ""), "j")
    assert job.own.foreach is not None
    found = expand(job.own.foreach, Path("/"), str, Faults())
    assert [tuple(item.values()) for item in found] == [tuple(map(str, point)) for point in product(*axes.values())]
    assert all(list(item) == list(axes) for item in found)
