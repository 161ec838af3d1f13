from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from anycard.host.host import CommandResult
from anycard.host.live import LiveHost

HOST = LiveHost()


def python(program: str, timeout_s: float = 30) -> CommandResult:
    return HOST.run((sys.executable, "-c", program), timeout_s)


def test_a_program_that_ends() -> None:
    result = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (result.exit_code, result.stdout, result.stderr, result.timed_out) == (3, b"out\n", b"err\n", False)


def test_messages_are_english_and_there_is_no_input() -> None:
    result = python("import os, sys; print(os.environ['LC_ALL'], repr(sys.stdin.read()))")
    assert result.text == "C ''\n"


def test_what_is_missing_or_may_not_run_is_a_value(tmp_path: Path) -> None:
    assert HOST.run(("no-such-program-here",)).error == "ENOENT"
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    assert HOST.run((str(plain),)).error == "EACCES"


def test_arguments_reach_the_program_as_they_are() -> None:
    result = HOST.run((sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id) 'x' ; *"))
    assert result.text == "$(id) 'x' ; *\n"


def test_a_hanging_program_is_ended_and_what_it_said_is_kept(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    program = f"import time, os; print('so far', flush=True); open({str(alive)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    result = python(program, timeout_s=3)
    assert (result.timed_out, result.exit_code) == (True, None)
    if alive.exists():  # a very busy machine may not have come so far
        assert result.stdout == b"so far\n"
        with pytest.raises(ProcessLookupError):
            os.kill(int(alive.read_text()), 0)


def test_children_left_behind_do_not_hold_us_up(tmp_path: Path) -> None:
    child = tmp_path / "child"
    result = HOST.run(("sh", "-c", f"sleep 600 & echo $! > {child}; echo done; exit 7"))
    assert (result.exit_code, result.stdout) == (7, b"done\n")
    with pytest.raises(ProcessLookupError):
        wait_for_end(int(child.read_text()))


def wait_for_end(pid: int) -> None:
    """Raises ProcessLookupError once the process is dead, reaped by init or not; returns when it lives on."""
    for _ in range(600):
        os.kill(pid, 0)
        state = HOST.read(f"/proc/{pid}/stat").text
        if state is None or state.rpartition(")")[2].split()[0] == "Z":
            raise ProcessLookupError
        time.sleep(0.05)


def test_killed_by_a_signal_is_128_and_its_number() -> None:
    assert python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").exit_code == 137


def test_endless_output_is_cut() -> None:
    result = python("import os\nfor _ in range(80): os.write(1, b'x' * 65536)")
    assert (result.exit_code, result.truncated, len(result.stdout)) == (0, True, 4 << 20)


def test_reading(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    assert HOST.read(str(file)).data == b"0123456789"
    cut = HOST.read(str(file), limit_bytes=4)
    assert (cut.data, cut.truncated) == (b"0123", True)
    exact = HOST.read(str(file), limit_bytes=10)
    assert (exact.data, exact.truncated) == (b"0123456789", False)
    assert HOST.read(str(tmp_path / "none")).error == "ENOENT"
    assert HOST.read(str(tmp_path)).error == "EISDIR"


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert HOST.read(str(tmp_path / "fifo")).data == b""


def test_folders_links_and_nodes(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").symlink_to("b")
    assert HOST.list_folder(str(tmp_path)) == ("a", "b")
    assert HOST.list_folder(str(tmp_path / "none")) is None
    assert (HOST.readlink(str(tmp_path / "a")), HOST.readlink(str(tmp_path / "b"))) == ("b", None)
    assert HOST.exists(str(tmp_path / "b")) and not HOST.exists(str(tmp_path / "none"))
    null = HOST.node("/dev/null")
    assert null is not None and (null.major, null.minor, null.owner) == (1, 3, "root")
    assert HOST.node(str(tmp_path / "none")) is None


def test_processes() -> None:
    me = HOST.process(os.getpid())
    assert me is not None and me.user and "python" in (me.command or "")
    assert HOST.process(4194305) is None  # beyond the largest pid


def test_libraries_answer_in_plain_json() -> None:
    system, packages = HOST.ask("system"), HOST.ask("python")
    assert system["processor_count"] >= 1 and system["memory_total_bytes"] > 0
    assert packages["packages"]["nvidia-ml-py"]
