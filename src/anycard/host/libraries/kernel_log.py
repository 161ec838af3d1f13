"""The kernel's log as it grows (/dev/kmsg): a session gives the lines that came since its last look.

    {"readable": true, "lines": [{"boot_s": 12345.678901, "text": "NVRM: Xid (PCI:0000:65:00): 79, ..."}]}

Reading it needs root, or ``kernel.dmesg_restrict = 0``. ``boot_s`` is the kernel's own clock, which stands still while the machine sleeps.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from anycard.host.host import Json

_PATH = "/dev/kmsg"
_RECORD_BYTES = 8192  # the kernel gives whole records, none is longer
_MOST_LINES = 500  # in one look; a storm goes on in the next


class KernelLog:
    """See ``host.Session``. What was there before the first look is not told."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def look(self) -> Json:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(_PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.lseek(self._descriptor, 0, os.SEEK_END)
            except OSError:
                self.close()
                return {"readable": False, "lines": []}
        lines: list[dict[str, Any]] = []
        for _ in range(_MOST_LINES):
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # records were lost before we read them: go on with the next
                    continue
                self.close()
                return {"readable": False, "lines": lines}
            if not record:
                break
            if (line := _parsed(record)) is not None:
                lines.append(line)
        return {"readable": True, "lines": lines}

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_session() -> KernelLog:
    return KernelLog()


def _parsed(record: bytes) -> dict[str, Any] | None:
    """``6,339,5140900,-;text`` and, on further lines, a dictionary that is left out. The third number is microseconds."""
    head, separator, text = record.decode("utf-8", "replace").partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 3 or not fields[2].isdigit():
        return None
    return {"boot_s": int(fields[2]) / 1e6, "text": text.partition("\n")[0]}
