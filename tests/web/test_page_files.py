"""Logs by parts and outputs by name: whatever a program left there."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from called import until
from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.errors import NotFoundError
from anycard.jobs import logparts, outputs
from anycard.jobs.logparts import Kind
from anycard.web.pages.job import expected_end

STEPS = [b"..", b".", b"", b"a.txt", b"deep", b"er", b"b.bin", b"out", b"secret", b"link"]
PIECES = st.lists(
    st.one_of(st.sampled_from([b"\n", b"\r", b"\x1b[31mred\x1b[0m", b"\xff\xfe", "错误".encode(), b"<b>", b"\0", b"a" * 5000]),
        st.binary(max_size=40),
    ),
    max_size=40,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@settings(max_examples=150, deadline=None)
@given(PIECES, st.integers(20, 3000))
def test_a_log_read_on_from_part_to_part_is_the_whole_log(folder, pieces, size):
    """However it is cut, forwards gives each line once; backwards from the end, too."""
    log = folder / "read.log"
    log.write_bytes(b"".join(pieces))
    whole = log.read_bytes()
    before, logparts.PART_BYTES = logparts.PART_BYTES, size
    try:
        at, ahead = 0, []
        while True:
            part = logparts.part_after(log, at)
            assert at == part.start <= part.end <= part.size == len(whole)
            ahead.append(whole[part.start : part.end])
            if part.end == at:
                break
            at = part.end
        assert b"".join(ahead) == whole[:at] and b"\n" not in whole[at:]
        part = logparts.last_part(log)
        back, start = whole[part.start : part.end], part.start
        while start:
            part = logparts.part_before(log, start)
            assert part.start < part.end == start
            back, start = whole[part.start : part.end] + back, part.start
        assert back == whole[: len(back)] and b"\n" not in whole[len(back) :]
    finally:
        logparts.PART_BYTES = before


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_nothing_in_a_shown_line_steers_anything(folder, pieces):
    log = folder / "shown.log"
    log.write_bytes(b"".join(pieces))
    part = logparts.last_part(log)
    for text in (*(line for line, _ in part.lines), part.open):
        assert all(char.isprintable() or char in "\t\u3000\xa0" or char.isspace() for char in text)
        assert not set(text) & set("\x00\x07\x08\n\r\x1b\u202e\u2028")


def test_lines_as_a_terminal_would_have_shown_them(tmp_path):
    log = tmp_path / "x.log"
    log.write_bytes(
        b"[anycard] started\n"
        b"\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain\n"
        b" 10%\r 50%\r100% done\n"
        b"ValueError: no\n"
        b"0 warnings\n"
        b"bell \x07 and \x00 and \xe2\x80\xae turned\n"
        b"tab\tstays\n"
        b"half"
    )
    part = logparts.last_part(log)
    assert part.lines == (
        ("[anycard] started", Kind.OURS),
        ("red and plain", Kind.PLAIN),
        ("100% done", Kind.PLAIN),
        ("ValueError: no", Kind.BAD),
        ("0 warnings", Kind.PLAIN),
        ("bell \\x07 and \\x00 and \\u202e turned", Kind.PLAIN),
        ("tab\tstays", Kind.PLAIN),
    )
    assert part.open == "half" and part.size == part.end + 4


def test_a_search_finds_the_last_lines_across_chunks(tmp_path):
    log = tmp_path / "big.log"
    filler = b"x" * 99 + b"\n"
    with log.open("wb") as out:
        for number in range(60):
            out.write(filler * 1000)
            out.write(b"Needle %d here\n" % number)
        out.write(b"needle at the end without a newline")
    hits, more = logparts.find(log, "nEEdle", most=10)
    assert more and len(hits) == 10
    assert [hit.text for hit in hits[-2:]] == ["Needle 59 here", "needle at the end without a newline"]
    for hit in hits:
        assert (
            logparts.part_after(log, hit.at).lines[:1] == ((hit.text, Kind.PLAIN),)
            or logparts.part_after(log, hit.at).open == hit.text
        )
    assert logparts.find(log, "absent") == ([], False)
    assert logparts.find(log, "") == ([], False)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.sampled_from([b"", b"x", b"ab", b"xABx", b"abab", b"x" * 40, b"x" * 39 + b"ab"]), max_size=60),
    end=st.sampled_from([b"", b"\n"]),
    most=st.integers(1, 8),
    chunk=st.integers(48, 200),
)
def test_a_search_finds_what_looking_at_every_line_finds(tmp_path_factory, lines, end, most, chunk):
    data = b"\n".join(lines) + end
    log = tmp_path_factory.mktemp("found") / "0.1.log"
    log.write_bytes(data)
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    every = [at for at in starts if b"ab" in data[at:].partition(b"\n")[0].lower()]
    before, logparts._CHUNK_BYTES = logparts._CHUNK_BYTES, chunk
    try:
        hits, more = logparts.find(log, "Ab", most=most)
    finally:
        logparts._CHUNK_BYTES = before
    assert [hit.at for hit in hits] == every[-most:] and more == (len(every) > most)


def test_a_log_that_is_gone_is_empty(tmp_path):
    for read in (logparts.last_part, lambda log: logparts.part_after(log, 7), lambda log: logparts.part_before(log, 7)):
        assert read(tmp_path / "none.log").lines == ()


@pytest.fixture
def made(tmp_path):
    """An item's folder, and things around it that nobody may reach."""
    (tmp_path / "secret").write_text("secret")
    item = tmp_path / "outputs" / "1" / "0"
    (item / "deep" / "er").mkdir(parents=True)
    (item / "a.txt").write_text("a")
    (item / "deep" / "er" / "b.bin").write_bytes(b"\0")
    (item / "link").symlink_to(tmp_path / "secret")
    (item / "out").symlink_to(tmp_path)
    os.mkfifo(item / "pipe")
    (item / os.fsdecode(b"\xff\n<b>")).write_text("odd")
    return item


