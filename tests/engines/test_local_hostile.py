"""What a program or a client makes up on purpose ends at most its own attempt; the supervisor and everybody else go on."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.local import wire
from anycard.engines.local.supervisor.mishaps import Mishaps
from anycard.engines.protocol import Deadline
from anycard.model.end_reason import EndReason

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes again by /proc")
DEEP = "[" * 50_000
HUGE = 10**400
NOTES = {
    "brackets": DEEP,
    "brackets that close": "[" * 900 + "]" * 900,
    "deep words": '{"cwd": ' + "[" * 900 + "]" * 900 + "}",
    "endless": '{"grace_s": 1e999, "deadlines": [[1e999, "time-limit"], [NaN, "time-limit"]], "memory": 1e999}',
    "huge": f'{{"grace_s": {HUGE}, "deadlines": [[{HUGE}, "time-limit"]]}}',
    "groups": '{"groups": [[[]], "/sys/fs/cgroup/../..", 5], "limits": []}',
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_a_claim_written_by_its_own_program(rig: Any, note: str) -> None:
    """The supervisor that finds it again stays up, the attempt gets one end, and another attempt is as it was."""

    async def scenario() -> None:
        async with rig:
            await rig.engine.start(
                [rig.sh(number, "while [ ! -e go ]; do sleep 0.05; done; exit 3") for number in (1, 2)]
            )
            await rig.until(lambda: all(rig.runs.get(n) and rig.file(n, "record").exists() for n in (1, 2)))
            claim = rig.file(1, "record").read_text().split("\n")
            rig.file(1, "record").write_text("\n".join([*claim[:3], note, ""]))
            await rig.replaced(await rig.kill_supervisor())
            pid = rig.engine.supervisor_pid
            assert (await rig.run(rig.sh(3, "exit 8"))).exit_code == 8
            (rig.base / "go").touch()
            assert (await rig.end_of(2)).exit_code == 3
            end = await rig.end_of(1)
            assert (end.exit_code, end.lost) in ((3, False), (None, True))
            assert rig.engine.supervisor_pid == pid

    asyncio.run(scenario())


FAULT = """
import sys
from anycard.engines.local.supervisor import records
from anycard.engines.local.supervisor.attempts import Attempts

def read_stop(stem, real=records.read_stop):
    if stem.endswith("/1.1"):
        raise RuntimeError("nobody thought of this")
    return real(stem)

records.read_stop = read_stop
reports = []
attempts = Attempts("0123456789ab", "this boot", reports.append, lambda *_: None, lambda *_: None)
attempts.open([{"id": number, "stem": f"{sys.argv[1]}/{number}.1", "spec": None} for number in (1, 2)])
while attempts.busy:
    attempts.turn()
