"""The limits on a kernel that has control groups of version 2 alone: the same tests, run inside a guest."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pci_guest
import pytest

import anycard

HERE = Path(__file__).parent
SOURCE = Path(anycard.__file__).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_limits_under_version_2(tmp_path: Path) -> None:
    wanted = pci_guest.missing()
    if wanted:
        pytest.skip(f"a guest needs: apt-get install {wanted}")
    chosen = "test_a_group_holds or test_the_limit or test_the_group or swept or hidden or guest_cgroup_v2"
    command = (
        "mount -t cgroup2 cgroup2 /sys/fs/cgroup && export PYTHONDONTWRITEBYTECODE=1 && "
        f"cd {shlex.quote(str(HERE.parents[1]))} && PYTHONPATH={shlex.quote(str(SOURCE))} {shlex.quote(sys.executable)} -m pytest "
        f"-p no:cacheprovider -q --color=no -k {shlex.quote(chosen)} {HERE / 'test_local_limits.py'} {HERE / 'guest_cgroup_v2.py'}"
    )
    printed = pci_guest.run_inside(command, tmp_path, iommu=False)
    assert re.search(r"^1\d passed", printed, re.MULTILINE), printed[-6000:]
    assert "skipped" not in printed, printed[-6000:]