def test_only_plain_files_are_listed(made):
    files, more = outputs.files_of(made)
    assert not more
    assert {file.path for file in files} == {"a.txt", "deep/er/b.bin", os.fsdecode(b"\xff\n<b>")}
    assert outputs.items_with_output(made.parent) == [0]
    assert outputs.items_with_output(made / "none") == []


@pytest.mark.parametrize(
    "path",
    [b"", b".", b"..", b"../0/a.txt", b"../../../secret", b"/etc/passwd", b"link", b"out/secret", b"pipe", b"deep",
     b"deep/", b"deep//er/b.bin",
     b"deep/../a.txt", b"a.txt/", b"a.txt\0", b"none", b"a.txt/x", b"\xff"],
)  # fmt: skip
def test_nothing_else_opens(made, path):
    with pytest.raises(NotFoundError):
        os.close(outputs.open_file(made, path))


@given(
    st.lists(
        st.sampled_from([b"..", b".", b"", b"a.txt", b"deep", b"er", b"b.bin", b"out", b"secret", b"link"]),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=200, deadline=None)
def test_no_way_leads_out(tmp_path_factory, steps):
    item = _tree(tmp_path_factory)
    try:
        descriptor = outputs.open_file(item, b"/".join(steps))
    except NotFoundError:
        return
    found = Path(f"/proc/self/fd/{descriptor}").resolve()
    os.close(descriptor)
    assert found.is_relative_to(item)


_made: list[Path] = []


def _tree(factory) -> Path:
    if not _made:
        base = factory.mktemp("tree")
        (base / "secret").write_text("secret")
        item = base / "0"
        (item / "deep" / "er").mkdir(parents=True)
        (item / "a.txt").write_text("a")
        (item / "deep" / "er" / "b.bin").write_text("b")
        (item / "out").symlink_to(base)
        (item / "link").symlink_to(base / "secret")
        _made.append(item)
    return _made[0]


JOB = """
name: '"><script>alert(1)<!--'
envs: {WHAT: "<script>alert(1)</script>"}
anycard: {foreach: {matrix: {v: ["<script>alert(1)</script>"]}}}
run: |
  printf '<script>alert(1)</script> \\033[31m\\a\\n' ; printf 'boom' >&2
  mkdir "$ANYCARD_OUTPUT_DIR/sub"; echo result > "$ANYCARD_OUTPUT_DIR/sub/a & b.html"
  ln -s /etc/passwd "$ANYCARD_OUTPUT_DIR/passwd"; ln -s / "$ANYCARD_OUTPUT_DIR/root"
  exit 0
"""


@pytest.fixture(scope="module")
def job(cli):
    done = cli.ran(JOB)
    assert done["state"] == "succeeded"
    return done["id"]


def test_markup_in_names_is_text(visitor, job):
    for path in ("/jobs", "/queue", f"/jobs/{job}", f"/jobs/{job}/head", f"/jobs/{job}/outputs",
                 "/jobs?name=%3Cscript%3Ealert(1)%3C/script%3E",
                 '/jobs?user="><img%20src=x>', "/look/theme/dark?back=/jobs"):  # fmt: skip
        text = visitor.ask(path).text
        assert (
            "<img" not in text and "<script>alert" not in text and "onerror=alert(1)>" not in text.replace("&gt;", "")
        )


def test_a_log_comes_as_data(visitor, job):
    answer = visitor.ask(f"/jobs/{job}/log/0")
    assert answer.headers["Content-Type"] == "application/json"
    lines = [line for line, _ in answer.json["lines"]]
    assert "<script>alert(1)</script> \\x07" in lines and "boom" in lines
    hit = visitor.ask(f"/jobs/{job}/log/0/find?q=SCRIPT%3E%20").json["hits"][0]
    assert hit[1] == "<script>alert(1)</script> \\x07"
    raw = visitor.ask(f"/jobs/{job}/log/0/raw")
    assert b"\x1b[31m\a" in raw.body and raw.headers["Content-Disposition"].startswith("attachment")
    assert raw.headers["Content-Type"].startswith("text/plain")


def test_an_output_is_an_attachment(visitor, job):
    listing = visitor.ask(f"/jobs/{job}/outputs").text
    assert "a%20%26%20b.html" in listing and "passwd" not in listing
    answer = visitor.ask(f"/jobs/{job}/outputs/0/sub/a%20%26%20b.html")
    assert (answer.status, answer.body) == (200, b"result\n")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20%26%20b.html"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["passwd", "root/etc/passwd", "../0/sub/x", "..%2f..%2f..%2fanycard.db", "%2e%2e/%2e%2e/%2e%2e/page-sessions", "/etc/passwd",
     "%2fetc%2fpasswd",
     "sub", "sub/", "%00", "..", "sub/..%5c..%5cx", ""],
)  # fmt: skip
def test_nothing_outside_can_be_downloaded(visitor, job, path):
    answer = visitor.ask(f"/jobs/{job}/outputs/0/{path}")
    assert answer.status in (404, 405) and b"root:" not in answer.body


