"""Programs that misbehave: not there, too loud, deaf to signals, leaving children, over their limits, not UTF-8."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from called import until

GIB = 1024**3


def running(cli, job: int, item: int = 0) -> dict:
    """The item once its program runs."""

    def look():
        with cli.client() as client:
            found = next(one for one in client.all_items(job) if one["item"] == item)
        return found if found["state"] == "running" else None

    return until(look)


def pid_from(path: Path) -> int:
    return int(until(lambda: path.exists() and path.read_text().strip()))


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program", "/no/such/program", "/etc/passwd", "/tmp"])
def test_a_program_that_cannot_be_started_is_named(cli, name):
    done = cli.over(cli.json("submit", "--", name)["jobs"][0]["id"])
    item = done["items"][0]
    assert (done["state"], item["end_reason"], item["exit_code"]) == ("failed", "start-failed", None)
    assert name in item["reason"]
    assert cli("run", "--", name).returncode == 127


@pytest.mark.slow
def test_a_gigabyte_of_output_costs_the_daemon_nothing(cli):
    daemon = psutil.Process(cli.json("status")["pid"])
    before = daemon.memory_full_info().uss
    script = f"yes 'a line of output, as programs print them' | head -c {GIB}; echo; echo the last line"
    job = cli.submit(f'run: "{script}"')
    most = before
    while cli.json("job", str(job))["state"] in ("queued", "running"):
        most = max(most, daemon.memory_full_info().uss)
    assert cli.over(job)["state"] == "succeeded"
    read = daemon.io_counters().read_chars
    tail = cli("logs", str(job), "--tail", "2").stdout
    assert tail.splitlines()[0] == b"the last line"
    assert tail.splitlines()[1].startswith(b"[anycard] ended ")
    assert daemon.io_counters().read_chars - read < 16 * 1024**2, "the whole log was read for its last lines"
    reader = cli.start("logs", str(job), stdout=-1)
    assert sum(len(chunk) for chunk in iter(lambda: reader.stdout.read(1 << 20), b"")) > GIB
    assert reader.wait() == 0
    most = max(most, daemon.memory_full_info().uss)
    assert most - before < 48 * 1024**2
    Path(cli.json("job", str(job))["items"][0]["log"]).unlink()


def test_children_left_behind_are_ended_and_said(cli):
    escapes = "import os,time\nopen('left','w').write(str(os.getpid()))\nos.environ.clear()\ntime.sleep(600)\n"
    (cli.folder / "escape.py").write_text(escapes)
    (cli.folder / "left").unlink(missing_ok=True)
    job = cli.submit(
        f"run: |\n  setsid nohup {sys.executable} escape.py >/dev/null 2>&1 &\n  while [ ! -s left ]; do sleep 0.05; done\n"
    )
    assert cli.over(job)["state"] == "succeeded"
    left = int((cli.folder / "left").read_text())
    assert not psutil.pid_exists(left)
    end = next(event for event in cli.events(job) if event["kind"] == "item.ended")
    assert end["data"]["left_behind"] == 1
    assert b"left behind" in cli("logs", str(job)).stdout


def test_one_that_ignores_the_stop_signal_is_killed_after_its_grace(cli):
    (cli.folder / "deaf").unlink(missing_ok=True)
    job = cli.submit(
        "anycard: {stop_grace: 0.5s}\nrun: |\n  trap '' TERM INT HUP\n  echo $$ >deaf\n  while :; do sleep 0.2; done\n"
    )
    pid = pid_from(cli.folder / "deaf")
    running(cli, job)
    assert cli("cancel", str(job)).returncode == 0
    done = cli.over(job)
    assert (done["state"], done["items"][0]["end_reason"]) == ("cancelled", "cancelled")
    assert not psutil.pid_exists(pid)


def test_one_that_hears_the_stop_signal_may_clean_up(cli):
    job = cli.submit("run: |\n  trap 'echo cleaned up; exit 0' TERM\n  echo ready\n  while :; do sleep 0.05; done\n")
    until(lambda: b"ready" in cli.log(job))
    cli("cancel", str(job))
    assert cli.over(job)["items"][0]["end_reason"] in ("succeeded", "cancelled")
    assert b"cleaned up" in cli.log(job)


def test_time_limit(cli):
    done = cli.ran("anycard: {time_limit: 0.3s, stop_grace: 0.2s}\nrun: sleep 600")
    item = done["items"][0]
    assert (done["state"], item["end_reason"], item["reason"]) == (
        "failed",
        "time-limit",
        "ran longer than its time limit",
    )
    by_option = cli.json("submit", "--time-limit", "0.3s", "--", "sleep", "600")["jobs"][0]["id"]
    assert cli.over(by_option)["items"][0]["end_reason"] == "time-limit"


HUNGRY = f"{sys.executable} -c 'x = []\nwhile True: x.append(bytearray(b\"1\" * 4000000))'"


def test_more_memory_than_asked_is_named(cli):
    done = cli.ran(f"resources: {{memory: 100MB}}\nrun: |\n  {HUNGRY.replace(chr(10), chr(10) + '  ')}\n")
    item = done["items"][0]
    assert (done["state"], item["end_reason"]) == ("failed", "out-of-memory")
    assert "memory" in item["reason"]


def test_the_parent_shell_of_a_hungry_program_may_be_the_one_that_goes_on(cli, as_root):
    """The kernel kills the child; the shell that started it sees that, and the item is out of memory all the same."""
    text = HUNGRY.replace("\n", "\n  ")
    done = cli.ran(f"resources: {{memory: 100MB}}\nrun: |\n  {text} || echo the child is gone\n  exit 9\n")
    assert done["items"][0]["end_reason"] == "out-of-memory"
    assert b"the child is gone" in cli.log(done["id"])


def test_a_shim_killed_with_its_program_is_still_an_end(cli):
    """As the kernel's out-of-memory killer may pick the shell around the program."""
    (cli.folder / "shell").unlink(missing_ok=True)
    job = cli.submit("run: |\n  echo $PPID >shell\n  exec sleep 600\n")
    os.kill(pid_from(cli.folder / "shell"), signal.SIGKILL)
    done = cli.over(job)
    assert done["state"] == "failed"
    assert done["items"][0]["end_reason"] == "program-error"
    assert "SIGKILL" in done["items"][0]["reason"]


