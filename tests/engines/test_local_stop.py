"""Stopping: the signal, the grace, the kill; deadlines; and everything a program leaves behind or tries to hide."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.protocol import Deadline
from anycard.model.end_reason import EndReason

linux = pytest.mark.skipif(sys.platform != "linux", reason="finds escaped processes through /proc")

# Two forks with a setsid between them: no ancestor, session or process group in common with the program any more.
ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {before}
        with open(sys.argv[1] + '.new', 'w') as file: file.write(str(os.getpid()))
        os.rename(sys.argv[1] + '.new', sys.argv[1])
        time.sleep(600)
    os._exit(0)
os.wait()
{then}
"""


def pid_in(path: Path) -> int:
    return int(path.read_text()) if path.exists() else 0


def test_a_stopped_program_may_write_its_checkpoint(rig: Any) -> None:
    script = "trap 'sleep 0.2; echo saved >checkpoint; exit 3' TERM; echo >ready; while :; do sleep 0.05; done"

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, script)])
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.PREEMPTED, 30)
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for, end.lost) == (3, EndReason.PREEMPTED, False)
            assert (rig.base / "checkpoint").read_text() == "saved\n"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV"])
def test_nobody_writes_below_what_the_program_said_when_a_signal_ends_it(rig: Any, name: str) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, f"echo out; echo err >&2; kill -{name} $$")])
            end = await rig.end_of(1)
            assert end.exit_code is not None and end.exit_code > 128
            said = Path(f"{rig.stem(1)}.log").read_text().splitlines()
            assert said[-2:] == ["out", "err"]

    asyncio.run(scenario())


def test_the_child_of_a_script_keeps_its_grace_when_the_script_has_died(rig: Any) -> None:
    """A shell dies of the stop signal at once; the trainer it started must still get the time to save."""
    trainer = "trap 'sleep 1.5; echo saved >checkpoint; exit 0' TERM; echo >ready; while :; do sleep 0.05; done"

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "/bin/sh", "-c", '/bin/sh -c "$1"; exit 9', "sh", trainer)])
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.PREEMPTED, 30)
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for, end.left_behind) == (143, EndReason.PREEMPTED, 0)
            assert (rig.base / "checkpoint").read_text() == "saved\n"

    asyncio.run(scenario())


def test_one_that_ignores_the_signal_is_killed_and_its_end_recorded(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "trap '' TERM; echo >ready; while :; do sleep 0.05; done")])
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.CANCELLED, 0.3)
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (137, EndReason.CANCELLED)
            assert rig.recorded_exit(1) == 137

    asyncio.run(scenario())


def test_asked_again_the_shorter_grace_counts_and_the_first_reason(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "trap '' TERM; echo >ready; while :; do sleep 0.05; done")])
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.PREEMPTED, 3600)
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (137, EndReason.PREEMPTED)

    asyncio.run(scenario())


def test_a_stop_right_after_the_start_holds(rig: Any) -> None:
    """Before the shell has even forked the program there is nobody to signal: the stop must not be lost in that gap."""

    async def scenario() -> None:
        async with rig:
            specs = [rig.spec(number, "sleep", "600") for number in range(1, 41)]
            await rig.engine.start(specs)
            for spec in specs:
                await rig.engine.stop(spec.id, EndReason.CANCELLED, 3600)
            for spec in specs:
                end = await rig.end_of(spec.id)
                assert end.stopped_for is EndReason.CANCELLED
                assert end.exit_code in (None, 143)

    asyncio.run(scenario())


def test_a_paused_program_is_stopped_too(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start(
                [rig.sh(1, "trap 'exit 5' TERM; echo >ready; kill -STOP $$; while :; do sleep 0.05; done")]
            )
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.CANCELLED, 3600)
            assert (await rig.end_of(1)).exit_code == 5

    asyncio.run(scenario())


def test_a_deadline_stops_for_its_reason(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            deadlines = (Deadline(3600, EndReason.MAX_RELEASED), Deadline(0.3, EndReason.TIME_LIMIT))
            end = await rig.run(rig.spec(1, "sleep", "600", deadlines=deadlines))
            assert (end.exit_code, end.stopped_for) == (143, EndReason.TIME_LIMIT)
            end = await rig.run(rig.sh(2, "exit 2", deadlines=deadlines))
            assert (end.exit_code, end.stopped_for) == (2, None)

    asyncio.run(scenario())


def test_a_deadline_holds_while_the_daemon_is_away(rig: Any) -> None:
    from anycard.engines.protocol import OpenAttempt

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "sleep", "600", deadlines=(Deadline(0.5, EndReason.TIME_LIMIT),))])
            await rig.until(lambda: rig.runs.get(1))
            await rig.drop_engine()
            await rig.until(lambda: rig.recorded_exit(1) is not None)
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert (await rig.end_of(1)).stopped_for is EndReason.TIME_LIMIT

    asyncio.run(scenario())


