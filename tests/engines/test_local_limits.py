"""Memory and CPU limits: by control groups where this machine lets us make them, else watched."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from anycard.engines.local.supervisor import cgroups, spawn
from anycard.engines.local.supervisor.folders import Folders
from anycard.engines.protocol import OpenAttempt
from anycard.model.end_reason import EndReason

MIB = 1 << 20
FILL = """
import sys, time
kept = []
for _ in range(int(sys.argv[1])):
    kept.append(bytearray(1 << 20))
    time.sleep(float(sys.argv[2]))
print('filled', flush=True)
"""


@pytest.fixture(scope="module")
def controllers() -> frozenset[str]:
    """Those that can be held by control groups here."""
    places = cgroups.find_places("anycard-test-places")
    for place in places:
        os.rmdir(place.folder)
    return frozenset().union(*(place.controllers for place in places))


@pytest.fixture
def memory_groups(controllers: frozenset[str]) -> None:
    if "memory" not in controllers:
        pytest.skip("needs a memory control group that this user may make (root, or a delegated cgroup v2 subtree)")


def groups_named(part: str) -> list[str]:
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if part in path]


@pytest.mark.usefixtures("memory_groups")
def test_a_group_holds_the_memory_limit(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.python(1, FILL, "200", "0", memory_bytes=64 * MIB))
            assert (end.exit_code, end.out_of_memory, end.limits, end.stopped_for) == (137, True, "cgroup", None)
            assert rig.log(1).count(b"filled") == 0
            end = await rig.run(rig.python(2, FILL, "20", "0", memory_bytes=64 * MIB))
            assert (end.exit_code, end.out_of_memory, end.limits) == (0, False, "cgroup")
            end = await rig.run(rig.python(3, FILL, "20", "0"))
            assert (end.exit_code, end.limits) == (0, "none")
            end = await rig.run(rig.python(4, FILL, "20", "0", memory_bytes=4096))  # too little even for a shell
            assert (end.out_of_memory, end.start_failure) == (True, None)

    asyncio.run(scenario())
    assert groups_named(_key(rig)) == []


@pytest.mark.usefixtures("memory_groups")
def test_the_limit_counts_all_processes_together(rig: Any) -> None:
    script = f"for n in 1 2 3 4; do {_python()} -S -c '{FILL}' 30 0.01 & done; wait"

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.sh(1, script, memory_bytes=80 * MIB))
            assert end.out_of_memory

    asyncio.run(scenario())


@pytest.mark.usefixtures("memory_groups")
def test_the_group_of_another_user(rig: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: runs an attempt as another user")

    async def scenario() -> None:
        async with rig:
            stem = str(rig.base / "1.1" / "1.1")
            spec = rig.sh(1, "id -u; cat /proc/self/cgroup", memory_bytes=64 * MIB, uid=65534, gid=65534, stem=stem)
            end = await rig.run(spec)
            log = Path(f"{stem}.log").read_bytes()
            assert (end.exit_code, end.limits) == (0, "cgroup"), log
            assert log.startswith(b"65534\n")
            assert f"anycard-{_key(rig)}/1".encode() in log

    asyncio.run(scenario())


def test_a_group_holds_the_cpu_limit(rig: Any, controllers: frozenset[str]) -> None:
    if "cpu" not in controllers:
        pytest.skip("needs a cpu control group that this user may make")

    async def scenario() -> None:
        async with rig:
            for number, cpus in enumerate((0.25, 1.5), start=1):
                await rig.engine.start([rig.sh(number, "cat /proc/self/cgroup; exec sleep 600", cpus=cpus)])
                mine = f"/anycard-{_key(rig)}/{number}\n".encode()
                # The program itself is in it; with version 2 alone the file has this one line.
                await rig.until(lambda number=number, mine=mine: rig.runs.get(number) and mine in rig.log(number))
                assert rig.runs[number][0].limits == "cgroup"
                (own,) = [Path(path) for path in groups_named(_key(rig)) if path.endswith(f"/{number}")]
                quota, period = _cpu_quota(own)
                assert quota / period == max(1.0, cpus)  # a fraction is a share, never throttling below one CPU
                assert _cpu_share(own) == cpus
                assert _cpu_share(own.parent) == os.cpu_count()  # else all attempts together would weigh as one process
                (own / "made by the program").mkdir()
                await rig.engine.stop(number, EndReason.CANCELLED, 0)
                await rig.end_of(number)

    asyncio.run(scenario())
    assert groups_named(_key(rig)) == []


def test_groups_of_a_killed_supervisor_are_swept(rig: Any, controllers: frozenset[str]) -> None:
    if "cpu" not in controllers:
        pytest.skip("needs a cpu control group that this user may make")

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(number, "exec sleep 600", cpus=1.0) for number in (1, 2)])
            await rig.until(lambda: len(rig.runs) == 2)
            mine, gone = (
                [Path(path) for path in groups_named(_key(rig)) if path.endswith(end)] for end in ("/1", "/2")
            )
            assert mine and gone
            await rig.until(lambda: all((path / "cgroup.procs").read_text() for path in (*mine, *gone)))
            await rig.kill_supervisor()
            await rig.drop_engine()
            for path in gone:
                for pid in (path / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                await rig.until(lambda path=path: not (path / "cgroup.procs").read_text())
            other = gone[0].parent.with_name("anycard-of-another-home") / "2"
            other.mkdir(parents=True)
            try:
                await rig.connect([OpenAttempt(1, str(rig.stem(1)))])
                await rig.until(lambda: not any(path.exists() for path in gone))
                assert all(path.exists() for path in mine)
                assert other.exists()
            finally:
                other.rmdir()
                other.parent.rmdir()
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            await rig.end_of(1)

    asyncio.run(scenario())
    assert groups_named(_key(rig)) == []


def test_the_limit_is_never_an_address_space_limit(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.run(rig.sh(1, "ulimit -v; ulimit -m", memory_bytes=64 * MIB))
            assert rig.log(1) == b"unlimited\nunlimited\n"

    asyncio.run(scenario())


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_without_groups_memory_is_watched(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without control groups: the supervisor is started where it sees no mount of them (unshare), nothing is faked."""
    _hide_cgroups(rig, monkeypatch)

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.python(1, FILL, "400", "0.02", memory_bytes=60 * MIB))
            assert (end.limits, end.out_of_memory, end.stopped_for) == ("watched", True, EndReason.OUT_OF_MEMORY)
            assert b"filled" not in rig.log(1)
            assert end.usage.peak_memory_bytes is not None and end.usage.peak_memory_bytes > 60 * MIB
            end = await rig.run(rig.python(2, FILL, "20", "0.1", memory_bytes=60 * MIB))
            assert (end.limits, end.out_of_memory, end.exit_code) == ("watched", False, 0)

    asyncio.run(scenario())


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc")
def test_pages_shared_by_forked_workers_are_not_counted_twice(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _hide_cgroups(rig, monkeypatch)
    script = """
import os, time
data = bytearray(40 << 20)
workers = [os.fork() for _ in range(4)]  # each forks the rest: 16 processes of 40 MiB resident, 40 MiB in truth
time.sleep(3.5)
"""

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.python(1, script, memory_bytes=200 * MIB))
            assert (end.limits, end.exit_code, end.out_of_memory) == ("watched", 0, False)
            assert end.usage.peak_memory_bytes is not None and end.usage.peak_memory_bytes > 200 * MIB

    asyncio.run(scenario())


