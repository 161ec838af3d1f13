"""Hygon DCU, by ``hy-smi``, or ``rocm-smi`` where DTK has left it that name: a fork with other words and units."""

from __future__ import annotations

from dataclasses import replace

from anycard.cards import drm, kfd, pci, rocmsmi
from anycard.cards.seen import Seen
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "hygon"
PCI_VENDOR = "1d94"
_TOOLS = ("hy-smi", "rocm-smi")


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    fault = None
    for tool in _TOOLS:
        said = ask_tool(host, VENDOR, (tool, *rocmsmi.ARGUMENTS))
        if said is None:
            continue
        cards = rocmsmi.cards(said.text, hygon=True)
        if cards:
            running = kfd.programs(host)
            return tuple(
                replace(
                    seen,
                    model=_model(seen.model),
                    device_nodes=("/dev/kfd", "/dev/mkfd", *drm.nodes(host, seen.pci_address)),
                    processes=None if running is None else running.get(seen.pci_address or "", ()),
                )
                for seen in cards
            )
        if cards is None:
            fault = fault or said.not_understood()
    if fault is not None and pci.scan(host):
        raise fault
    return ()


def _model(name: str) -> str:
    return name if "hygon" in name.lower() else f"Hygon {name}" if name else "Hygon DCU"
