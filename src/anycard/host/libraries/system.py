"""What the operating system's own calls say: processors and memory."""

from __future__ import annotations

import os
import platform

from anycard.host.host import Json


def look() -> Json:
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "processor_count": os.cpu_count(),
        "affinity": affinity,  # processors that this process may run on; null where the system has no such thing
        "memory_total_bytes": _memory_bytes(),
        "machine": platform.machine(),
        "processor": platform.processor(),
    }


def _memory_bytes() -> int:
    """Of the machine. The C library says it at once; psutil, which knows every system, takes 40 ms to load."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, macOS no such name
        import psutil

        return int(psutil.virtual_memory().total)
