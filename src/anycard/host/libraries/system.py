"""What the operating system's own calls say: processors and memory."""

from __future__ import annotations

import os
import platform

from anycard.host.host import Json


def look() -> Json:
    import psutil

    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "processor_count": os.cpu_count(),
        "affinity": affinity,  # processors that this process may run on; null where the system has no such thing
        "memory_total_bytes": psutil.virtual_memory().total,
        "machine": platform.machine(),
        "processor": platform.processor(),
    }