print([(end["id"], end["exit_code"], end["lost"]) for end in reports if end["phase"] == "ended"])
"""


def test_what_nobody_thought_of_ends_one_attempt(tmp_path: Path) -> None:
    """In a process of its own: who runs attempts becomes the parent of orphans."""
    for number in (1, 2):
        (tmp_path / f"{number}.1.record").write_text("77\n\nanother boot\n{}\nexited 4\n")
    ran = subprocess.run([sys.executable, "-c", FAULT, tmp_path], capture_output=True, text=True, check=False)
    assert sorted(ast.literal_eval(ran.stdout)) == [(1, None, True), (2, 4, False)], ran.stderr
    assert ran.stderr.startswith("attempt 1 is given up: RuntimeError at read_stop")
    assert ran.stderr.count("\n") == 1


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "env is no mapping": lambda spec: spec | {"env": 5},
    "env holds no words": lambda spec: spec | {"env": {"A": 5}},
    "deadlines of words": lambda spec: spec | {"deadlines": [["a", "b"]]},
    "endless deadline": lambda spec: spec | {"deadlines": [[float("inf"), "time-limit"]]},
    "argv is a word": lambda spec: spec | {"argv": "true"},
    "no umask": lambda spec: spec | {"umask": None},
    "grace": lambda spec: spec | {"grace_s": "long"},
    "memory": lambda spec: spec | {"memory": "much"},
    "id": lambda spec: spec | {"id": [1]},
    "stem": lambda spec: spec | {"stem": "a\0b"},
    "a list": lambda spec: [spec],
    "nothing": lambda spec: None,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_spec_that_is_none_drops_its_client_alone(rig: Any, broken: Callable[[dict[str, Any]], Any]) -> None:
    async def scenario() -> None:
        async with rig:
            pid = rig.engine.supervisor_pid
            spec = broken(wire.spec_to_json(rig.sh(1, "echo ran >ran")))
            for message in ({"do": "start", "spec": spec}, {"do": "open", "attempts": [spec, {"id": 1, "stem": 5}]}):
                assert await say(rig, json.dumps(message).encode()) == b""
            # Nothing of it is left behind: the same number starts as if never named.
            assert (await rig.run(rig.sh(1, "exit 8"))).exit_code == 8
            assert rig.engine.supervisor_pid == pid
            assert not (rig.base / "ran").exists()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "message",
    [
        DEEP,
        '{"do": "stop", "id": 1, "why": 5, "grace_s": 1}',
        '{"do": "stop", "id": 1, "why": "cancelled", "grace_s": "a"}',
        f'{{"do": "stop", "id": 1, "why": "cancelled", "grace_s": {HUGE}}}',
        '{"do": "stop", "id": [], "why": "cancelled", "grace_s": 1}',
        '{"do": "forget", "ids": 5}',
        "5",
        "null",
    ],
    ids=range(8),
)
def test_a_message_that_is_none_stops_nothing(rig: Any, message: str) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "while [ ! -e go ]; do sleep 0.05; done; exit 3")])
            await rig.until(lambda: rig.runs.get(1))
            pid = rig.engine.supervisor_pid
            assert await say(rig, message.encode()) == b""
            (rig.base / "go").touch()
            end = await rig.end_of(1)
            assert (end.exit_code, end.stopped_for) == (3, None)
            assert rig.engine.supervisor_pid == pid

    asyncio.run(scenario())


def test_the_log_of_mishaps_does_not_grow_without_end_or_tell_secrets() -> None:
    said = io.StringIO()
    mishaps = Mishaps()
    with contextlib.redirect_stderr(said):
        for _ in range(1000):
            try:
                raise ValueError("token=hunter2")
            except ValueError as error:
                mishaps.note("attempt 1 is given up", error)
    lines = said.getvalue().splitlines()
    assert 0 < len(lines) < 100
    assert lines[0].startswith("attempt 1 is given up: ValueError at ")
    assert "hunter2" not in said.getvalue()


@pytest.mark.parametrize("code", [1, 120, 121, 137])
@pytest.mark.parametrize("lie", ["exited 0", "cannot-start program-missing", "exited 120"])
def test_an_exit_file_written_by_the_program_itself(rig: Any, code: int, lie: str) -> None:
    """The program's real end counts, now and for whoever reads the record later: the shim writes after it."""

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, f"echo '{lie}' >>'{rig.file(1, 'record')}'; exit {code}"))
            assert (end.exit_code, end.lost, end.start_failure) == (code, False, None)
            assert rig.recorded_exit(1) == code

    asyncio.run(scenario())


def test_a_success_forged_before_the_shim_is_killed(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, f"echo 'exited 0' >>'{rig.file(1, 'record')}'; kill -9 $PPID; sleep 600"))
            assert (end.exit_code, end.lost) == (137, False)

    asyncio.run(scenario())


@pytest.mark.parametrize("deadlines", [(), (Deadline(0.5, EndReason.TIME_LIMIT),)], ids=["no limit", "past its limit"])
def test_a_paused_shim_is_woken_when_it_is_alone(rig: Any, deadlines: tuple[Deadline, ...]) -> None:
    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, "kill -STOP $PPID; exit 3", deadlines=deadlines, stop_grace_s=600))
            assert end.exit_code == 3

    asyncio.run(scenario())


async def say(rig: Any, message: bytes) -> bytes:
    """What the supervisor answers a client of its own, until it drops that client."""
    reader, writer = await asyncio.open_unix_connection(str(rig.paths.supervisor_socket))
    writer.write(message + b"\n")
    answer: bytes = await reader.read()
    writer.close()
    return answer
