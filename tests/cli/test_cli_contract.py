"""Exit codes, --json, and what goes to stdout and stderr, against a real daemon."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest
from called import until

PYTHON = "python3"


def test_run_json_is_one_document_and_returns_inside_a_command_substitution(fresh):
    # The daemon is started by this very call, with stdout a pipe: had it kept the pipe, this would never return.
    out = fresh("run", "--json", "--", PYTHON, "-c", "print(6*7)")
    document = json.loads(out.stdout)
    assert out.returncode == 0
    assert document["schema"] == "anycard.run/1"
    assert document["state"] == "succeeded"
    assert [item["exit_code"] for item in document["items"]] == [0]
    assert b"42" in fresh("logs", str(document["id"])).stdout.split(b"\n")


def test_run_prints_what_the_program_said_and_nothing_else(cli):
    out = cli("run", "--", "sh", "-c", "printf 'a\\377\\0b\\n'; echo '[anycard] x'; printf end")
    assert out.stdout.rstrip(b"\n") == b"a\xff\0b\n[anycard] x\nend"
    assert out.returncode == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["no-such-program-here"], 127), (["true"], 0)],
)
def test_run_of_a_command_ends_with_its_own_code(cli, command, code):
    assert cli("run", "--", *command).returncode == code
    assert cli("run", "--json", "--", *command).returncode == code


def test_options_of_the_command_are_the_commands(cli):
    out = cli(
        "run", "--", PYTHON, "-c", "import sys; print(sys.argv[1:])", "--home", "x", "--json", "--", "--lang", "zh"
    )
    assert out.stdout == b"['--home', 'x', '--json', '--', '--lang', 'zh']\n"


def test_batch_is_followed_in_plain_lines(cli):
    file = cli.file(
        "batch.yaml",
        "name: batch\nrun: '[ $ANYCARD_ITEM != 2 ]'\nanycard: {foreach: {count: 4}}\n",
    )
    out = cli("run", file)
    lines = out.stdout.decode().splitlines()
    assert out.returncode == 1
    assert b"\x1b" not in out.stdout + out.stderr
    assert sum(bool(re.match(r"\[\d/4\] item \d succeeded", line)) for line in lines) == 3
    assert sum(bool(re.match(r"\[\d/4\] item 2 failed", line)) for line in lines) == 1
    assert any(line.endswith("partly-failed") for line in lines)
    assert any("anycard retry" in line for line in lines)

    job = cli.json("job", "batch")
    assert (job["schema"], job["state"]) == ("anycard.job/1", "partly-failed")
    assert [item["state"] for item in job["items"]] == ["succeeded", "succeeded", "failed", "succeeded"]

    shown = cli("job", "batch").stdout.decode().splitlines()
    rows = [line.split()[:2] for line in shown if re.match(r"\s+\d\s", line)]
    assert rows[0] == ["2", "failed"]  # failed first

    ambiguous = cli("logs", "batch")
    assert ambiguous.returncode == 2
    assert b"4 items" in ambiguous.stderr
    assert b"anycard logs %d 2 (failed: 2)" % job["id"] in ambiguous.stderr  # what most are looking for
    assert cli("logs", "batch", "9").returncode == 3
    assert cli("retry", "batch").returncode == 2
    assert cli("retry", "batch", "--failed").returncode == 0
    assert cli("wait", "batch").returncode == 1
    assert cli.json("job", "batch")["items"][2]["attempts"] == 2


def test_a_job_that_is_cancelled_before_it_starts(cli):
    job = str(cli.json("submit", "--hold", "--name", "never", "--", "sleep", "600")["jobs"][0]["id"])
    assert cli("cancel", job).stdout.decode() == f"job {job} (never): cancelled\n"
    assert cli.json("jobs", "--state", "held", "--name", "never")["jobs"] == []
    shown = cli("job", job).stdout.decode()
    assert "took" not in shown
    assert "why:" not in shown  # "cancelled: cancelled" says nothing


def test_cancelling_what_runs_says_that_it_is_being_stopped(cli):
    job = str(
        cli.json("submit", "--name", "stubborn", "--", "sh", "-c", "trap '' TERM; echo up; sleep 600")["jobs"][0]["id"]
    )
    until(lambda: b"up\n" in cli("logs", job).stdout)
    assert cli("cancel", job).stdout.decode() == f"job {job} (stubborn): stopping\n"


def test_jobs_of_a_pipeline_are_all_named_before_the_first_is_followed(cli):
    file = cli.file("pipe.yaml", "name: pipe\nrun: echo one\n---\nrun: echo two\n")
    out = cli.start("run", file, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).communicate(timeout=120)[0]
    assert [line.split()[-1] if b"submitted" in line else line for line in out.splitlines()][2:] == [b"one", b"two"]


def test_job_on_standard_input_and_variables(cli):
    file = "run: echo $WORD $OTHER\nenvs: {WORD: null, OTHER: b}\n"
    given = cli("run", "-", "--env", "WORD=a", stdin=file.encode())
    assert given.stdout == b"a b\n"
    passed = cli("run", "-", "-e", "WORD", stdin=file.encode(), env={"WORD": "from here"})
    assert passed.stdout == b"from here b\n"
    missing = cli("run", "-", stdin=file.encode())
    assert missing.returncode == 2
    assert b"WORD" in missing.stderr


def test_faults_of_a_job_file_are_said_with_their_place_and_nothing_is_submitted(cli):
    file = cli.file("bad.yaml", "nam: x\nrun: true\nanycard:\n  priority: high\n")
    before = len(cli.json("jobs")["jobs"])
    out = cli("submit", file, "--json")
    document = json.loads(out.stdout)
    assert out.returncode == 2
    assert document["schema"] == "anycard.error/1"
    assert {(fault["line"], fault["column"]) for fault in document["faults"]} == {(1, 1), (4, 13)}
    said = out.stderr.decode().splitlines()
    assert said[0].startswith(f"{file}:1:1: ")
    assert said[0].endswith("(nearest: name)")
    assert said[1].startswith(f"{file}:4:13: ")
    assert len(cli.json("jobs")["jobs"]) == before


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (("job", "no-such-job"), 3, "no-such-job"),
        (("run", "no-such-file.yaml"), 3, "no-such-file.yaml"),
        (("run",), 2, "nothing to run"),
        (("run", ".", "--", "true"), 2, "not both"),
        (("run", "."), 2, "folder"),
        (("jobs", "--state", "no-such-state"), 2, "no-such-state"),
        (("jobs", "--stat", "x"), 2, "--state"),
        (("jbs",), 2, "jobs"),
        (("stop",), 2, "anycard down"),
        (("run", "python3", "mean.py", "7"), 2, "anycard run -- python3 mean.py 7"),
        (("submit", "echo", "hi"), 2, "anycard submit -- echo hi"),
        (("run", "python3", "mean.py", "--flag=1"), 2, "anycard run -- python3 mean.py --flag=1"),
        (("submit", "--cpus", "2", "sh", "-c", "echo hi"), 2, "anycard submit --cpus 2 -- sh -c 'echo hi'"),
        (("run", "--nam", "x", "python3"), 2, "did you mean --name?"),
        (("run", "job.yaml", "--cpu", "2"), 2, "did you mean --cpus?"),
        (("wait",), 2, "JOB..."),
        (("submit", "--cpus", "100000", "--", "true"), 2, "CPU"),
        (("submit", "--cpus", "many", "--", "true"), 2, "--cpus"),
        (("submit", "-e", "1=2", "--", "true"), 2, "NAME=VALUE"),
        (("prune", "--older-than", "soon"), 2, "soon"),
    ],
)
def test_a_mistake_is_answered_in_words(cli, argv, code, word):
    out = cli(*argv)
    assert out.returncode == code, out.stderr
    assert word in out.stderr.decode()
    assert b"Traceback" not in out.stderr
    assert out.stdout == b""


@pytest.mark.parametrize(
    ("name", "begins", "hint"),
    [
        ("train me.py", "import sys\n", "anycard run -- python3 'train me.py'"),
        ("go.sh", "echo hi\n", "anycard run -- sh go.sh"),
        ("simulate", "#!/usr/bin/env python3\n", "anycard run -- ./simulate"),
    ],
)
def test_a_program_in_the_place_of_a_job_file_is_told_apart(cli, name, begins, hint):
    cli.file(name, begins)
    out = cli("run", name)
    assert out.returncode == 2
    assert "is a program, not a job file" in out.stderr.decode()
    assert hint in out.stderr.decode()


def test_a_job_file_may_begin_as_a_script_does(cli):
    file = cli.file("self.yaml", "#!/usr/bin/env -S anycard run\nrun: echo itself\n")
    assert cli("run", file).stdout == b"itself\n"


def test_an_error_is_one_json_document_too(cli):
    out = cli("job", "no-such-job", "--json")
    assert out.returncode == 3
    assert json.loads(out.stdout)["error"]["code"] == "not-found"


def test_hold_release_cancel_and_wait(cli):
    job = str(cli.json("submit", "--hold", "--name", "sleeper", "--", "sleep", "600")["jobs"][0]["id"])
    assert b"held" in cli("job", job).stdout
    assert [found["name"] for found in cli.json("jobs", "--state", "held")["jobs"]] == ["sleeper"]
    waited = cli("wait", job, "--timeout", "0.2s", "--json")
    assert waited.returncode == 124
    assert json.loads(waited.stdout)["timed_out"] is True
    assert cli.json("release", job)["jobs"][0]["held"] is False
    assert cli.json("hold", job)["jobs"][0]["held"] is True
    assert cli("cancel", job).returncode == 0
    done = cli("wait", job, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["jobs"][0]["state"] == "cancelled"
    assert [found["id"] for found in cli.json("jobs", "--name", "sleeper", "--state", "cancelled")["jobs"]] == [
        int(job)
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_without_a_terminal_leaves_the_job_running(cli, number):
    run = cli.start("run", "--", "sh", "-c", "echo begun; sleep 600", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.readline() == b"begun\n"
    run.send_signal(number)
    _out, said = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    job = re.search(rb"job (\d+) goes on", said).group(1).decode()
    assert cli.json("job", job)["state"] == "running"
    cli("cancel", job)


def test_pages(cli):
    for _ in range(3):
        cli("submit", "--hold", "--name", "paged", "--", "true")
    first = cli.json("jobs", "--name", "paged", "--limit", "2")
    second = cli.json("jobs", "--name", "paged", "--limit", "2", "--cursor", str(first["next_cursor"]))
    assert [len(first["jobs"]), len(second["jobs"])] == [2, 1]
    assert b"--cursor" in cli("jobs", "--name", "paged", "--limit", "2").stderr


def test_reasons_cannot_steer_the_terminal(cli):
    out = cli("run", "--", "sh", "-c", "printf '\\033]0;owned\\007\\033[31mError: bad\\n' >&2; exit 3")
    assert b"\x1b" in out.stdout  # the log is raw by intent
    assert out.returncode == 3
    assert b"\x1b" not in out.stderr
    job = re.search(rb"job (\d+)", out.stderr).group(1).decode()
    assert b"\x1b" not in cli("job", job).stdout + cli("jobs").stdout


def test_a_reader_that_leaves_is_no_fault(cli):
    jobs = cli.start("logs", str(_talker(cli)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    jobs.stdout.read(10)
    jobs.stdout.close()
    assert jobs.wait(timeout=60) == 128 + signal.SIGPIPE
    assert jobs.stderr.read() == b""
    jobs.stderr.close()


def _talker(cli) -> int:
    job = cli.json("submit", "--", PYTHON, "-c", "print('x' * 2_000_000)")["jobs"][0]["id"]
    assert cli("wait", str(job)).returncode == 0
    return job


def test_backup_prune_status_cards_top(cli):
    assert cli.json("backup", "copy.db")["bytes"] == (cli.folder / "copy.db").stat().st_size
    assert cli.json("prune", "--dry-run")["dry_run"] is True
    status = cli.json("status")
    assert (status["running"], status["home"]) == (True, str(cli.home))
    cards = cli.json("cards")
    assert [card["id"] for card in cards["cards"] if card["vendor"] == "cpu"] == ["cpu"]
    assert b"CARD" in cli("top", "--once").stdout


def test_status_starts_nothing_and_the_others_may_be_told_not_to(fresh):
    out = fresh("status", "--json")
    assert out.returncode == 3
    assert json.loads(out.stdout)["running"] is False
    refused = fresh("jobs", "--no-start")
    assert refused.returncode == 125
    assert b"anycard up -d" in refused.stderr
    assert not fresh.home.exists()
    assert fresh.json("cards")["cards"]  # looked at without a daemon
    assert not fresh.home.exists()


def test_up_and_down(fresh):
    first = fresh.json("up", "-d")
    assert fresh.json("up", "-d")["pid"] == first["pid"]
    second = fresh("up")
    assert second.returncode == 2
    assert str(first["pid"]).encode() in second.stderr
    assert fresh.json("down")["was_running"] is True
    assert fresh.json("down")["was_running"] is False


def test_a_daemon_that_cannot_start_is_explained(fresh):
    fresh.home.mkdir()
    (fresh.home / "anycard.db").write_text("this is no database, but long enough to be looked at " * 100)
    out = fresh("jobs")
    assert out.returncode == 125
    assert b"daemon.log" in out.stderr
    assert b"anycard.db" in out.stderr
    assert b"Traceback" not in out.stderr


def test_many_verbs_at_once_start_one_daemon(fresh):
    calls = [fresh.start("jobs", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    ends = [(call.communicate(timeout=120), call.returncode) for call in calls]
    assert [code for _out, code in ends] == [0, 0, 0], ends


def test_capture(fresh):
    told = fresh.json("capture", "out.tar.gz")
    assert (fresh.folder / "out.tar.gz").stat().st_size == told["size_bytes"]
    assert fresh("capture", "no/such/folder/out.tar.gz").returncode == 2


def test_a_followed_job_outlives_its_daemon(fresh):
    go = fresh.folder / "go"
    script = f"for n in 1 2 3; do echo line $n; done; while [ ! -e {go} ]; do sleep 0.1; done; echo last"
    assert fresh("up", "-d").returncode == 0
    run = fresh.start("run", "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert [run.stdout.readline() for _ in range(3)] == [b"line 1\n", b"line 2\n", b"line 3\n"]
    os.kill(fresh.json("status")["pid"], signal.SIGKILL)
    assert fresh("up", "-d").returncode == 0
    go.touch()
    rest, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert rest == b"last\n"  # nothing twice, nothing lost
    assert b"the daemon is away" in said
