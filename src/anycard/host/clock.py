"""The machine's clocks, read in one place."""

from __future__ import annotations

import functools
import time
from pathlib import Path

from anycard.model.instant import Instant

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # macOS: CLOCK_MONOTONIC counts sleep there


def now() -> Instant:
    return Instant(time.time(), time.clock_gettime(_BOOTTIME), boot_id())


@functools.cache
def boot_id() -> str:
    """The kernel's boot id; where there is none (macOS), the boot second."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{round(time.time() - time.clock_gettime(_BOOTTIME))}"
