"""A disk that fills up under anycard: a small file system of its own as ANYCARD_HOME."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from called import Cli, until

from anycard.config import Paths
from anycard.store.engine import Store

MIB = 1024**2


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Cli]:
    """A daemon on a disk of 100 MiB that pauses below 20."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=700", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("run as root with the right to mount: this test fills a small disk of its own")
    called = Cli(disk / "home", {"ANYCARD_DISK_PAUSE_BYTES": str(20 * MIB)})
    try:
        assert called("up", "-d").returncode == 0
        yield called
        assert "Traceback" not in (called.home / "daemon.log").read_text()
    finally:
        called("down", "--stop")
        subprocess.run(["umount", "-l", disk], check=True)


def fill(path: Path, *, leave: int) -> None:
    """Takes all room but ``leave`` bytes."""
    with path.open("wb") as file:
        while (room := free(path)) > leave:
            try:
                file.write(bytes(min(room - leave, MIB)))
                file.flush()
            except OSError:
                return


def free(path: Path) -> int:
    found = os.statvfs(path.parent)
    return found.f_bavail * found.f_frsize


def test_starts_pause_while_the_disk_is_low_and_go_on_when_there_is_room(small):
    ballast = small.home.parent / "ballast"
    fill(ballast, leave=10 * MIB)
    paused = until(lambda: small.json("status")["paused"])
    assert "starts are paused" in paused
    assert str(small.home) in paused
    assert b"starts are paused" in small("status").stdout
    assert "暂停".encode() in small("status", "--lang", "zh").stdout
    job = small.json("submit", "--", "echo", "went on")["jobs"][0]["id"]
    shown = small.json("job", str(job))
    assert (shown["state"], shown["counts"]["running"]) == ("queued", 0)
    assert "starts are paused" in shown["reason"]
    assert b"starts are paused" in small("jobs").stdout
    ballast.unlink()
    assert small.over(job)["state"] == "succeeded"
    assert small.json("status")["paused"] is None


def test_a_program_that_fills_the_disk_ends_as_that_and_nothing_is_corrupt(small):
    job = small.submit(
        "resources: {cpus: 0.5}\nrun: |\n  [ $ANYCARD_ATTEMPT = 1 ] || { echo has room now; exit 0; }\n"
        "  cat /dev/zero >$ANYCARD_OUTPUT_DIR/huge\n"
    )
    other = small.submit("resources: {cpus: 0.5}\nrun: sleep 1.5; echo unharmed\n")
    done = small.over(job)
    assert small.over(other)["state"] == "succeeded"
    assert small.log(other) == b"unharmed\n"
    ends = [event["data"]["reason"] for event in small.events(job) if event["kind"] == "item.ended"]
    assert ends == ["disk-full", "succeeded"]
    assert done["items"][0]["output"] is None
    assert small.json("status")["paused"] is None
    small("down")
    store = Store.open(Paths(small.home))
    assert store.find_damage() is None
    store.close()


def test_a_disk_full_to_the_last_byte_loses_nothing_that_was_promised(small):
    running = small.submit("run: |\n  while [ ! -e ../go ]; do sleep 0.05; done\n  echo done\n")
    until(lambda: small.json("job", str(running))["counts"]["running"])
    ballast = small.home.parent / "ballast"
    fill(ballast, leave=0)
    until(lambda: small.json("status")["paused"])
    answers = [small("submit", "--json", "--name", f"n{number}", "--", "true") for number in range(4)]
    assert {out.returncode for out in answers} <= {0, 125}, [out.stderr for out in answers]
    for out in answers:
        assert b"Traceback" not in out.stderr
        assert out.returncode == 0 or b"full" in out.stderr or b"No space" in out.stderr
    small.home.parent.joinpath("go").touch()
    small("cancel", str(running))
    ballast.unlink()
    over = small.over(running)
    assert over["items"][0]["end_reason"] in ("succeeded", "cancelled", "disk-full")
    promised = [f"n{number}" for number, out in enumerate(answers) if out.returncode == 0]
    listed = [job for job in small.json("jobs")["jobs"] if job["name"].startswith("n")]
    assert sorted(job["name"] for job in listed) == promised
    for job in listed:
        assert small.over(job["id"])["state"] == "succeeded"
    assert small("run", "--", "true").returncode == 0
    small("down")
    store = Store.open(Paths(small.home))
    assert store.find_damage() is None
    store.close()
