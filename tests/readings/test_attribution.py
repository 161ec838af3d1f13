"""Whose a program on a card is, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from called import until

from anycard.cards.readings.shapes import CardUse, Tick
from anycard.engines.protocol import Usage
from anycard.host.live import LiveHost
from anycard.jobs.attribution import Owner, Owners, UseLog
from anycard.jobs.board import Attempt, Board
from anycard.model.demand import Allocation
from anycard.model.instant import Instant

HOME = "0123456789ab"


def board_with(
    pid: int | None, *, number: int = 5, usage: Usage | None = None, cards: tuple[str, ...] = ("n:0",)
) -> Board:
    board = Board()
    attempt = Attempt(
        id=number,
        job_id=3,
        item=1,
        number=1,
        stem="x",
        started=Instant(0, 0, "b"),
        allocation=Allocation(cpus=1, memory_bytes=None, card_ids=cards),
        grant_id=1,
        seen_running=True,
        pid=pid,
        usage=usage or Usage(),
    )
    board.attempts[number] = attempt
    return board


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def spawn(started: list[subprocess.Popen[bytes]], script: str, tmp_path: Path, **env: str) -> tuple[int, int]:
    """(pid of the leader, pid that the script writes to the file ``pid``)."""
    note = tmp_path / "pid"
    process = subprocess.Popen(
        ["sh", "-c", script], cwd=tmp_path, env={**os.environ, **env}, start_new_session=True, stdin=subprocess.DEVNULL
    )
    started.append(process)
    until(lambda: note.exists() and note.read_text().strip())
    return process.pid, int(note.read_text())


def owner_of(pid: int, board: Board, key: str = HOME) -> Owner | None:
    return Owners(LiveHost(), key).of(board, [pid], 0.0).get(pid)


def test_a_descendant_belongs_to_its_attempt(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    leader, inner = spawn(started, "sh -c 'sh -c \"echo \\$\\$ > pid; sleep 60; :\"; :'; :", tmp_path)
    assert inner != leader
    assert owner_of(inner, board_with(leader)) == Owner(3, 1, 5)
    assert owner_of(leader, board_with(leader)) == Owner(3, 1, 5)
    assert owner_of(inner, board_with(None)) is None


def test_an_orphan_of_its_session_belongs_to_it(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Its parent ended: only session and process group still say whose it is."""
    leader, orphan = spawn(started, "(sh -c 'echo $$ > pid; exec sleep 60' &) ; sleep 60", tmp_path)
    assert owner_of(orphan, board_with(leader)) == Owner(3, 1, 5)


ESCAPE = (
    "import os,sys,time\n"
    "if os.fork(): sys.exit()\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "open('pid','w').write(str(os.getpid()))\n"
    "time.sleep(60)\n"
)


@pytest.fixture
def escaped(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> Iterator[tuple[int, int]]:
    (tmp_path / "escape.py").write_text(ESCAPE)
    pids = spawn(started, f"{sys.executable} escape.py; sleep 60", tmp_path, ANYCARD_ATTEMPT_ID=f"{HOME}:5")
    yield pids
    os.kill(pids[1], signal.SIGKILL)


def test_one_that_escaped_by_double_fork_is_known_by_its_mark(escaped: tuple[int, int]) -> None:
    leader, pid = escaped
    assert owner_of(pid, board_with(leader)) == Owner(3, 1, 5)
    assert owner_of(pid, board_with(leader), key="anotherhome0") is None  # another daemon's attempt of the same number
    assert owner_of(pid, board_with(leader, number=6)) is None


def test_a_mark_of_another_users_process_is_not_believed(
    escaped: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared daemon anybody could write somebody else's mark into an environment."""
    leader, pid = escaped

    class Mixed(LiveHost):
        def node(self, path: str):  # type: ignore[no-untyped-def]
            seen = super().node(path)
            return type(seen)(seen.mode, "mallory", seen.group) if path == f"/proc/{pid}" else seen

    assert Owners(Mixed(), HOME).of(board_with(leader), [pid], 0.0) == {}


def test_strangers_and_the_dead_belong_to_nobody(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    leader, _ = spawn(started, "echo $$ > pid; sleep 60", tmp_path)
    owners = Owners(LiveHost(), HOME)
    board = board_with(leader)
    assert owners.of(board, [1, os.getpid(), 4_000_000], 0.0) == {}
    assert set(owners.of(board, [leader], 1.0)) == {leader}
    del board.attempts[5]
    assert owners.of(board, [leader], 2.0) == {}  # its attempt ended


def test_a_stranger_is_looked_at_again(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """The program was seen on the card before the engine told its attempt's pid."""
    leader, inner = spawn(started, "sh -c 'echo $$ > pid; sleep 60; :'; :", tmp_path)
    owners = Owners(LiveHost(), HOME)
    assert owners.of(board_with(None), [inner], 0.0) == {}
    assert owners.of(board_with(leader), [inner], 10.0) == {inner: Owner(3, 1, 5)}


# ---- what attempts did


def tick(boot_s: float, *uses: CardUse) -> Tick:
    return Tick(boot_s + 1000, boot_s, uses=uses)


def test_programs_of_one_attempt_are_added_up_and_looks_averaged() -> None:
    board, log = board_with(10), UseLog()
    owners = {10: Owner(3, 1, 5), 11: Owner(3, 1, 5)}
    log.add(
        board, tick(1, CardUse("n:0", 10, 100, 0.25), CardUse("n:0", 11, 50, 0.25), CardUse("n:0", 99, 7, 0.1)), owners
    )
    log.add(board, tick(2, CardUse("n:0", 10, 300, 1.0)), owners)
    (row,) = log.take(board, 1000)
    assert (row.job, row.item, row.attempt, row.card_id, row.n, row.at) == (3, 1, 5, "n:0", 2, 1000)
    assert (row.memory_bytes, row.memory_peak_bytes, row.utilisation) == (225, 300, 0.75)


def test_what_the_driver_does_not_tell_stays_unknown() -> None:
    board, log = board_with(10), UseLog()
    log.add(board, tick(1, CardUse("n:0", 10, None, None)), {10: Owner(3, 1, 5)})
    (row,) = log.take(board, 0)
    assert (row.memory_bytes, row.memory_peak_bytes, row.utilisation) == (None, None, None)


def test_rates_come_from_two_reports_by_the_boot_clock() -> None:
    board, log = board_with(10, usage=Usage(cpu_s=10, read_bytes=0, written_bytes=5)), UseLog()
    log.add(board, tick(100), {})
    (row,) = log.take(board, 0)
    assert row.cpu_cores is None  # one report says nothing of a rate
    board.attempts[5].usage = Usage(cpu_s=20, memory_bytes=77, read_bytes=1000, written_bytes=5)
    log.add(board, tick(105), {})
    (row,) = log.take(board, 0)
    assert (row.cpu_cores, row.read_bytes_per_s, row.written_bytes_per_s, row.host_memory_bytes) == (2, 200, 0, 77)


def test_an_attempt_without_a_card_has_a_row_for_the_cpu() -> None:
    board, log = board_with(10, usage=Usage(cpu_s=1), cards=()), UseLog()
    log.add(board, tick(1), {})
    assert [row.card_id for row in log.take(board, 0)] == ["cpu"]


def test_nothing_of_an_ended_attempt_stays_in_memory() -> None:
    board, log = board_with(10, usage=Usage(cpu_s=1)), UseLog()
    log.add(board, tick(1), {})
    board.attempts.clear()
    log.add(board, tick(2), {})
    assert log.take(board, 0) == [] and not log._rates
