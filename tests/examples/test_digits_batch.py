"""`make run`, whole: the platform up, the batch with its one damaged file, the summary; and the same from a script's view."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB_FILE = ROOT / "examples" / "digits" / "job.yaml"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home of its own; what was started for it is ended."""
    path = tmp_path / "home"
    yield path
    call(path, "down")
    deadline = time.monotonic() + 20
    while (left := processes_of(path)) and time.monotonic() < deadline:
        for pid in left:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
    assert not left, f"still running: {left}"


def processes_of(home: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(home) in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def environment(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "ANYCARD_"))}
    return {**env, "ANYCARD_HOME": str(home), "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(home)}


def call(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).with_name("anycard")), *arguments]
    return subprocess.run(argv, cwd=ROOT, env=environment(home), capture_output=True, text=True, timeout=150)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the platform runs on POSIX systems: use WSL 2")
def test_make_run_ends_well_though_one_file_is_damaged(home: Path) -> None:
    show = [sys.executable, str(ROOT / "examples" / "digits" / "show.py")]
    done = subprocess.run(show, cwd=ROOT, env=environment(home), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.partition("What came of it")[2]
    rows = {line.split()[0]: line for line in summary.splitlines() if line.strip().startswith("part-")}
    assert sorted(rows) == [f"part-{number}.csv" for number in range(1, 10)]
    for name, row in rows.items():
        assert ("succeeded" in row, "%" in row, "bad input: data/part-7.csv, row 114" in row) == (
            (True, True, False) if name != "part-7.csv" else (False, False, True)
        )
    for said in ("outputs", "bin/anycard logs ", " --failed", "bin/anycard down"):
        assert said in summary


@pytest.mark.slow
def test_a_script_submits_waits_and_reads_what_became_of_each_item(home: Path) -> None:
    assert call(home, "up", "-d").returncode == 0
    submitted = call(home, "submit", "examples/digits/job.yaml", "--json")
    assert submitted.returncode == 0, submitted.stderr
    number = json.loads(submitted.stdout)["jobs"][0]["id"]
    assert call(home, "wait", str(number)).returncode == 1
    job: dict[str, Any] = json.loads(call(home, "job", str(number), "--json").stdout)
    assert job["state"] == "partly-failed"
    assert (job["counts"]["succeeded"], job["counts"]["failed"]) == (8, 1)
    (failed,) = [item for item in job["items"] if item["state"] == "failed"]
    assert (failed["values"]["file"], failed["end_reason"], failed["exit_code"]) == ("data/part-7.csv", "bad-input", 65)
    assert failed["attempts"] == 1, "the same input would fail the same way"
    assert "row 114: 28 numbers, 65 expected" in Path(failed["log"]).read_text()
    for item in job["items"]:
        if item["state"] == "succeeded":
            metrics = json.loads((Path(item["output"]) / "metrics.json").read_text())
            assert metrics["file"] == Path(item["values"]["file"]).name
            assert metrics["accuracy"] > 0.7
    shutil.rmtree(job["outputs"])
