"""The small files of an attempt: what was written is read back, and nothing else is ever taken for it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.engines.local.startwords import start_failure
from anycard.engines.local.supervisor import records
from anycard.engines.local.supervisor.attempt import Attempt

STAT = "77 (a) b) S 1 77 77 0 -1 0 64 0 0 0 1 2 3 4 20 0 1 0 4242 2654208 398 0"


@pytest.fixture(scope="module")
def stem() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        yield f"{name}/3.1"


def put(stem: str, name: str, data: bytes) -> None:
    Path(f"{stem}.{name}").write_bytes(data)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_claim_or_incomplete(stem: str, data: bytes) -> None:
    put(stem, "record", data)
    try:
        started = records.read_started(stem)
    except records.Incomplete:
        return
    assert started is not None and isinstance(started.note, dict)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_exit_only_when_whole(stem: str, data: bytes) -> None:
    put(stem, "record", data)
    ended = records.read_exit(stem)
    if ended is not None:
        assert data.count(b"\n") and (b"exited " in data or b"cannot-start " in data)
        assert (ended[0] is None) != (ended[1] is None)


@given(st.integers(0, 255), st.text(alphabet="exitd 07\nx", max_size=40), st.integers(0, 200_000))
def test_of_several_exits_the_shims_counts(stem: str, code: int, lie: str, spam: int) -> None:
    """It comes after whatever the program put there, on a line of its own."""
    put(stem, "record", f"77\n{STAT}\nboot\n{{}}\n{'x' * spam}{lie}\nexited {code}\n".encode())
    ended = records.read_exit(stem)
    assert ended is not None and ended[0] == code
    started = records.read_started(stem)
    assert started is not None and started.pid == 77


@given(st.integers(0, 255), st.integers(0, 11))
def test_every_part_of_an_exit_is_no_exit(stem: str, code: int, cut: int) -> None:
    whole = f"exited {code}\n".encode()
    put(stem, "record", whole[: min(cut, len(whole) - 1)])
    assert records.read_exit(stem) is None
    records.write_exit(stem, code)
    ended = records.read_exit(stem)
    assert ended is not None and ended[0] == code
    records.write_exit(stem, (code + 1) % 256)  # what the system told us stands
    ended = records.read_exit(stem)
    assert ended is not None and ended[0] == (code + 1) % 256


@given(st.integers(1, len(f"77\n{STAT}\nboot\n{{}}\n") - 1))
def test_every_part_of_a_claim_is_incomplete(stem: str, cut: int) -> None:
    whole = f"77\n{STAT}\nboot\n{{}}\n".encode()
    put(stem, "record", whole)
    started = records.read_started(stem)
    assert started is not None and (started.pid, started.start_ticks, started.boot_id) == (77, 4242, "boot")
    put(stem, "record", whole[:cut])
    with pytest.raises(records.Incomplete):
        records.read_started(stem)


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
    told = str(start_failure(json.loads(json.dumps(attempt.refused("program-missing")))))
    assert told == f"could not start: the program {value!r} was not found"
    assert told.encode() and "\n" not in told, "it goes into the store and the failed list"


@pytest.mark.parametrize("deep", [b"[" * 50_000, b'{"a":' * 12_000], ids=["lists", "objects"])
def test_brackets_without_end_are_a_claim_nobody_can_read(tmp_path: Path, deep: bytes) -> None:
    stem = f"{tmp_path}/3.1"
    put(stem, "record", b"77\n\nboot\n" + deep + b"\n")
    with pytest.raises(records.Incomplete):
        records.read_started(stem)
    put(stem, "stop", deep)
    assert records.read_stop(stem) is None


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "1" + "0" * 400, "true"])
def test_a_time_that_is_no_time_is_not_taken(number: str) -> None:
    attempt = Attempt(1, "/nowhere")
    attempt.take_note(
        json.loads(f'{{"grace_s": {number}, "deadlines": [[{number}, "time-limit"], [5, "time-limit"]]}}')
    )
    assert attempt.note["grace_s"] == 30.0
    assert attempt.note["deadlines"] == [[5.0, "time-limit"]]


def test_the_claim_is_taken_once(tmp_path: Path) -> None:
    stem = f"{tmp_path}/3.1"
    assert records.read_started(stem) is None
    assert records.claim(stem, "boot")
    assert not records.claim(stem, "boot")
    started = records.read_started(stem)
    assert started is not None and (started.pid, started.boot_id) == (0, "boot")


def test_attempts_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    """Also where one's stem begins the other's."""
    for stem, code in (("1.1", 0), ("1.11", 3), ("11.1", 4)):
        assert records.claim(f"{tmp_path}/{stem}", stem)
        records.write_exit(f"{tmp_path}/{stem}", code)
    for stem, code in (("1.1", 0), ("1.11", 3), ("11.1", 4)):
        started, ended = records.read_started(f"{tmp_path}/{stem}"), records.read_exit(f"{tmp_path}/{stem}")
        assert started is not None and started.boot_id == stem
        assert ended is not None and ended[0] == code


def test_a_stop_is_remembered(tmp_path: Path) -> None:
    stem = f"{tmp_path}/3.1"
    records.write_stop(stem, "preempted", 12.5, told=False)
    records.write_stop(stem, "preempted", 12.5, told=True)
    assert records.read_stop(stem) == {"why": "preempted", "kill_at": 12.5, "told": True}
    assert [path.name for path in tmp_path.iterdir()] == ["3.1.stop"]


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    stem = f"{tmp_path}/3.1"
    (tmp_path / "secret").write_text("exited 0\n")
    (tmp_path / "3.1.record").symlink_to("secret")
    assert records.read_exit(stem) is None
    (tmp_path / "3.1.record").unlink()
    os.mkfifo(tmp_path / "3.1.record")
    with pytest.raises(records.Incomplete):  # opened without waiting for a writer
        records.read_started(stem)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.link(victim, f"{stem}.stop.{os.getpid()}")
    records.write_stop(stem, "cancelled", 1.0, told=True)
    assert victim.read_text() == "mine"
