from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.cards.vendors import cpu
from anycard.host.bundle import Bundle
from anycard.host.host import CommandResult, FileRead
from anycard.host.recorded import RecordedHost
from anycard.units import GIB, MIB

V2_MOUNT = "34 24 0:29 {root} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
V1_MOUNTS = (
    "35 24 0:30 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "36 24 0:31 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def machine(files: dict[str, str] | None = None, **system: Any) -> RecordedHost:
    answers = {
        "processor_count": 8,
        "affinity": list(range(8)),
        "memory_total_bytes": 64 * GIB,
        "machine": "x86_64",
        "processor": "",
    } | system
    return RecordedHost(
        Bundle(
            files={path: FileRead(text.encode()) for path, text in (files or {}).items()}, libraries={"system": answers}
        )
    )


def v2(group: str, root: str = "/", **files: str) -> dict[str, str]:
    return {
        "/proc/self/cgroup": f"0::{group}\n",
        "/proc/self/mountinfo": V2_MOUNT.format(root=root),
        **{f"/sys/fs/cgroup{path}": text for path, text in files.items()},
    }


def test_without_limits_everything_is_ours() -> None:
    (card,) = cpu.find(machine())
    assert (card.id, card.cores, card.memory_bytes, card.architecture) == ("cpu", 8.0, 64 * GIB, "x86_64")


def test_affinity_counts() -> None:
    (card,) = cpu.find(machine(affinity=[0, 2, 5]))
    assert card.cores == 3.0


def test_a_system_without_affinity_counts_its_processors() -> None:
    (card,) = cpu.find(machine(affinity=None))
    assert card.cores == 8.0


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        (v2("/a/b", **{"/a/b/cpu.max": "150000 100000\n", "/a/b/memory.max": f"{2 * GIB}\n"}), 1.5, 2 * GIB),
        (
            v2("/a/b", **{"/a/b/cpu.max": "max 100000\n", "/a/cpu.max": "400000 100000", "/a/memory.max": "max"}),
            4.0,
            64 * GIB,
        ),
        (v2("/", **{"/cpu.max": "50000 100000"}), 0.5, 64 * GIB),  # inside a container's own namespace
        (
            v2("/docker/x", root="/docker/x", **{"/cpu.max": "50000 100000"}),
            0.5,
            64 * GIB,
        ),  # the host's view of the path
        (v2("/../../other", root="/", **{"/cpu.max": "garbage"}), 8.0, 64 * GIB),
        (v2("/a", **{"/a/cpu.max": "100000 0"}), 8.0, 64 * GIB),
        (
            {
                "/proc/self/cgroup": "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n",
                "/proc/self/mountinfo": V1_MOUNTS.format(root="/"),
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{512 * MIB}\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            2.5,
            512 * MIB,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/job\n2:cpu,cpuacct:/job\n",
                "/proc/self/mountinfo": V1_MOUNTS.format(root="/"),
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
            },
            8.0,
            64 * GIB,
        ),
    ],
)
def test_control_groups_limit(files: dict[str, str], cores: float, memory: int) -> None:
    (card,) = cpu.find(machine(files))
    assert (card.cores, card.memory_bytes) == (cores, memory)


def test_a_quota_above_the_affinity_grants_no_more() -> None:
    (card,) = cpu.find(machine(v2("/", **{"/cpu.max": "1600000 100000"}), affinity=[1]))
    assert card.cores == 1.0


def test_the_model_as_its_maker_calls_it() -> None:
    (card,) = cpu.find(machine({"/proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)   Gold 6330 CPU\n"}))
    assert card.model == "Intel(R) Xeon(R) Gold 6330 CPU"


def test_arm_names_come_from_lscpu() -> None:
    arm = RecordedHost(
        Bundle(
            files={"/proc/cpuinfo": FileRead(b"processor\t: 0\nCPU part\t: 0xd0c\n")},
            commands={
                ("lscpu",): CommandResult(("lscpu",), 0, b"Architecture: aarch64\nModel name:          Neoverse-N1\n")
            },
            libraries={"system": {"affinity": [0], "machine": "aarch64"}},
        )
    )
    (card,) = cpu.find(arm)
    assert (card.model, card.memory_bytes) == ("Neoverse-N1", None)


def test_the_numa_node_that_holds_all_of_our_cores() -> None:
    bundle = Bundle(
        folders={"/sys/devices/system/node": ("has_cpu", "node0", "node1", "possible")},
        files={
            "/sys/devices/system/node/node0/cpulist": FileRead(b"0-3,8\n"),
            "/sys/devices/system/node/node1/cpulist": FileRead(b"4-7\n"),
        },
        libraries={"system": {"affinity": [4, 6]}},
    )
    assert cpu.find(RecordedHost(bundle))[0].numa_node == 1
    bundle.libraries["system"] = {"affinity": [3, 4]}
    assert cpu.find(RecordedHost(bundle))[0].numa_node is None


@given(st.sets(st.integers(0, 300)))
def test_a_cpulist_reads_back(processors: set[int]) -> None:
    assert cpu.parse_cpulist(",".join(map(str, sorted(processors)))) == processors


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=20))
def test_garbage_in_the_kernels_files_is_survived(group: str, mounts: str, value: str) -> None:
    files = {"/proc/self/cgroup": group, "/proc/self/mountinfo": mounts + " - cgroup2 x rw", "/proc/cpuinfo": value}
    (card,) = cpu.find(machine({**files, "/sys/fs/cgroup/cpu.max": value}))
    assert card.cores == 8.0