def test_what_is_hidden_in_a_group_below_ours_is_found(rig: Any, controllers: frozenset[str]) -> None:
    """A program that may make groups hides a process there, with another session and nothing in its environment."""
    if "cpu" not in controllers:
        pytest.skip("needs a cpu control group that this user may make")
    script = """
import os, sys, time
if os.fork():
    os.wait()
    sys.exit(0)
os.setsid()
os.unsetenv("ANYCARD_ATTEMPT_ID")
for line in open("/proc/self/cgroup"):
    controllers, path = line.strip().split(":", 2)[1:]
    for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"):
        folder = root + path + "/below"
        if sys.argv[1] in path and os.path.isdir(root + path) and not os.path.isdir(folder):
            os.mkdir(folder)
            open(folder + "/cgroup.procs", "w").write("0")
if os.fork():
    os._exit(0)
print(os.getpid(), open("/proc/self/cgroup").read().count("/below"), flush=True)
os.execve("/bin/sleep", ["sleep", "600"], {})
"""

    async def scenario() -> None:
        async with rig:
            # While another attempt runs that could own it, only its group tells whose it is.
            await rig.engine.start([rig.sh(1, "exec sleep 600")])
            await rig.until(lambda: rig.runs.get(1))
            end = await rig.run(rig.python(2, script, _key(rig), cpus=1.0))
            assert end.exit_code == 0, rig.log(2)
            pid, below = map(int, rig.log(2).split())
            assert below > 0
            assert end.left_behind == 1
            assert not rig.is_alive(pid)
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            await rig.end_of(1)

    asyncio.run(scenario())
    assert groups_named(_key(rig)) == []


