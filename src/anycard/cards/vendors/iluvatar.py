"""Iluvatar CoreX, by ``ixsmi``."""

from __future__ import annotations

from dataclasses import replace

from anycard.cards import pci, smitable
from anycard.cards.seen import Seen
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "iluvatar"
PCI_VENDOR = "1e3e"


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    said = ask_tool(host, VENDOR, ("ixsmi",))
    if said is None:
        return ()
    if "IX-ML" not in said.text:
        raise said.not_understood()
    driver, cuda = smitable.banner(said.table, "Driver Version"), smitable.banner(said.table, "CUDA Version")
    return tuple(
        replace(
            seen,
            model=seen.model or "Iluvatar card",
            driver=driver,
            runtime=f"CUDA {cuda}" if cuda else None,
            device_nodes=(f"/dev/iluvatar{seen.index}", "/dev/itrctl"),
        )
        for seen in smitable.rows(said.table)
    )
