"""The digits example, program by program: its data are what its README says, and a training that is stopped ends where one that was
left alone ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "examples" / "digits"
TRAIN = HERE / "train.py"


def environment(folder: Path, **more: str) -> dict[str, str]:
    output = folder / "output"
    output.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "ANYCARD_OUTPUT_DIR": str(output),
        "ANYCARD_CHECKPOINT_DIR": str(folder / "checkpoint"),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def train(part: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = environment(folder, ANYCARD_FILE=f"data/{part}")
    return subprocess.run([sys.executable, str(TRAIN)], cwd=HERE, env=env, capture_output=True, text=True, timeout=120)


def test_the_data_are_what_the_readme_says() -> None:
    parts = sorted((HERE / "data").glob("part-*.csv"))
    assert len(parts) == 9
    rows = 0
    for part in parts:
        whole = [line for line in part.read_bytes().split(b"\n") if re.fullmatch(rb"(\d+,){64}\d", line)]
        assert (len(whole) in (199, 200)) == (part.name != "part-7.csv")
        rows += len(whole)
    assert rows == 1797 - 200 + 113
    assert b"\0" in (HERE / "data" / "part-7.csv").read_bytes()


def test_the_damaged_part_is_bad_input_and_says_where(tmp_path: Path) -> None:
    done = train("part-7.csv", tmp_path)
    assert done.returncode == 65
    assert done.stderr == "bad input: data/part-7.csv, row 114: 28 numbers, 65 expected\n"
    assert list((tmp_path / "output").iterdir()) == []


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_very_model_of_an_undisturbed_run(tmp_path: Path) -> None:
    undisturbed = train("part-3.csv", tmp_path / "undisturbed")
    assert undisturbed.returncode == 0, undisturbed.stderr
    folder = tmp_path / "disturbed"
    for number, exit_code in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        saved = last_checkpoint(folder)
        env = environment(folder, ANYCARD_FILE="data/part-3.csv")
        running = subprocess.Popen([sys.executable, str(TRAIN)], cwd=HERE, env=env, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while last_checkpoint(folder) < saved + 3:
            assert running.poll() is None, "it ended before it could be disturbed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        running.send_signal(number)
        assert running.wait(timeout=60) == exit_code
    saved = last_checkpoint(folder)
    last = train("part-3.csv", folder)
    assert last.returncode == 0, last.stderr
    assert f"going on after epoch {saved} " in last.stdout
    models = [json.loads((where / "output" / "model.json").read_text()) for where in (folder, tmp_path / "undisturbed")]
    assert models[0] == models[1]
    assert json.loads((folder / "output" / "metrics.json").read_text())["accuracy"] > 0.8


def last_checkpoint(folder: Path) -> int:
    return max((int(path.name.split(".")[1]) for path in (folder / "checkpoint").glob("checkpoint.*")), default=0)


def test_without_a_file_it_says_how_to_call_it(tmp_path: Path) -> None:
    env = environment(tmp_path)
    env.pop("ANYCARD_FILE", None)
    done = subprocess.run([sys.executable, str(TRAIN)], cwd=HERE, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "usage: train.py FILE.csv" in done.stderr


def test_a_python_that_anycard_was_not_installed_into_finds_it_in_the_checkout(tmp_path: Path) -> None:
    done = bare(TRAIN, tmp_path)
    assert (done.returncode, done.stderr.split(":")[0]) == (65, "bad input")


def test_where_there_is_no_anycard_it_says_so(tmp_path: Path) -> None:
    elsewhere = tmp_path / "train.py"
    elsewhere.write_bytes(TRAIN.read_bytes())
    done = bare(elsewhere, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs the anycard package" in done.stderr


def bare(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """``program`` by a Python that looks into no site-packages."""
    argv = [sys.executable, "-I", "-S", str(program), "data/part-7.csv"]
    return subprocess.run(argv, cwd=HERE, env=environment(folder), capture_output=True, text=True, timeout=60)
