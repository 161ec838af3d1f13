"""kill -9 of the supervisor, of the daemon's end, of both, of everything: each program ran once, each attempt gets one end."""

from __future__ import annotations

import asyncio
import collections
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.protocol import Deadline, OpenAttempt
from anycard.host.clock import boot_id
from anycard.model.end_reason import EndReason

pytestmark = [
    pytest.mark.kill,
    pytest.mark.skipif(sys.platform != "linux", reason="a process is known again by its start time in /proc"),
]
COUNT = 20


def batch(rig: Any) -> list[Any]:
    """Programs that note in one ledger that they ran, and end with a code of their own."""
    script = 'echo "$NUMBER" >>"$LEDGER"; sleep "$LENGTH"; exit "$NUMBER"'
    choose = random.Random(2)
    return [
        rig.sh(
            number,
            script,
            env={"NUMBER": str(number), "LEDGER": str(rig.base / "ledger"), "LENGTH": f"{choose.uniform(0, 1.5):.2f}"},
        )
        for number in range(1, COUNT + 1)
    ]


def ran(rig: Any) -> collections.Counter[int]:
    return collections.Counter(map(int, (rig.base / "ledger").read_text().split()))


def as_open(specs: list[Any], known_started: set[int]) -> list[OpenAttempt]:
    """What a daemon knows after a crash: the spec goes along when no report of its start was ever recorded."""
    return [OpenAttempt(spec.id, spec.stem, None if spec.id in known_started else spec) for spec in specs]


@pytest.mark.parametrize("seed", range(4))
def test_the_supervisor_is_killed_at_random_moments(rig: Any, seed: int) -> None:
    choose = random.Random(seed)

    async def scenario() -> None:
        async with rig:
            specs = batch(rig)
            await rig.engine.start(specs)
            for _ in range(4):
                await asyncio.sleep(choose.choice([0, 0.002, 0.01, 0.03, 0.1, 0.3]))
                old = await rig.kill_supervisor()
                await rig.replaced(old)
            for spec in specs:
                end = await rig.end_of(spec.id)
                assert (end.exit_code, end.lost) == (spec.id, False)
            assert ran(rig) == {spec.id: 1 for spec in specs}
            assert {(end.id, end.exit_code) for ends in rig.ends.values() for end in ends} == {
                (s.id, s.id) for s in specs
            }

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("with_supervisor", [False, True], ids=["daemon", "daemon and supervisor"])
def test_the_daemon_is_gone_at_random_moments(rig: Any, seed: int, with_supervisor: bool) -> None:
    choose = random.Random(seed)

    async def scenario() -> None:
        async with rig:
            specs = batch(rig)
            await rig.engine.start(specs)
            for _ in range(3):
                await asyncio.sleep(choose.choice([0, 0.002, 0.01, 0.05, 0.3]))
                if with_supervisor:
                    await rig.kill_supervisor()
                await rig.drop_engine()
                await asyncio.sleep(choose.choice([0, 0.1]))
                await rig.connect(as_open(specs, set(rig.runs)))
            for spec in specs:
                end = await rig.end_of(spec.id)
                assert (end.exit_code, end.lost) == (spec.id, False)
            assert ran(rig) == {spec.id: 1 for spec in specs}

    asyncio.run(scenario())


def test_everything_is_killed(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            specs = [
                rig.sh(number, "echo $NUMBER >>$LEDGER; exec sleep 600", env=spec_env(rig, number))
                for number in range(1, 9)
            ]
            await rig.engine.start(specs)
            await rig.until(
                lambda: (rig.base / "ledger").exists() and sum(ran(rig).values()) == len(specs) == len(rig.runs)
            )
            shims = [rig.runs[spec.id][0].pid for spec in specs]
            await rig.kill_supervisor()
            await rig.drop_engine()
            programs = [pid for shim in shims for pid in children_of(shim)]
            for pid in (*shims, *programs):
                os.kill(pid, signal.SIGKILL)
            await rig.connect(as_open(specs, set(rig.runs)))
            for spec in specs:
                end = await rig.end_of(spec.id)
                assert (end.exit_code, end.lost, end.rebooted) == (None, True, False)
            assert ran(rig) == {spec.id: 1 for spec in specs}
            assert not any(rig.is_alive(pid) for pid in programs)

    asyncio.run(scenario())


def test_a_program_without_its_shim_is_not_left_running_as_lost(rig: Any) -> None:
    """Supervisor and shim killed, the program not: it is found by the mark in its environment and ended before the report."""

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "sleep", "600"), rig.spec(2, "sleep", "600")])
            await rig.until(lambda: len(rig.runs) == 2)
            shim = rig.runs[1][0].pid
            (program,) = await rig.until(lambda: children_of(shim))
            old = await rig.kill_supervisor()
            os.kill(shim, signal.SIGKILL)
            await rig.replaced(old)
            assert (await rig.end_of(1)).lost
            assert not rig.is_alive(program)
            assert 2 not in rig.ends
            await rig.engine.stop(2, EndReason.CANCELLED, 1)
            assert (await rig.end_of(2)).exit_code == 143

    asyncio.run(scenario())