def test_output_may_be_any_bytes(cli):
    job = cli.ran(
        "run: |\n  printf '\\377\\376\\000\\001\\033]0;x\\007\\r\\n'\n  printf '\\303\\050no newline'\n  exit 3\n"
    )
    assert cli("logs", str(job["id"])).stdout.splitlines(keepends=True)[1:3] == [
        b"\xff\xfe\x00\x01\x1b]0;x\x07\r\n",
        b"\xc3(no newline\n",
    ]
    assert "no newline" in job["items"][0]["reason"]
    shown = cli("job", str(job["id"])).stdout
    assert b"\x1b" not in shown
    assert shown.decode()  # it is UTF-8


def test_ends_of_a_program_that_fails(cli):
    done = cli.ran(
        "run: |\n  case $ANYCARD_ITEM in\n  0) exit 7;;\n  1) kill -SEGV $$;;\n  2) echo 'no label in row 3' >&2; exit 65;;\n"
        "  3) echo 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1;;\n"
        "  4) echo MemoryError; exit 1;;\n  5) echo 'GPU is lost' >log; exit 0;;\n  esac\nanycard: {foreach: {count: 6}}\n"
    )
    ends = [(item["end_reason"], item["exit_code"]) for item in done["items"]]
    assert ends == [
        ("program-error", 7),
        ("program-error", 139),
        ("bad-input", 65),
        ("out-of-memory", 1),
        ("out-of-memory", 1),
        ("succeeded", 0),
    ]
    assert "SIGSEGV" in done["items"][1]["reason"]
    assert done["items"][2]["reason"] == "bad input: no label in row 3"


@pytest.mark.slow
def test_release_idle_frees_what_does_nothing(cli):
    began = time.monotonic()
    done = cli.ran(
        "anycard: {release: {idle: 1s}, stop_grace: 0.2s, foreach: {count: 2}}\n"
        "run: |\n  [ $ANYCARD_ITEM = 0 ] && exec sleep 600\n"
        f"  exec {sys.executable} -c 'import time; t=time.time()\nwhile time.time() < t + 12: pass'\n".replace(
            "\nw", "\n  w"
        )
    )
    assert time.monotonic() - began < 120
    assert [item["end_reason"] for item in done["items"]] == ["idle-released", "succeeded"]


def test_release_max_counts_from_the_first_grant(cli):
    done = cli.ran("anycard: {release: {max: 1s}, stop_grace: 0.2s, parallel: 1, foreach: {count: 3}}\nrun: sleep 600")
    assert {item["end_reason"] for item in done["items"]} == {"max-released"}
    assert done["items"][2]["attempts"] == 0
