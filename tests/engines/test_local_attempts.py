"""One attempt from start to end: what the program sees, how its end is told, what it may be called."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.local.supervisor import records
from anycard.engines.protocol import Phase

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 1", 1), ("exit 65", 65), ("exit 120", 120), ("exit 121", 121), ("exit 127", 127), ("exit 255", 255),
     ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)],
)  # fmt: skip
def test_the_exit_code_is_the_programs_own(rig: Any, script: str, code: int) -> None:
    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, script))
            assert (end.exit_code, end.lost, end.start_failure, end.stopped_for) == (code, False, None, None)
            assert rig.recorded_exit(1) == code
            assert end.pid is not None and end.at.utc_s <= time.time()

    asyncio.run(scenario())


def test_its_files_are_private_and_lie_side_by_side(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            spec = rig.sh(
                1, "echo out; echo err >&2; umask; : >file", cwd=str(rig.base), umask=0o027, log_header="== begins\n"
            )
            await rig.run(spec)
            assert rig.log(1) == b"== begins\nout\nerr\n0027\n"
            folder = rig.stem(1).parent
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert {path.name for path in folder.iterdir()} == {"1.1.record", "1.1.log", "1.1.output"}
            assert stat.S_IMODE(rig.file(1, "log").stat().st_mode) == 0o600
            assert stat.S_IMODE((rig.base / "file").stat().st_mode) == 0o640
            assert rig.file(1, "output").is_dir()
            assert stat.S_IMODE(rig.paths.supervisor_socket.stat().st_mode) == 0o600
            assert stat.S_IMODE(rig.paths.supervisor_socket.parent.stat().st_mode) == 0o700

    asyncio.run(scenario())


@linux
def test_the_program_starts_clean(rig: Any) -> None:
    """No signal ignored or blocked, no descriptor of ours, no terminal, nothing to read."""
    script = """
import os, sys
for line in open('/proc/self/status'):
    if line.startswith(('SigIgn', 'SigBlk')): print(line.split()[0], int(line.split()[1], 16) & ~(3 << 31))