def test_other_items_and_jobs_have_no_outputs(visitor, job):
    for path in (
        f"/jobs/{job}/outputs/1/sub",
        f"/jobs/{job}/outputs/-1/x",
        f"/jobs/{job}/outputs/x/x",
        "/jobs/999/outputs/0/x",
    ):
        assert visitor.ask(path).status in (400, 404)


def test_a_growing_file_is_sent_as_it_was(cli, visitor, job):
    file = cli.home / "outputs" / str(job) / "0" / "sub" / "grown"
    file.write_bytes(b"x" * 2**20)
    answer = visitor.ask(f"/jobs/{job}/outputs/0/sub/{quote('grown')}")
    assert len(answer.body) == 2**20 == int(answer.headers["Content-Length"])


def test_a_log_of_100_mb_is_read_by_its_end(cli, visitor):
    job = cli.submit("run: |\n  yes 'a line of a long log' | head -c 100000000\n  echo; echo '<i>last</i>'")
    cli.over(job)
    until(lambda: visitor.ask(f"/jobs/{job}/log/0").json["size"] > 100_000_000)
    part = visitor.ask(f"/jobs/{job}/log/0").json
    assert part["size"] - part["start"] <= logparts.PART_BYTES
    assert part["lines"][-2][0] == "<i>last</i>"
    assert visitor.ask(f"/jobs/{job}/log/0?before={part['start']}").json["end"] == part["start"]
    assert [hit[1] for hit in visitor.ask(f"/jobs/{job}/log/0/find?q=LAST").json["hits"]] == ["<i>last</i>"]


@pytest.mark.parametrize(
    ("open_items", "done", "state", "held", "expected"),
    [
        ((40, 10), 50, "running", False, "1970-01-01T00:03:20.000Z"),  # half of it in 100 s
        ((96, 4), 0, "running", False, None),
        ((40, 10), 50, "running", True, None),
        ((0, 0), 10, "succeeded", False, None),
    ],
)
def test_the_end_is_told_by_the_pace_so_far(open_items, done, state, held, expected):
    counts = {"queued": open_items[0], "running": open_items[1], "succeeded": done, "failed": 0, "cancelled": 0}
    job = {"counts": counts, "state": state, "held": held, "started_at": "1970-01-01T00:00:00.000Z"}
    assert expected_end(job, 100.0) == expected


def test_searches_that_nobody_waits_for_hold_up_no_job(cli, visitor):
    """What searches would take of the threads, jobs could not have to be recorded."""
    job = cli.submit("run: yes 'every line is found' | head -c 100000000")
    cli.over(job)
    asked = []
    for _ in range(150):
        connection = visitor.connect()
        connection.request("GET", f"/jobs/{job}/log/0/find?q=every", headers={"Cookie": visitor.cookie})
        asked.append(connection)
    assert cli.ran("run: 'true'")["state"] == "succeeded"
    for connection in asked:
        connection.close()
    assert len(visitor.ask(f"/jobs/{job}/log/0/find?q=every").json["hits"]) == logparts.HITS