@linux
@pytest.mark.parametrize("wiped", [False, True], ids=["marked", "environment wiped"])
def test_what_escaped_is_ended_after_the_program(rig: Any, wiped: bool) -> None:
    before = "os.execve(sys.executable, [sys.executable, '-S', '-c', HIDDEN, sys.argv[1]], {})" if wiped else "pass"
    hidden = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    script = f"HIDDEN = {hidden!r}" + ESCAPE.format(
        before=before, then="\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    )

    async def scenario() -> None:
        async with rig:
            note = rig.base / "escaped"
            end = await rig.run(rig.python(1, script, str(note)))
            assert (end.exit_code, end.left_behind) == (0, 1), rig.log(1)
            assert not rig.is_alive(pid_in(note))

    asyncio.run(scenario())


@linux
def test_a_wiped_escape_beside_an_older_attempt_ends_when_nobody_can_own_it(rig: Any) -> None:
    hidden = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    before = "os.execve(sys.executable, [sys.executable, '-S', '-c', HIDDEN, sys.argv[1]], {})"
    script = f"HIDDEN = {hidden!r}" + ESCAPE.format(
        before=before, then="\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    )

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "sleep", "600")])
            await rig.until(lambda: rig.runs.get(1))
            note = rig.base / "escaped"
            assert (await rig.run(rig.python(2, script, str(note)))).exit_code == 0
            assert rig.is_alive(pid_in(note))  # it could be attempt 1's
            await rig.engine.stop(1, EndReason.CANCELLED, 5)
            await rig.end_of(1)
            await rig.until(lambda: not rig.is_alive(pid_in(note)))

    asyncio.run(scenario())


@linux
def test_what_escaped_is_stopped_with_its_attempt_and_nobody_else_is(rig: Any) -> None:
    script = ESCAPE.format(before="pass", then="time.sleep(600)")

    async def scenario() -> None:
        async with rig:
            notes = {number: rig.base / f"escaped{number}" for number in (1, 2)}
            await rig.engine.start([rig.python(number, script, str(note)) for number, note in notes.items()])
            for note in notes.values():
                await rig.until(lambda note=note: pid_in(note))
            await rig.engine.stop(1, EndReason.CANCELLED, 5)
            await rig.end_of(1)
            assert not rig.is_alive(pid_in(notes[1]))
            assert rig.is_alive(pid_in(notes[2]))
            assert 2 not in rig.ends
            await rig.engine.stop(2, EndReason.CANCELLED, 0)
            await rig.end_of(2)
            assert not rig.is_alive(pid_in(notes[2]))

    asyncio.run(scenario())


def test_background_children_are_left_behind_and_ended(rig: Any) -> None:
    script = """
for n in 1 2 3; do (trap '' TERM; echo >up$n; exec sleep 600) & done
while [ ! -e up1 ] || [ ! -e up2 ] || [ ! -e up3 ]; do sleep 0.02; done
exit 6
"""

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, script))
            assert (end.exit_code, end.left_behind, end.stopped_for) == (6, 3, None)

    asyncio.run(scenario())


def test_what_is_left_behind_can_be_hurried(rig: Any) -> None:
    """A stop after the program's own end does not change how it ended."""
    script = "(trap '' TERM; echo >up; exec sleep 600) & while [ ! -e up ]; do sleep 0.02; done; exit 6"

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, script)])
            await rig.until(lambda: rig.recorded_exit(1) is not None)
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            end = await rig.end_of(1)
            assert (end.exit_code, end.left_behind) == (6, 1)

    asyncio.run(scenario())


@linux
def test_a_killed_shim_takes_its_program_along(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "echo $$ >pid; exec sleep 600")])
            program = await rig.until(lambda: pid_in(rig.base / "pid"))
            runs = await rig.until(lambda: rig.runs.get(1))
            os.kill(runs[0].pid, 9)
            end = await rig.end_of(1)
            assert end.exit_code == 137
            assert not rig.is_alive(program)
            assert rig.recorded_exit(1) == 137

    asyncio.run(scenario())


@linux
def test_a_program_that_keeps_forking_is_brought_down(rig: Any) -> None:
    script = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open('ready', 'w')
until = time.time() + 60
while time.time() < until:  # each generation ends, its child goes on: nobody stays long enough to be aimed at
    if os.fork(): os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.python(1, "import os, time\nif os.fork() == 0:\n exec(os.environ['RUNNER'])\nelse: time.sleep(600)",
                                               env={"RUNNER": script})])  # fmt: skip
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            await rig.end_of(1)
            mark = f"ANYCARD_ATTEMPT_ID={_key(rig)}:1".encode()
            assert [pid for pid in _all_pids() if mark in _environ(pid)] == []

    asyncio.run(scenario())


def _key(rig: Any) -> str:
    from anycard.engines.local.launch import home_key

    return home_key(rig.paths)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