print([fd for fd in range(64) if os.path.exists(f'/proc/self/fd/{fd}')], os.readlink('/proc/self/fd/0'), sys.stdin.read() == '')
"""

    async def scenario() -> None:
        async with rig:
            # 32 and 33 are the C library's own (its posix_spawn leaves them ignored, for every program it starts).
            # Python itself ignores SIGPIPE (13) and SIGXFSZ (25): those two bits are its own.
            await rig.run(rig.python(1, script))
            assert rig.log(1).decode().splitlines() == [
                "SigBlk: 0",
                f"SigIgn: {1 << 12 | 1 << 24}",
                "[0, 1, 2] /dev/null True",
            ]
            await rig.run(rig.spec(2, "grep", "SigIgn", "/proc/self/status"))
            assert int(rig.log(2).split()[1], 16) & ~(3 << 31) == 0

    asyncio.run(scenario())


def test_arguments_arrive_as_they_are(rig: Any) -> None:
    arguments = (
        "",
        " a  b ",
        "new\nline\n",
        "'\"",
        "$(touch x) `touch x` $HOME",
        "\\n\\0",
        "-n",
        "--",
        "*",
        "é中\udcff",
        ";exit 3",
    )

    async def scenario() -> None:
        async with rig:
            script = "import sys, os; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
            end = await rig.run(rig.python(1, script, *arguments, env={"PYTHONUTF8": "1"}))
            assert end.exit_code == 0
            assert rig.log(1) == b"\0".join(map(os.fsencode, arguments))
            assert not (rig.base / "x").exists()

    asyncio.run(scenario())


def test_the_environment_is_the_whole_and_the_only_one(rig: Any) -> None:
    odd = {
        "EMPTY": "", "LINES_": "a\nb\n", "QUOTES": "'\"`$(id)\\", "BYTES": "\udcff\udc80", "UNI": "é中", "folder": "mine", "status": "s",
        "A-B": "dash", "with.dot": "x y", "BASH_FUNC_module%%": "() {  echo hi\n}", "1X": "digit", "IFS": ":", "ENV": "/nonexistent",
        "OPTIND": "7", "PPID": "1", "LINENO": "x", "PS1": "# ", "BIG": "x" * 100_000,
    }  # fmt: skip

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.spec(1, "env", "-0", env=odd))
            assert end.exit_code == 0, rig.log(1)[-500:]
            seen = dict(entry.split(b"=", 1) for entry in rig.log(1).split(b"\0") if entry)
            assert seen.pop(b"ANYCARD_ATTEMPT_ID").endswith(b":1")
            assert seen.pop(b"PWD") == os.fsencode(rig.base)
            wanted = {"PATH": os.environ["PATH"], **odd}
            assert seen == {os.fsencode(name): os.fsencode(value) for name, value in wanted.items()}

    asyncio.run(scenario())


def test_folders_and_stems_with_any_name(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            cwd = rig.base / "a b\n'c'\" -- $HOME\n"
            cwd.mkdir()
            stem = rig.base / "-a\njob" / "deeper é\udcff" / "-0 .1"
            end = await rig.run(rig.spec(1, "/bin/sh", "-c", "pwd", cwd=str(cwd), stem=str(stem)))
            assert end.exit_code == 0
            assert Path(f"{stem}.log").read_bytes() == os.fsencode(cwd) + b"\n"
            ended = records.read_exit(str(stem))
            assert ended is not None and ended[0] == 0

    asyncio.run(scenario())


def test_a_program_named_as_a_word_of_the_shell_is_a_program(rig: Any) -> None:
    tools = "bin dir"

    async def scenario() -> None:
        async with rig:
            (rig.base / tools).mkdir()
            for name in ("exit", "exec", "cd", "eval", "trap", "echo", "a=b"):
                path = rig.base / tools / name
                path.write_text('#!/bin/sh\nprintf "%s:%s" "${0##*/}" "$1"\nexit 7\n')
                path.chmod(0o755)
            env = {"PATH": f"{rig.base / tools}:/usr/bin:/bin"}
            for number, name in enumerate(("exit", "exec", "cd", "eval", "trap", "echo", "a=b"), start=1):
                end = await rig.run(rig.spec(number, name, "5", env=env))
                assert (end.exit_code, rig.log(number)) == (7, f"{name}:5".encode())

    asyncio.run(scenario())


def test_what_cannot_start_says_why(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            plain = rig.base / "plain"
            plain.write_text("no program")
            cases = [
                (rig.spec(1, "no-such-program", "x"), "the program 'no-such-program' was not found"),
                (rig.spec(2, "/no/such/program"), "the program '/no/such/program' was not found"),
                (rig.spec(3, str(plain)), f"{str(plain)!r} is not a program that may be run"),
                (rig.spec(4, str(rig.base)), f"{str(rig.base)!r} is not a program that may be run"),
                (rig.spec(5, "true", cwd="/no/such\nfolder"), "its folder '/no/such\\nfolder' does not exist"),
                (rig.spec(6, "true", cwd=str(plain)), f"its folder {str(plain)!r} does not exist"),
                (rig.spec(7), "there is no command to run"),
                (rig.spec(8, "true", stem=str(plain / "below")), "Not a directory"),
                (
                    rig.spec(9, "true", "x" * (1 << 20)),
                    "its arguments and environment are larger than the system allows",
                ),
                (rig.spec(10, "true", "a\0b"), "its arguments or environment hold what no program can be given"),
                (rig.spec(11, ""), "the program '' was not found"),
            ]
            await rig.engine.start([spec for spec, _ in cases])
            for spec, why in cases:
                end = await rig.end_of(spec.id)
                assert why in str(end.start_failure), end
                assert (end.exit_code, end.lost) == (None, False)

    asyncio.run(scenario())


def test_asked_twice_it_runs_once(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            spec = rig.sh(1, "echo ran >>ledger; sleep 0.3")
            await rig.engine.start([spec, spec])
            await rig.engine.start([spec])
            await rig.end_of(1)
            await rig.engine.start([spec])  # known and ended: told again
            await asyncio.sleep(0.3)
            assert (rig.base / "ledger").read_text() == "ran\n"
            assert {end.exit_code for end in rig.ends[1]} == {0}
            # Even a supervisor that knows nothing any more does not run it again.
            await rig.engine.forget([1])
            rig.ends.clear()
            assert (await rig.run(spec)).exit_code == 0
            assert (rig.base / "ledger").read_text() == "ran\n"

    asyncio.run(scenario())


def test_of_many_shims_of_one_attempt_one_runs_it(base: Path) -> None:
    """As when supervisors are killed and replaced faster than a shim can claim."""
    from anycard.engines.local.supervisor.folders import Folders
    from anycard.engines.local.supervisor.spawn import CLAIM_FAILED, spawn

    spec = {
        "id": 1, "stem": str(base / "attempt"), "argv": ["/bin/sh", "-c", "echo ran >>ledger; exit 3"], "cwd": str(base),
        "env": {"PATH": os.environ["PATH"]}, "uid": None, "gid": None, "umask": 0o022, "header": "begins\n", "checkpoint": None,
    }  # fmt: skip
    pids = [spawn(spec, {}, "home:1", "boot", [], Folders()) for _ in range(30)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sorted(codes) == [3] + [CLAIM_FAILED] * 29
    assert (base / "ledger").read_text() == "ran\n"
    assert (base / "attempt.log").read_text() == "begins\n"
    ended = records.read_exit(str(base / "attempt"))
    assert ended is not None and ended[0] == 3


def test_a_log_of_50_mb_is_whole(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, "head -c 52428800 /dev/zero; echo end >&2"))
            assert end.exit_code == 0
            assert rig.file(1, "log").stat().st_size == 52428800 + 4
            assert rig.log(1).endswith(b"\0end\n")

    asyncio.run(scenario())


def test_two_hundred_at_once(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(number, f"exit {number % 200}") for number in range(1, 201)])
            for number in range(1, 201):
                assert (await rig.end_of(number)).exit_code == number % 200
            assert all(len(ends) == 1 for ends in rig.ends.values())

    asyncio.run(scenario())


def test_reports_are_repeated_until_forgotten(rig: Any) -> None:
    from anycard.engines.protocol import OpenAttempt

    async def scenario() -> None:
        async with rig:
            await rig.run(rig.sh(1, "exit 4"))
            await rig.run(rig.sh(2, "exit 5"))
            await rig.engine.forget([2])
            await rig.drop_engine()
            rig.ends.clear()
            await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
            assert (await rig.end_of(1)).exit_code == 4
            await rig.run(rig.sh(3, "exit 0"))
            assert set(rig.ends) == {1, 3}

    asyncio.run(scenario())


@linux
def test_usage_is_told(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            script = "import time\nx = bytearray(80 << 20)\nwhile time.process_time() < 0.3: pass"
            end = await rig.run(rig.python(1, script))
            assert end.usage.cpu_s is not None and 0.3 <= end.usage.cpu_s < 30
            assert end.usage.peak_memory_bytes is not None and 80 << 20 <= end.usage.peak_memory_bytes < 200 << 20
            assert end.phase is Phase.ENDED

    asyncio.run(scenario())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: runs an attempt as another user")
def test_an_attempt_as_another_user(rig: Any) -> None:
    script = "id -u; id -g; id -G; umask; touch output.txt; echo x >$ANYCARD_OUTPUT_DIR/file"

    async def scenario() -> None:
        async with rig:
            cwd = rig.base / "theirs"
            cwd.mkdir()
            os.chown(cwd, 65534, 65534)
            folder = rig.base / "1.1"
            stem = folder / "1.1"
            env = {"ANYCARD_OUTPUT_DIR": f"{stem}.output"}
            spec = rig.sh(1, script, uid=65534, gid=65534, cwd=str(cwd), env=env, stem=str(stem))
            end = await rig.run(spec)
            log = Path(f"{stem}.log").read_bytes()
            assert end.exit_code == 0, log
            assert log.split() == [b"65534", b"65534", b"65534", b"0022"]
            assert len(list(folder.rglob("*"))) == 4
            for path in (folder, *folder.rglob("*"), cwd / "output.txt"):
                assert path.stat().st_uid == 65534, path
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert rig.base.stat().st_uid == 0
            no_way_in = Path("/proc/1/root")  # only root may enter
            end = await rig.run(
                rig.sh(2, "true", uid=65534, gid=65534, cwd=str(no_way_in), stem=str(rig.base / "2.1" / "2.1"))
            )
            assert end.start_failure is not None

    asyncio.run(scenario())
