"""Readings over time: a reader a vendor, the sampler that asks them once a second, and the last ten minutes."""

from __future__ import annotations

from collections.abc import Callable

from anycard.cards.readings.reader import Reader
from anycard.host.host import Host


def reader_of(vendor: str, host: Host) -> Reader:
    """The reader for a vendor of ``cards/vendors``: one of its own where it has one, else through its tool."""
    from anycard.cards.readings.cpu import CpuReader
    from anycard.cards.readings.nvidia import NvidiaReader

    own: dict[str, Callable[[Host], Reader]] = {"cpu": CpuReader, "nvidia": NvidiaReader}
    if vendor in own:
        return own[vendor](host)
    from anycard.cards.readings.tools import ToolReader

    return ToolReader(vendor, host)
