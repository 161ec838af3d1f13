"""What a person at a terminal sees, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from called import until

_PATIENCE_S = 60  # how long a terminal may stay without what is awaited before the test counts as failed


class Terminal:
    """anycard on a pseudo-terminal of 100 columns: the keys are typed, the screen is bytes."""

    def __init__(self, cli, *argv: str) -> None:
        self.screen = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:  # the child: becomes anycard
            # Whoever started the tests in the background may have it ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir(cli.folder)
            os.execve(
                sys.executable,
                [sys.executable, "-m", "anycard.cli", *argv],
                {**cli.environ, "TERM": "xterm", "COLUMNS": "100"},
            )

    def until(self, awaited: bytes) -> bytes:
        deadline = time.monotonic() + _PATIENCE_S
        while awaited not in self.screen:
            assert time.monotonic() < deadline, self.screen
            assert self._read(), self.screen
        return self.screen

    def more(self) -> bool:
        """Reads what comes next; False at the end."""
        return self._read()

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        while self._read():
            pass
        _pid, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        ready, _w, _x = select.select([self._fd], [], [], _PATIENCE_S)
        assert ready, self.screen
        try:
            chunk = os.read(self._fd, 65536)
        except OSError:  # Linux says so at the end of a pseudo-terminal
            return False
        self.screen += chunk
        return bool(chunk)


@pytest.fixture
def sleeper(cli) -> Iterator[Terminal]:
    """A followed job that runs until somebody ends it."""
    terminal = Terminal(cli, "run", "--", "sh", "-c", "echo begun; sleep 600")
    terminal.until(b"begun")
    yield terminal


def _number(screen: bytes) -> str:
    return re.search(rb"job (\d+)", screen).group(1).decode()


def _state(cli, terminal: Terminal) -> str:
    return cli.json("job", _number(terminal.screen))["state"]


@pytest.mark.parametrize("answer", [b"\n", b"l\n", b"\x03"])
def test_ctrl_c_leaves_the_job_running_by_default(cli, sleeper, answer):
    sleeper.type(b"\x03")
    sleeper.until(b"[c]ancel")
    sleeper.type(answer)
    sleeper.until(b"goes on")
    assert sleeper.end() == 130
    assert _state(cli, sleeper) == "running"
    cli("cancel", _number(sleeper.screen))


def test_ctrl_c_cancels_when_told(cli, sleeper):
    sleeper.type(b"\x03")
    sleeper.until(b"[c]ancel")
    sleeper.type(b"c\n")
    assert sleeper.end() not in (0, 130)
    assert _state(cli, sleeper) == "cancelled"


def test_following_on_tells_each_line_once_and_nothing_while_the_question_stands(cli):
    step = f"echo line-$n; while [ ! -e {cli.folder}/go-$n ]; do sleep 0.1; done; touch {cli.folder}/went-$n"
    program = f"for n in 1 2 3; do {step}; done; echo done"
    terminal = Terminal(cli, "run", "--", "sh", "-c", program)
    terminal.until(b"line-1")
    terminal.type(b"\x03")
    terminal.until(b"[f]ollow on? ")
    (cli.folder / "go-1").touch()
    until((cli.folder / "went-1").exists)
    terminal.type(b"xyz\n")  # none of the answers: asked again
    terminal.until(b"xyz\r\n\r\njob")
    while terminal.screen.count(b"[f]ollow on? ") < 2:
        assert terminal.more(), terminal.screen
    assert b"line-2" not in terminal.screen
    terminal.type(b"f\n")
    terminal.until(b"line-2")
    (cli.folder / "go-2").touch()
    (cli.folder / "go-3").touch()
    assert terminal.end() == 0
    said = [line for line in terminal.screen.decode().splitlines() if line.startswith(("line-", "done"))]
    assert said == ["line-1", "line-2", "line-3", "done"]


def test_a_batch_is_drawn_live_and_ends_with_its_summary(cli):
    go = cli.folder / "go-batch"
    file = cli.file(
        "live.yaml",
        f"name: live\nrun: while [ ! -e {go} ]; do sleep 0.1; done; [ $ANYCARD_ITEM != 1 ]\nanycard: {{foreach: {{count: 2}}}}\n",
    )
    terminal = Terminal(cli, "run", file)
    terminal.until(b"Ctrl-C: leave it running")
    terminal.until(b"0/2")
    go.touch()
    assert terminal.end() == 1
    text = terminal.screen.decode()
    assert "2/2" in text
    assert "\x1b[?25h" in text  # the cursor is back
    assert text.rindex("partly-failed") > text.rindex("\x1b[?25h")  # the summary stays on the screen


def test_a_batch_may_be_cancelled_from_its_live_view(cli):
    file = cli.file("long.yaml", "name: long\nrun: sleep 600\nanycard: {foreach: {count: 3}, stop_grace: 1s}\n")
    terminal = Terminal(cli, "run", file)
    terminal.until(b"1 running" if os.cpu_count() == 1 else b" running")
    terminal.type(b"\x03")
    terminal.until(b"[c]ancel")
    terminal.type(b"c\n")
    assert terminal.end() == 1
    assert cli.json("job", "long")["state"] == "cancelled"


def test_top_is_redrawn_until_q(cli):
    terminal = Terminal(cli, "top", "--every", "0.2")
    terminal.until(b"CARD")
    terminal.until(b"anycard on")
    terminal.type(b"q")
    assert terminal.end() == 0
    assert terminal.screen.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in terminal.screen


def test_help_and_mistakes_in_chinese(cli):
    for argv, env in ((("--lang", "zh"), {}), ((), {"LC_ALL": "zh_CN.UTF-8"}), ((), {"ANYCARD_LANG": "zh"})):
        page = cli("--help", *argv, env=env).stdout.decode()
        assert "列出任务" in page
        assert "Usage" not in page
    assert "没有命令" in cli("jbs", "--lang", "zh").stderr.decode()
    assert "列出任务" not in cli("--help", "--lang", "en", env={"ANYCARD_LANG": "zh"}).stdout.decode()
    chinese = cli("run", "--help", "--lang=zh").stdout.decode()
    assert "任务文件" in chinese


def test_every_page_of_help_names_its_options_in_both_languages(cli):
    import anycard.cli.main as main

    for verb in main.VERBS:
        english = cli(verb, "--help")
        chinese = cli(verb, "--help", "--lang", "zh").stdout.decode()
        assert english.returncode == 0
        options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", english.stdout.decode(), re.MULTILINE)
        assert options
        assert options == re.findall(r"^  (?:-\w, )?(--[a-z-]+)", chinese, re.MULTILINE)
        assert re.search(r"[\u4e00-\u9fff]", chinese)
