"""The machine's clocks, read in one place."""

from __future__ import annotations

import functools
import time
from pathlib import Path

from anycard.model.instant import Instant

# macOS: CLOCK_MONOTONIC counts sleep there. Windows has neither name, and its monotonic clock counts sleep.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> Instant:
    return Instant(time.time(), _boot_s(), boot_id())


def _boot_s() -> float:
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


@functools.cache
def boot_id() -> str:
    """The kernel's boot id; where there is none (macOS), the boot second."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{round(time.time() - _boot_s())}"
