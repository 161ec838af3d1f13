"""Called from odd places: closed and full streams, homes and addresses that cannot be. Never a traceback."""

from __future__ import annotations

import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from called import ANYCARD, Cli

from anycard.api.transport import Transport

FULL = Path("/dev/full")


def _shell(cli: Cli, line: str) -> subprocess.CompletedProcess[bytes]:
    script = f'anycard() {{ {shlex.join(ANYCARD)} "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", script], capture_output=True, timeout=120, cwd=cli.folder, env=cli.environ)


def test_what_the_caller_closed_is_not_missed(cli: Cli) -> None:
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = _shell(cli, f"anycard submit --hold --name closed -- true {closed}")
        assert (done.returncode, done.stderr) == (0, b""), closed
    assert [job["name"] for job in cli.json("jobs")["jobs"]] == ["closed"] * 4


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("verb", "lines"),
    [("jobs", 1), ("jobs --json", 1), ("--version", 1), ("--help", 1), ("job nope --json", 3), ("run -- echo hi", 2)],
)
def test_a_full_disk_behind_stdout_is_said_in_a_line(cli: Cli, verb: str, lines: int) -> None:
    cli("submit", "--hold", "--", "true")
    done = _shell(cli, f"anycard {verb} >{FULL}")
    *before, last = done.stderr.decode().splitlines()
    assert last == "anycard: the answer could not be written: No space left on device"
    assert (done.returncode, len(before)) == (141, lines - 1)


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("verb", "code", "out"),
    [
        ("jobs", 0, b""),
        ("job nope", 3, b""),
        ("no-such-verb", 2, b""),
        ("run -- sh -c 'echo hi; exit 5'", 5, b"hi\n"),
        ("run --json -- true", 0, b"{"),
    ],
)
def test_a_full_disk_behind_stderr_changes_neither_answer_nor_code(cli: Cli, verb: str, code: int, out: bytes) -> None:
    done = _shell(cli, f"anycard {verb} 2>{FULL}")
    assert done.returncode == code
    assert done.stdout.startswith(out)


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_nothing_at_all_can_be_written(cli: Cli) -> None:
    assert _shell(cli, f"anycard jobs --json >{FULL} 2>{FULL}").returncode == 141


@pytest.mark.parametrize("home", ["/etc/passwd", "/dev/null/x", "/tmp/" + "x" * 300])
def test_a_home_that_cannot_be_is_explained(cli: Cli, home: str) -> None:
    done = cli("jobs", env={"ANYCARD_HOME": home})
    first, hint = done.stderr.decode().splitlines()
    assert first.startswith(f"anycard: {home} cannot be written: ")
    assert "--home FOLDER" in hint
    assert done.returncode == 125


def test_a_home_of_a_long_name_is_a_home(tmp_path: Path) -> None:
    cli = Cli(tmp_path / ("x" * 200))
    try:
        assert cli("run", "--", "echo", "hi").stdout == b"hi\n"
        assert cli.home.is_dir()
    finally:
        cli("down", "--stop")


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999", "http://a b", "127.0.0.1:80"])
def test_an_address_that_is_none_is_a_mistake(cli: Cli, url: str) -> None:
    done = cli("jobs", env={"ANYCARD_URL": url})
    assert done.returncode == 2
    assert done.stderr.decode() == f"anycard: {url} is not an address like http://127.0.0.1:8080\n"


def test_the_name_of_a_machine_that_cannot_be_one(cli: Cli) -> None:
    done = cli("jobs", env={"ANYCARD_URL": f"http://{'x' * 100}"})
    assert done.returncode == 125
    assert b"cannot be reached" in done.stderr
    assert b"Traceback" not in done.stderr


def test_waiting_no_time_for_what_is_over_is_no_timeout(cli: Cli) -> None:
    cli("run", "--name", "over", "--", "true")
    cli("submit", "--name", "kept", "--hold", "--", "true")
    assert cli("wait", "--timeout", "0", "over").returncode == 0
    assert cli("wait", "--timeout", "0", "over", "kept").returncode == 124


def test_a_call_whose_work_grows_is_given_longer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(4)
        patience = {}
        for path in ("/v1/prune", "/v1/backup", "/v1/jobs"):
            transport = Transport("here", (tmp_path / "s",))
            transport.send("POST", path, {})
            assert transport._connection is not None
            patience[path] = transport._connection.sock.gettimeout()
            transport.close()
    assert patience["/v1/prune"] == patience["/v1/backup"] == 600
    assert patience["/v1/jobs"] < 600
