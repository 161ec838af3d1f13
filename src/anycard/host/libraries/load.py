"""How busy the machine is, where no /proc says it: processor time since boot, and memory."""

from __future__ import annotations

from anycard.host.host import Json


def look() -> Json:
    import psutil

    times = psutil.cpu_times()
    memory = psutil.virtual_memory()
    return {
        "busy_s": sum(times) - times.idle,
        "idle_s": times.idle,
        "memory_used_bytes": memory.total - memory.available,
        "memory_total_bytes": memory.total,
    }
