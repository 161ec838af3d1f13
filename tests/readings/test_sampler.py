"""The sampler: whoever hangs or fails is named, and stops nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from anycard.cards.problem import Problem, VendorFault
from anycard.cards.readings.sampler import Sampler
from anycard.cards.readings.shapes import Look, Mark, MarkKind, Tick
from anycard.model.card import Reading
from anycard.model.instant import Instant
from anycard.model.text import Text


class Scripted:
    """A reader that does what the test says."""

    def __init__(self, name: str, act: Callable[[Instant], Look], period_s: float = 1.0) -> None:
        self.name = name
        self.period_s = period_s
        self.act = act
        self.looks = 0
        self.closed = threading.Event()

    def look(self, at: Instant) -> Look:
        self.looks += 1
        return self.act(at)

    def close(self) -> None:
        self.closed.set()


def well(name: str) -> Look:
    return Look((Reading(f"{name}:0", utilisation=0.5),))


class Bench:
    """A sampler whose seconds pass when the test says so."""

    def __init__(self, *readers: Scripted) -> None:
        by_name = {reader.name: reader for reader in readers}
        self.sampler = Sampler(by_name.__getitem__, lambda tick: None)
        self.sampler.watch(by_name)
        self.utc_s, self.boot_s = 1_000_000.0, 500.0

    def second(self, *, jump_s: float = 0.0) -> Tick:
        self.utc_s += 1 + jump_s
        self.boot_s += 1
        return self.sampler.tick(Instant(self.utc_s, self.boot_s, "boot"))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()  # so that no thread is left in a test's hang


def seen(tick: Tick) -> set[str]:
    return {reading.card_id for reading in tick.readings}


def test_a_reader_that_hangs_is_named_and_the_rest_goes_on(gate: threading.Event) -> None:
    def hang(at: Instant) -> Look:
        gate.wait()
        return well("stuck")

    stuck, quick = Scripted("stuck", hang), Scripted("quick", lambda at: well("quick"))
    bench = Bench(stuck, quick)
    ticks = [bench.second() for _ in range(6)]
    assert all(seen(tick) == {"quick:0"} for tick in ticks)
    assert quick.looks == 6 and stuck.looks == 1
    last = ticks[-1].silent
    assert [one.reader for one in last] == ["stuck"] and last[0].since == 1_000_001.0
    assert [mark.kind for tick in ticks for mark in tick.marks] == [MarkKind.SILENT]  # once, not every second


def test_a_reader_that_comes_back_speaks_again(gate: threading.Event) -> None:
    def hang_once(at: Instant) -> Look:
        if slow.looks == 1:
            gate.wait()
        return well("slow")

    slow = Scripted("slow", hang_once)
    bench = Bench(slow)
    for _ in range(5):
        tick = bench.second()
    assert tick.silent
    gate.set()
    marks: list[Mark] = []
    for _ in range(1000):  # its thread needs a moment
        tick = bench.second()
        marks += tick.marks
        if seen(tick):
            break
        time.sleep(0.01)
    assert seen(tick) == {"slow:0"} and not tick.silent
    assert [mark.kind for mark in marks] == [MarkKind.ANSWERS]


def test_what_was_seen_stands_in_for_one_late_tick_and_no_longer(gate: threading.Event) -> None:
    def late(at: Instant) -> Look:
        if reader.looks > 1:
            gate.wait()
        return well("late")

    reader = Scripted("late", late)
    bench = Bench(reader)
    assert [bool(seen(bench.second())) for _ in range(5)] == [True, True, True, False, False]


def test_a_slow_step_is_kept_and_its_values_hold_between(gate: threading.Event) -> None:
    tool = Scripted("tool", lambda at: well("tool"), period_s=10.0)
    bench = Bench(tool)
    ticks = [bench.second() for _ in range(25)]
    assert tool.looks == 3
    assert all(seen(tick) for tick in ticks)


def test_a_vendor_that_cannot_be_asked_says_why_and_when_it_began_and_ended() -> None:
    def act(at: Instant) -> Look:
        if reader.looks in (2, 3, 4):
            raise VendorFault(Problem("broken", Text("its driver sleeps" if reader.looks < 4 else "it is unloaded")))
        return well("broken")

    reader = Scripted("broken", act)
    bench = Bench(reader)
    ticks = [bench.second() for _ in range(6)]
    assert [[(one.reader, one.since, str(one.why)) for one in tick.silent] for tick in ticks] == [
        [],
        [("broken", 1_000_002.0, "its driver sleeps")],
        [("broken", 1_000_002.0, "its driver sleeps")],
        [("broken", 1_000_002.0, "it is unloaded")],  # since then, by now for another reason
        [],
        [],
    ]
    assert [(mark.at, mark.kind, str(mark.text)) for tick in ticks for mark in tick.marks] == [
        (1_000_002.0, MarkKind.SILENT, "its driver sleeps"),
        (1_000_005.0, MarkKind.ANSWERS, "Reading broken cards works again."),
    ]


def test_a_reader_with_a_fault_of_ours_costs_its_own_values_only(caplog: pytest.LogCaptureFixture) -> None:
    def crash(at: Instant) -> Look:
        raise RuntimeError("no such thing")

    bench = Bench(Scripted("bad", crash), Scripted("good", lambda at: well("good")))
    for _ in range(3):
        tick = bench.second()
    assert seen(tick) == {"good:0"} and [one.reader for one in tick.silent] == ["bad"]
    assert "no such thing" in str(tick.silent[0].why)
    assert len([record for record in caplog.records if "bad" in record.getMessage()]) == 1  # logged once


def test_marks_of_a_look_are_told_once() -> None:
    def tell(at: Instant) -> Look:
        return Look(marks=(Mark(at.utc_s, "x:0", MarkKind.XID, Text("Xid")),))

    bench = Bench(Scripted("x", tell, period_s=3.0))
    assert [len(bench.second().marks) for _ in range(6)] == [1, 0, 0, 1, 0, 0]


def test_a_clock_that_jumps_leaves_a_mark_and_no_gap() -> None:
    bench = Bench(Scripted("a", lambda at: well("a")))
    bench.second()
    ahead = bench.second(jump_s=3600)
    assert seen(ahead) and [mark.kind for mark in ahead.marks] == [MarkKind.CLOCK]
    assert "3600" in str(ahead.marks[0].text)
    back = bench.second(jump_s=-7200)
    assert seen(back) and [mark.kind for mark in back.marks] == [MarkKind.CLOCK]
    assert bench.second().marks == ()
    assert len(bench.sampler.recent.series("a:0", 0, 1e9).times) == 4


def test_its_own_thread_ticks_and_ends() -> None:
    came = threading.Event()
    ticks: list[Tick] = []

    def take(tick: Tick) -> None:
        ticks.append(tick)
        if len(ticks) >= 2:
            came.set()

    reader = Scripted("a", lambda at: well("a"))
    sampler = Sampler(lambda name: reader, take)
    sampler.watch(["a"])
    sampler.start()
    assert came.wait(30)
    sampler.close()
    count = len(ticks)
    assert reader.closed.wait(30)
    assert len(ticks) == count and seen(ticks[-1]) == {"a:0"}
    assert ticks[1].boot_s > ticks[0].boot_s


def test_marks_of_a_look_that_came_late_are_not_lost(gate: threading.Event) -> None:
    """The look that hung ends between two ticks; the next one replaces it at once."""

    def hang_once(at: Instant) -> Look:
        if reader.looks == 1:
            gate.wait()
            return Look(marks=(Mark(at.utc_s, "x:0", MarkKind.HEALTH, Text("back")),))
        return well("x")

    reader = Scripted("x", hang_once)
    bench = Bench(reader)
    bench.second()
    gate.set()
    marks: list[Mark] = []
    for _ in range(1000):
        tick = bench.second()
        marks += tick.marks
        if seen(tick):
            break
        time.sleep(0.01)
    assert [str(mark.text) for mark in marks if mark.kind is MarkKind.HEALTH] == ["back"]
