"""Readings over time: a reader a vendor, the sampler that asks them once a second, and the last ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anycard.cards.readings.reader import Reader
from anycard.host.host import Host
from anycard.model.card import Card


def reader_of(name: str, host: Host, cards: Callable[[], Sequence[Card]] = tuple) -> Reader:
    """The reader for a vendor of ``cards/vendors``: one of its own where it has one, else through its tool. ``kernel`` reads the kernel's
    log, for which ``cards`` says what stands at which address."""
    from anycard.cards.readings import kernel, sysfs
    from anycard.cards.readings.cpu import CpuReader
    from anycard.cards.readings.nvidia import NvidiaReader
    from anycard.cards.readings.tools import ToolReader
    from anycard.cards.vendors import amd, intel

    if name == kernel.NAME:
        return kernel.KernelReader(host, cards)
    if name == "cpu":
        return CpuReader(host)
    if name == "nvidia":
        return NvidiaReader(host)
    if name == amd.VENDOR and amd.devices(host):
        return sysfs.SysfsReader(name, host, sysfs.amd_cards)
    if name == intel.VENDOR and intel.devices(host):
        return sysfs.SysfsReader(name, host, sysfs.intel_cards)
    return ToolReader(name, host)
