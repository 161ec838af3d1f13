"""MetaX, by ``mx-smi``."""

from __future__ import annotations

from dataclasses import replace

from anycard.cards import drm, pci, smitable
from anycard.cards.seen import Seen
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "metax"
PCI_VENDOR = "9999"


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    said = ask_tool(host, VENDOR, ("mx-smi",))
    if said is None:
        return ()
    if "MX-SMI" not in said.text:
        raise said.not_understood()
    driver, maca = (
        smitable.banner(said.table, "Kernel Mode Driver Version"),
        smitable.banner(said.table, "MACA Version"),
    )
    return tuple(
        replace(
            seen,
            model=seen.model or "MetaX card",
            driver=driver,
            runtime=f"MACA {maca}" if maca else None,
            device_nodes=("/dev/mxcd", *drm.nodes(host, seen.pci_address)),
        )
        for seen in smitable.rows(said.table)
    )
