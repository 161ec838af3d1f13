"""Names from hell: of files, of jobs, in values; ten thousand items; what is shown on a terminal."""

from __future__ import annotations

import json
import os
import re

import pytest

from anycard.errors import AnycardError

ODD = [b"plain.csv", b"two  blanks .csv", b"new\nline.csv", b"quo'te\".csv", b"$(touch pwned).csv", b"-rf.csv", b"x..dots...csv",
       b"tab\t.csv", b"b\xe4r \xff.csv", "数据 é.csv".encode(), b"esc\x1b[31m.csv", b"star*.csv", b"back\\slash.csv"]  # fmt: skip


def test_files_of_any_name_reach_the_program_whole(cli, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ODD:
        with open(os.fsencode(data) + b"/" + name, "wb") as file:
            file.write(name[::-1])
    done = cli.ran(
        'run: |\n  cp -- "$ANYCARD_FILE" "$ANYCARD_OUTPUT_DIR/copy"\n  printf %s "$ANYCARD_FILE" >"$ANYCARD_OUTPUT_DIR/name"\n'
        "anycard: {foreach: {files: ['data/*.csv', './data/../data/plain.csv', '../*/data/plain.csv']}}\n",
        cwd=tmp_path,
    )
    assert done["state"] == "succeeded", done["items"]
    names = set()
    for item in done["items"]:
        path = os.fsencode(item["output"])
        with open(path + b"/name", "rb") as name, open(path + b"/copy", "rb") as copy:
            base = os.path.basename(name.read())
            assert copy.read() == base[::-1]
            names.add(base)
    assert names == set(ODD)
    assert not (tmp_path / "pwned").exists()
    shown = cli("job", str(done["id"]), "--all")
    assert b"\x1b" not in shown.stdout
    assert len(shown.stdout.decode().splitlines()) < len(done["items"]) + 15  # no name broke a line
    assert json.loads(cli("job", str(done["id"]), "--json").stdout)["counts"]["succeeded"] == len(done["items"])


def test_lines_may_hold_anything_but_a_null_byte(cli, tmp_path):
    (tmp_path / "list.txt").write_bytes(b"a b\r\n\n\xff'\"\n$HOME `id`\n" + b"x" * 20_000 + b"\n")
    done = cli.ran('run: printf %s "$ANYCARD_LINE" | wc -c\nanycard: {foreach: {lines: list.txt}}\n', cwd=tmp_path)
    assert [int(cli.log(done["id"], item)) for item in range(4)] == [3, 3, 10, 20_000]
    (tmp_path / "list.txt").write_bytes(b"a\0b\n")
    with pytest.raises(AnycardError):
        cli.submit("run: x\nanycard: {foreach: {lines: list.txt}}\n", cwd=tmp_path)


def test_names_of_jobs_cannot_steer_a_terminal(cli):
    for name in ("\x1b]0;owned\x07red", "new\nline", "‮reversed", "a" * 5000, " ", "12", "../../etc/passwd"):
        out = cli("submit", "--json", "--name", name, "--hold", "--", "true")
        assert out.returncode in (0, 2), out.stderr
        assert b"Traceback" not in out.stderr
        assert b"\x1b" not in out.stderr
        if out.returncode == 0:
            job = json.loads(out.stdout)["jobs"][0]
            assert cli("job", str(job["id"])).returncode == 0
            cli("cancel", str(job["id"]))
    listed = cli("jobs").stdout.decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f‪-‮]", listed)


def test_file_names_on_the_command_line(cli, tmp_path):
    folder = tmp_path / "a folder\nwith lines"
    folder.mkdir()
    (folder / "job 'x'.yaml").write_text("run: pwd\n")
    out = cli("run", str(folder / "job 'x'.yaml"))
    assert out.returncode == 0, out.stderr
    assert out.stdout.decode() == f"{folder}\n"
    missing = cli("submit", str(folder / "no\x1b[31m.yaml"))
    assert missing.returncode == 3
    assert b"\x1b" not in missing.stderr
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\x7fELF\xff\xfe\0\0")
    assert cli("submit", str(binary)).returncode == 2
    raw = os.fsencode(tmp_path) + b"/\xff.yaml"
    with open(raw, "wb") as file:
        file.write(b"run: 'true'\n")
    out = cli("submit", os.fsdecode(raw))
    assert out.returncode in (0, 2), out.stderr
    assert b"Traceback" not in out.stderr


@pytest.mark.parametrize(
    "text",
    ["run: [", "{", "\t- x", "run: x\nrun: y", "- a\n- b", "just words", "", "run: !!python/object:os.system x", "a: &a [*a]",
     "run: x\nanycard: {foreach: {files: 'no/*.such'}}", "run: x\nanycard: {foreach: {lines: missing.txt}}", "run: x\nworkdir: /no/such",
     "run: x\nresources: {cpus: lots}", "run: x\nanycard: {retry: {when: [bad-luck]}}", "run: x\nanycard: {priority: 1e99}", "run: 5\nx: y",
     "run: x\nanycard: {not_before: someday}", "run: x\nnum_nodes: 4", "run: x\nanycard: {foreach: {count: 99999999999}}"],
)  # fmt: skip
def test_wrong_files_are_refused_whole_with_their_place(cli, text):
    with cli.client() as client:
        before = client.jobs(limit=1)["jobs"][:1]
    out = cli("submit", "-", stdin=text.encode())
    assert out.returncode == 2, out.stdout
    assert b"Traceback" not in out.stderr
    said = out.stderr.decode()
    assert said.splitlines()[-1].startswith(("anycard: nothing was submitted", "  ")) or "anycard:" in said
    with cli.client() as client:
        assert client.jobs(limit=1)["jobs"][:1] == before


def test_ten_thousand_items(cli):
    job = cli.submit("name: many\nrun: 'true'\nanycard: {foreach: {count: 10000}, parallel: 2}\n")
    listed = cli.json("jobs", "--name", "many")["jobs"][0]
    assert listed["counts"]["items"] == 10_000
    with cli.client() as client:
        page = client.items(job, limit=100)
        assert [item["item"] for item in page["items"]] == list(range(100))
        assert len(list(client.all_items(job))) == 10_000
    assert cli("cancel", str(job)).returncode == 0
    done = cli.over(job)
    assert done["counts"]["queued"] == done["counts"]["running"] == 0
    assert sum(done["counts"].values()) == 20_000
    assert cli("job", str(job)).returncode == 0