def test_a_program_can_read_what_its_group_allows(rig: Any, controllers: frozenset[str]) -> None:
    """JVM, Go and others size themselves by it, whoever they run as."""
    if "cpu" not in controllers:
        pytest.skip("needs a cpu control group that this user may make")

    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.sh(1, "exec sleep 600", cpus=1.0)])
            await rig.until(lambda: rig.runs.get(1))
            for path in groups_named(_key(rig)):
                assert Path(path).stat().st_mode & 0o777 == 0o755
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            await rig.end_of(1)

    asyncio.run(scenario())


def test_a_spared_service_does_not_hand_that_on(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OOMScoreAdjust of the unit is for the queue, not for what it runs."""
    score = base / "oom_score_adj"
    monkeypatch.setattr(spawn, "_OOM_SCORE", str(score))
    score.write_text("0\n")
    assert spawn._unshield() == []
    score.write_text("-500\n")
    assert spawn._unshield() == [str(score)]
    monkeypatch.setattr(spawn, "_UNSHIELD", spawn._unshield())
    (base / "job").mkdir()
    spec = {
        "stem": str(base / "job/1.1"), "cwd": str(base), "argv": ["true"], "env": {"PATH": os.environ["PATH"]}, "uid": None, "gid": None,
        "umask": 0o22, "header": "", "checkpoint": None,
    }  # fmt: skip
    pid = spawn.spawn(spec, {}, "key:1", "boot", [], Folders())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert score.read_text() == "0\n"


def test_places_are_searched_from_our_own_group_upwards(tmp_path: Path) -> None:
    (tmp_path / "mount/a/b c").mkdir(parents=True)
    mount = str(tmp_path / "mount")
    assert cgroups._upwards(mount, "/", "/a/b c") == [f"{mount}/a/b c", f"{mount}/a", mount]
    assert cgroups._upwards(mount, "/docker/x", "/docker/x/a") == [f"{mount}/a", mount]
    assert cgroups._upwards(mount, "/docker/x", "/docker/xy") == [mount]
    assert cgroups._upwards(mount, "/", "/../../elsewhere") == [mount]


def test_a_mount_without_controllers_is_no_place(tmp_path: Path) -> None:
    """As the version 2 mount of a machine that uses version 1."""
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(f"30 1 0:1 / {tmp_path} rw - cgroup2 cgroup2 rw\n31 1 0:2 / {tmp_path} rw - tmpfs tmpfs rw\n")
    own = tmp_path / "own"
    own.write_text("0::/\n")
    assert cgroups.find_places("anycard-x", str(mountinfo), str(own)) == []


def test_a_claim_names_no_group_but_its_own() -> None:
    found = cgroups.Cgroups("key")
    for folder in (
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/tmp/anycard-key/5",
        "/sys/fs/cgroup/memory/../../../tmp/anycard-key/5",
    ):
        assert found.existing(5, [folder]) is None


def _hide_cgroups(rig: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    import subprocess
    import sys

    unshare = shutil.which("unshare")
    # every mount of them, wherever it is; those below go before those above
    hide = (
        'for point in $(grep " - cgroup" /proc/self/mountinfo | cut -d " " -f 5 | sort -r); do umount -l "$point"; done; '
        '! grep -q " - cgroup" /proc/self/mountinfo'
    )
    if (
        unshare is None
        or subprocess.run([unshare, "-m", "sh", "-c", hide], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs unshare(1) of util-linux and the right to unmount in a namespace of its own")
    python = rig.base / "python"
    python.write_text(f'#!/bin/sh\nexec {unshare} -m sh -c \'{hide}; exec "$@"\' sh {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    rig.interpreter = _python()


def _python() -> str:
    return os.path.realpath("/proc/self/exe")


def _cpu_share(group: Path) -> float:
    """Of a whole CPU's, where CPUs are short."""
    if (group / "cpu.weight").exists():
        return float((group / "cpu.weight").read_text()) / 100
    return float((group / "cpu.shares").read_text()) / 1024


def _cpu_quota(group: Path) -> tuple[float, float]:
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
        return float(quota), float(period)
    return float((group / "cpu.cfs_quota_us").read_text()), float((group / "cpu.cfs_period_us").read_text())


def _key(rig: Any) -> str:
    from anycard.engines.local.launch import home_key

    key = home_key(rig.paths)
    assert re.fullmatch(r"[0-9a-f]{12}", key)
    return key
