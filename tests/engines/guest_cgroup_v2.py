"""What version 2 of control groups alone can do. Collected only inside a guest, by test_local_guest.py."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from anycard.engines.local.launch import home_key
from anycard.engines.local.supervisor import cgroups
from anycard.model.end_reason import EndReason

MIB = 1 << 20
# Each of its processes lives a moment: none is there any more when it is looked at.
HOPPING = """
import os, time
os.unsetenv("ANYCARD_ATTEMPT_ID")
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
print("hopping", flush=True)
time.sleep(600)
"""


def place(rig: Any) -> Path:
    return Path(f"/sys/fs/cgroup/anycard-{home_key(rig.paths)}")


def test_one_place_holds_memory_and_cpus() -> None:
    (found,) = cgroups.find_places("anycard-test-v2")
    os.rmdir(found.folder)
    assert (found.version, found.controllers) == (2, {"memory", "cpu"})


def test_a_program_sees_its_limits(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            script = 'cd "/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)" && cat memory.max cpu.max cpu.weight'
            spec = rig.sh(1, script, memory_bytes=64 * MIB, cpus=1.5)
            end = await rig.run(spec)
            assert (end.exit_code, end.limits) == (0, "cgroup"), rig.log(1)
            limits = [str(64 * MIB), "150000 100000", "150"]
            assert [line for line in rig.log(1).decode().split("\n") if line in limits] == limits

    asyncio.run(scenario())


def test_what_forks_all_the_time_ends_with_its_group(rig: Any) -> None:
    async def scenario() -> None:
        async with rig:
            await rig.engine.start([rig.python(1, HOPPING, cpus=1.0)])
            await rig.until(lambda: rig.runs.get(1) and b"hopping" in rig.log(1))
            await rig.engine.stop(1, EndReason.CANCELLED, 0)
            end = await rig.end_of(1)
            assert end.stopped_for is EndReason.CANCELLED
            assert not (place(rig) / "1").exists()  # the kernel removes no group with a process in it

    asyncio.run(scenario())


def test_what_the_kernel_killed_is_read_from_its_events(rig: Any) -> None:
    """Its own group counts, also when the program goes on and makes groups below."""
    script = """
import os
below = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split(":", 2)[2] + "/below"
os.mkdir(below)
if os.fork() == 0:
    open(below + "/cgroup.procs", "w").write("0")
    kept = [bytearray(1 << 20) for _ in range(200)]
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == -9
"""

    async def scenario() -> None:
        async with rig:
            end = await rig.run(rig.python(1, script, memory_bytes=64 * MIB))
            assert (end.exit_code, end.out_of_memory, end.limits) == (0, True, "cgroup"), rig.log(1)
            assert not (place(rig) / "1").exists()

    asyncio.run(scenario())
