"""Cambricon, by ``cnmon``. Its JSON is written to a file in the working folder, so the table is read."""

from __future__ import annotations

from dataclasses import replace

from anycard.cards import pci, smitable
from anycard.cards.seen import Seen
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "cambricon"
PCI_VENDOR = "cabc"


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    said = ask_tool(host, VENDOR, ("cnmon",))
    if said is None:
        return ()
    if "CNMON" not in said.text:
        raise said.not_understood()
    driver = smitable.banner(said.table, "CNMON")  # the tool has its driver's version
    return tuple(
        replace(
            seen,
            model=f"Cambricon {seen.model}" if seen.model else "Cambricon card",
            driver=driver,
            device_nodes=(f"/dev/cambricon_dev{seen.index}", "/dev/cambricon_ctl"),
        )
        for seen in smitable.rows(said.table)
    )
