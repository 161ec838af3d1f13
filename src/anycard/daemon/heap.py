"""glibc gives each thread a heap of its own, and what one has freed the others cannot use: a daemon whose worker threads take turns grows
for hours by what lies about in them."""

from __future__ import annotations

import ctypes
import sys

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Has all threads of this process allocate from one. To be called before there are any; does nothing where malloc is not glibc's."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
