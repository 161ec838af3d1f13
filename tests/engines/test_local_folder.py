"""The files of an attempt's folder: what was written is read back, and nothing else is ever taken for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.engines.local.supervisor import folder as folders
from anycard.engines.local.supervisor.attempt import Attempt

STAT = "77 (a) b) S 1 77 77 0 -1 0 64 0 0 0 1 2 3 4 20 0 1 0 4242 2654208 398 0"


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        yield name


def put(place: str, name: str, data: bytes) -> None:
    Path(place, name).write_bytes(data)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_claim_or_incomplete(place: str, data: bytes) -> None:
    put(place, "started", data)
    try:
        started = folders.read_started(place)
    except folders.Incomplete:
        return
    assert started is not None and isinstance(started.note, dict)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_exit_only_when_whole(place: str, data: bytes) -> None:
    put(place, "exit", data)
    ended = folders.read_exit(place)
    if ended is not None:
        assert data.endswith(b"\n") and (data.startswith(b"exited ") or data.startswith(b"cannot-start "))
        assert (ended[0] is None) != (ended[1] is None)


@given(st.integers(0, 255), st.integers(0, 11))
def test_every_part_of_an_exit_is_no_exit(place: str, code: int, cut: int) -> None:
    whole = f"exited {code}\n".encode()
    put(place, "exit", whole[: min(cut, len(whole) - 1)])
    assert folders.read_exit(place) is None
    folders.write_exit(place, code)
    ended = folders.read_exit(place)
    assert ended is not None and ended[0] == code
    folders.write_exit(place, (code + 1) % 256)  # what the shim wrote stands
    assert folders.read_exit(place) == ended


@given(st.integers(1, len(f"77\n{STAT}\nboot\n{{}}\n") - 1))
def test_every_part_of_a_claim_is_incomplete(place: str, cut: int) -> None:
    whole = f"77\n{STAT}\nboot\n{{}}\n".encode()
    put(place, "started", whole)
    started = folders.read_started(place)
    assert started is not None and (started.pid, started.start_ticks, started.boot_id) == (77, 4242, "boot")
    put(place, "started", whole[:cut])
    with pytest.raises(folders.Incomplete):
        folders.read_started(place)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_note_is_taken_without_harm(value: object) -> None:
    """In shared mode the note is the user's to write."""
    attempt = Attempt(1, "/nowhere")
    attempt.take_note({"memory": value, "grace_s": value, "deadlines": value, "cpus": value, "program": value})
    assert attempt.note["memory"] is None or isinstance(attempt.note["memory"], int)
    assert isinstance(attempt.note["grace_s"], int | float)
    assert all(isinstance(after, float) and isinstance(why, str) for after, why in attempt.note["deadlines"])
    assert isinstance(attempt.refused("program-missing"), str)


def test_the_claim_is_taken_once(tmp_path: Path) -> None:
    assert folders.read_started(str(tmp_path)) is None
    assert folders.claim(str(tmp_path), "boot")
    assert not folders.claim(str(tmp_path), "boot")
    started = folders.read_started(str(tmp_path))
    assert started is not None and (started.pid, started.boot_id) == (0, "boot")


def test_a_stop_is_remembered(tmp_path: Path) -> None:
    folders.write_stop(str(tmp_path), "preempted", 12.5, told=False)
    folders.write_stop(str(tmp_path), "preempted", 12.5, told=True)
    assert folders.read_stop(str(tmp_path)) == {"why": "preempted", "kill_at": 12.5, "told": True}
    assert [path.name for path in tmp_path.iterdir()] == ["stop"]


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("exited 0\n")
    (tmp_path / "exit").symlink_to("secret")
    assert folders.read_exit(str(tmp_path)) is None
    os.mkfifo(tmp_path / "started")
    with pytest.raises(folders.Incomplete):  # opened without waiting for a writer
        folders.read_started(str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.link(victim, tmp_path / f".stop.{os.getpid()}")
    folders.write_stop(str(tmp_path), "cancelled", 1.0, told=True)
    assert victim.read_text() == "mine"
