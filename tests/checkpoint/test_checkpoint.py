"""The helper as a program uses it: in this process for what is kept, in a child for signals and crashes."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anycard
from anycard import checkpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kept" / "7"
    monkeypatch.setenv("ANYCARD_CHECKPOINT_DIR", str(path))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(program: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    given_env = {**os.environ, **env}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=given_env, capture_output=True, text=True, timeout=60
    )


def test_nothing_saved_gives_the_default(folder: Path) -> None:
    assert checkpoint.load() is None
    assert checkpoint.load({"epoch": 0}) == {"epoch": 0}


def test_what_was_saved_last_is_loaded_and_the_one_before_is_kept(folder: Path) -> None:
    for epoch in range(12):
        checkpoint.save({"epoch": epoch})
    assert checkpoint.load() == {"epoch": 11}
    assert [name.split(".")[1] for name in names(folder)] == ["00000011", "00000012"]
    assert folder.stat().st_mode & 0o777 == 0o700


@settings(max_examples=40)
@given(cut=st.integers(0, 400), garbage=st.binary(max_size=20))
def test_a_torn_file_falls_back_to_the_one_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYCARD_CHECKPOINT_DIR", str(tmp_path_factory.mktemp("kept")))
        checkpoint.save("first")
        path = checkpoint.save(list(range(300)))
        whole = path.read_bytes()
        torn = whole[:cut] + garbage
        path.write_bytes(torn)
        assert checkpoint.load() == (list(range(300)) if torn == whole else "first")


def test_all_damaged_starts_from_the_beginning_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        checkpoint.save(number).write_bytes(b"")
    assert checkpoint.load("fresh") == "fresh"
    assert "starting from the beginning" in capsys.readouterr().err
    checkpoint.save("again")
    assert checkpoint.load() == "again"


def test_a_save_that_fails_leaves_the_last_one(folder: Path) -> None:
    checkpoint.save("good")

    def breaks(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        checkpoint.save("bad", writer=breaks)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        checkpoint.save(lambda: None)
    assert checkpoint.load() == "good"
    assert len(names(folder)) == 1


def test_a_writer_and_a_reader_choose_the_format(folder: Path) -> None:
    def write(state: object, path: Path) -> None:
        path.write_text(json.dumps(state))

    path = checkpoint.save({"w": [1.5]}, name="model.json", writer=write)
    assert json.loads(path.read_text()) == {"w": [1.5]}
    assert checkpoint.load(name="model.json", reader=lambda path: json.loads(path.read_text())) == {"w": [1.5]}
    with pytest.raises(FileNotFoundError):
        checkpoint.save(1, writer=lambda state, path: None)


def test_names_keep_apart(folder: Path) -> None:
    checkpoint.save(1, name="rank")
    checkpoint.save(2, name="rank.1")
    assert (checkpoint.load(name="rank"), checkpoint.load(name="rank.1"), checkpoint.load()) == (1, 2, None)
    for wrong in ("../x", "a/b", "", ".hidden", "a\n"):
        with pytest.raises(ValueError, match="a checkpoint's name"):
            checkpoint.save(1, name=wrong)


def test_without_the_platform_the_folder_is_here(tmp_path: Path) -> None:
    program = "from anycard import checkpoint as c; c.save(41); c.progress(1, 1); print(c.load() + 1)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANYCARD_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_a_program_killed_while_it_saves_loses_at_most_the_last_save(tmp_path: Path) -> None:
    """It is killed by kill -9 in the middle of writing, again and again; each attempt goes on from a whole checkpoint."""
    program = """
import os, signal
from anycard import checkpoint
state = checkpoint.load({"step": 0})
def write_half_then_die(state, path):
    path.write_bytes(b"x" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
checkpoint.save({"step": state["step"] + 1})
checkpoint.save(state, writer=write_half_then_die)
"""
    folder = tmp_path / "kept"
    for step in range(1, 5):
        assert run(program, tmp_path, ANYCARD_CHECKPOINT_DIR=str(folder)).returncode == -signal.SIGKILL
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ANYCARD_CHECKPOINT_DIR", str(folder))
            assert checkpoint.load() == {"step": step}
    assert len(names(folder)) == 3, "two checkpoints and what the last kill cut short"


def test_should_stop_hears_sigterm_and_the_program_ends_by_itself(tmp_path: Path) -> None:
    program = """
import os, signal
from anycard import checkpoint
print(checkpoint.should_stop())
os.kill(os.getpid(), signal.SIGTERM)
print(checkpoint.should_stop())
"""
    done = run(program, tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\nTrue\n")


def test_until_should_stop_is_asked_sigterm_ends_the_program(tmp_path: Path) -> None:
    program = (
        "import os, signal; from anycard import checkpoint; checkpoint.load(); os.kill(os.getpid(), signal.SIGTERM)"
    )
    assert run(program, tmp_path).returncode == -signal.SIGTERM


def test_the_programs_own_handler_is_still_called(tmp_path: Path) -> None:
    program = """
import os, signal
from anycard import checkpoint
signal.signal(signal.SIGTERM, lambda number, frame: print("own"))
checkpoint.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
print(checkpoint.should_stop())
"""
    assert run(program, tmp_path).stdout == "own\nTrue\n"


def test_progress_is_one_whole_file_and_the_last_step_is_always_written(folder: Path) -> None:
    for done in range(101):
        checkpoint.progress(done, 100, f"step {done}")
    said = json.loads((folder / "progress.json").read_text())
    assert (said["done"], said["total"], said["message"]) == (100, 100, "step 100")
    assert names(folder) == ["progress.json"]


def test_bad_input_says_why_and_exits_65(tmp_path: Path) -> None:
    done = run("import anycard; anycard.bad_input('row 3: no number')", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (65, "", "bad input: row 3: no number\n")


def test_the_package_has_nothing_else_by_that_way() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bad_inputs'"):
        anycard.bad_inputs


def test_the_helper_brings_nothing_but_the_standard_library(tmp_path: Path) -> None:
    program = """
import sys
before = set(sys.modules)
from anycard import checkpoint
import anycard; anycard.bad_input
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in new if name != "anycard" and name not in sys.stdlib_module_names))
print("asyncio" in sys.modules, "pickle" in sys.modules, "typing_extensions" in sys.modules)
"""
    assert run(program, tmp_path).stdout == "[]\nFalse False False\n"


def test_another_thread_can_ask_once_the_main_one_listens(tmp_path: Path) -> None:
    heard: list[bool] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        checkpoint.should_stop()
        thread = threading.Thread(target=lambda: heard.append(checkpoint.should_stop()))
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGTERM, before)
        checkpoint._watching = False
    assert heard == [False]