def test_a_stop_goes_on_under_the_next_supervisor(rig: Any) -> None:
    script = "trap 'echo told >>told' TERM; echo >ready; while :; do sleep 0.05; done"

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, script)])
            await rig.until((rig.base / "ready").exists)
            await rig.engine.stop(1, EndReason.PREEMPTED, 2)
            await rig.until((rig.base / "told").exists)
            await rig.kill_supervisor()
            await rig.drop_engine()  # the new daemon says nothing of the stop
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (137, EndReason.PREEMPTED)
            assert (rig.base / "told").read_text() == "told\n"

    asyncio.run(scenario())


def test_a_stop_asked_while_the_supervisor_is_dead_holds(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "sleep", "600")])
            await rig.until(lambda: rig.runs.get(1))
            await rig.kill_supervisor()
            await rig.engine.stop(1, EndReason.CANCELLED, 5)
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (143, EndReason.CANCELLED)

    asyncio.run(scenario())


def test_deadlines_and_limits_are_known_to_the_next_supervisor(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start(
                [rig.spec(1, "sleep", "600", deadlines=(Deadline(1.0, EndReason.TIME_LIMIT),), memory_bytes=1 << 26)]
            )
            await rig.until(lambda: rig.runs.get(1) and rig.file(1, "record").exists())
            await rig.replaced(await rig.kill_supervisor())
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (143, EndReason.TIME_LIMIT)
            assert end.limits == rig.runs[1][0].limits in ("cgroup", "watched")
            await rig.until(
                lambda: (
                    not [path for path, _, _ in os.walk("/sys/fs/cgroup") if _key(rig) in path and path.endswith("/1")]
                )
            )

    asyncio.run(scenario())


def test_what_escaped_under_the_last_supervisor_is_found(rig: Any) -> None:
    script = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('escaped', 'w').write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists('go'): time.sleep(0.02)
"""

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.python(1, script)])
            note = rig.base / "escaped"
            await rig.until(lambda: note.exists() and note.read_text())
            await rig.replaced(await rig.kill_supervisor())
            (rig.base / "go").touch()
            end = await rig.end_of(1)
            assert (end.exit_code, end.left_behind) == (0, 1)
            assert not rig.is_alive(int(note.read_text()))

    asyncio.run(scenario())


def test_a_reused_pid_is_not_taken_for_the_attempt(rig: Any) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    stat = Path(f"/proc/{bystander.pid}/stat").read_text().strip()
    name, fields = stat.rpartition(")")[0], stat.rpartition(")")[2].split()
    fields[19] = str(int(fields[19]) - 1)
    earlier = f"{name}) {' '.join(fields)}"
    another_boot = "00000000-0000-0000-0000-000000000000"
    claims = {
        1: (f"{bystander.pid}\n{earlier}\n{boot_id()}\n{{}}\n", False),
        2: (f"{bystander.pid}\n{stat}\n{another_boot}\n{{}}\n", True),
        3: ("1\n\n" + another_boot + "\n{}\n", True),
        4: ("4194000\n" + earlier + "\n" + boot_id() + "\n{}\n", False),
        5: ("not a claim at all\n\n\n\n", False),
        6: ("", False),
        7: (f"{bystander.pid}\n\n{boot_id()}\n{{}}\n", False),  # as the shim writes it; the mark is not this attempt's
    }

    async def scenario() -> None:
        async with rig:
            for number, (claim, _) in claims.items():
                rig.stem(number).parent.mkdir(exist_ok=True)
                rig.file(number, "record").write_text(claim)
            await rig.drop_engine()
            await rig.connect(
                [OpenAttempt(number, str(rig.stem(number)), rig.sh(number, "echo ran >>ledger")) for number in claims]
            )
            for number, (_, rebooted) in claims.items():
                end = await rig.end_of(number)
                assert (number, end.lost, end.rebooted, end.exit_code) == (number, True, rebooted, None)
            assert rig.is_alive(bystander.pid)
            assert not (rig.base / "ledger").exists()

    try:
        asyncio.run(scenario())
    finally:
        bystander.kill()
        bystander.wait()


def test_an_end_written_while_nobody_looked_is_read(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "sleep 0.5; exit 44")])
            await rig.until(lambda: rig.runs.get(1) and rig.file(1, "record").exists())
            await rig.kill_supervisor()
            await rig.drop_engine()
            await rig.until(lambda: rig.recorded_exit(1) is not None)
            await asyncio.sleep(0.3)
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            end = await rig.end_of(1)
            assert (end.exit_code, end.lost) == (44, False)
            assert abs(end.at.utc_s - rig.file(1, "record").stat().st_mtime) < 0.001

    asyncio.run(scenario())


def test_what_was_never_started_and_may_not_be_is_lost_for_good(rig: Any) -> None:
    """Opened without a spec and without a claim: the report "lost" must stay true even if a late shim should come."""

    async def scenario() -> None:
        async with rig:
            rig.stem(1).parent.mkdir()
            await rig.drop_engine()
            pruned = rig.base / "no such job" / "2.1"
            await rig.connect([OpenAttempt(1, str(rig.stem(1))), OpenAttempt(2, str(pruned))])
            assert (await rig.end_of(1)).lost
            assert (await rig.end_of(2)).lost
            assert not pruned.parent.exists()
            await rig.engine.forget([1])
            rig.ends.clear()
            end = await rig.run(rig.sh(1, "echo ran >>ledger"))
            assert end.lost and not (rig.base / "ledger").exists()

    asyncio.run(scenario())


def test_a_half_written_exit_is_no_exit(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.spec(1, "sleep", "600")])
            await rig.until(lambda: rig.runs.get(1) and rig.file(1, "record").exists())
            await rig.kill_supervisor()
            await rig.drop_engine()
            shim = rig.runs[1][0].pid
            for pid in (shim, *children_of(shim)):
                os.kill(pid, signal.SIGKILL)
            with rig.file(1, "record").open("a") as record:
                record.write("exited 1")  # of "exited 137\n"
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert (await rig.end_of(1)).lost

    asyncio.run(scenario())


def test_a_supervisor_of_another_version_is_replaced(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from anycard.engines.local import engine

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "sleep 1; exit 3")])
            await rig.until(lambda: rig.runs.get(1) and rig.file(1, "record").exists())
            old = rig.engine.supervisor_pid
            await rig.drop_engine()
            said: list[bytes] = []
            real = engine.wire.line

            def as_if_newer(message: Any) -> bytes:
                # What a newer engine says when the protocol differs: leave.
                said.append(real(message))
                return real({"do": "leave"}) if message == {"do": "hello"} and len(said) == 1 else real(message)

            monkeypatch.setattr(engine.wire, "line", as_if_newer)
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert rig.engine.supervisor_pid != old
            end = await rig.end_of(1)
            assert (end.exit_code, end.lost) == (3, False)

    asyncio.run(scenario())


def test_one_supervisor_a_home(rig: Any) -> None:
    from anycard.engines.local.launch import launch

    async def scenario() -> None:
        async with rig:
            assert launch(rig.paths).wait() == 0
            assert (await rig.run(rig.sh(1, "exit 8"))).exit_code == 8

    asyncio.run(scenario())


def test_it_leaves_when_idle_and_not_before(rig: Any) -> None:
    from anycard.engines.local.engine import LocalEngine

    async def scenario() -> None:
        rig.engine = LocalEngine(rig.paths, idle_exit_s=0.3)
        async with rig:
            await rig.engine.start([rig.sh(1, "sleep 1; exit 3")])
            await rig.until(lambda: rig.runs.get(1))
            pid = rig.engine.supervisor_pid
            await rig.drop_engine()
            await rig.until(lambda: rig.recorded_exit(1) is not None)
            await rig.until(lambda: not rig.is_alive(pid))
            assert not rig.paths.supervisor_socket.exists()
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert (await rig.end_of(1)).exit_code == 3

    asyncio.run(scenario())


def test_a_supervisor_whose_socket_was_removed_is_replaced(rig: Any) -> None:
    """As at a logout, when XDG_RUNTIME_DIR goes, or from a session with another one."""

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "while [ ! -e go ]; do sleep 0.05; done; exit 3")])
            await rig.until(lambda: rig.runs.get(1) and rig.file(1, "record").exists())
            unreachable = rig.engine.supervisor_pid
            await rig.drop_engine()
            rig.paths.supervisor_socket.unlink()
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert rig.engine.supervisor_pid != unreachable
            (rig.base / "go").touch()
            assert (await rig.end_of(1)).exit_code == 3

    asyncio.run(scenario())


def test_nonsense_on_the_socket_harms_nobody(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            for nonsense in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"{}\n",
                b'{"do":"dance"}\n',
                b"[1]\n",
                b"\xff\n",
                b'{"do":"stop"}\n',
            ):
                reader, writer = await asyncio.open_unix_connection(str(rig.paths.supervisor_socket))
                writer.write(nonsense)
                assert await reader.read() == b""
                writer.close()
            pid = rig.engine.supervisor_pid
            assert (await rig.run(rig.sh(1, "exit 8"))).exit_code == 8
            assert rig.engine.supervisor_pid == pid

    asyncio.run(scenario())


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def spec_env(rig: Any, number: int) -> dict[str, str]:
    return {"NUMBER": str(number), "LEDGER": str(rig.base / "ledger")}


def _key(rig: Any) -> str:
    from anycard.engines.local.launch import home_key

    return home_key(rig.paths)
