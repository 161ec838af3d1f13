"""Kunlunxin, by its ``xpu-smi``. Intel's tool has the same name; this one prints XPU-RT in its banner."""

from __future__ import annotations

from dataclasses import replace

from anycard.cards import pci, smitable
from anycard.cards.seen import Seen
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Reading

VENDOR = "kunlunxin"
PCI_VENDOR = "1d22"


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR):
        return ()
    said = ask_tool(host, VENDOR, ("xpu-smi",))
    if said is None:
        return ()
    if "XPU-RT" not in said.text:
        if "Intel" in said.text:
            return ()
        raise said.not_understood()
    driver, runtime = smitable.banner(said.table, "Driver Version"), smitable.banner(said.table, "XPU-RT Version")
    return tuple(
        replace(
            seen,
            model=f"Kunlunxin {seen.model}" if seen.model else "Kunlunxin card",
            driver=driver,
            runtime=f"XPU-RT {runtime}" if runtime else None,
            device_nodes=(f"/dev/xpu{seen.index}", "/dev/xpuctrl"),
        )
        for seen in _whole(smitable.rows(said.table))
    )


def _whole(rows: tuple[Seen, ...]) -> tuple[Seen, ...]:
    """Virtual functions (``P800 VF``) are left out beside the card that they are parts of: its memory would count twice. Their programs
    are the card's."""
    boards = {_board(seen) for seen in rows if not seen.model.endswith(" VF")}
    whole: list[Seen] = []
    running: dict[str, list[tuple[int, int | None]]] = {}  # of the parts, by their board
    for seen in rows:
        if seen.model.endswith(" VF") and _board(seen) in boards:
            running.setdefault(_board(seen), []).extend(seen.processes or ())
        else:
            whole.append(seen)
    return tuple(
        seen
        if seen.processes is None or seen.model.endswith(" VF")
        else replace(seen, processes=(*seen.processes, *running.get(_board(seen), ())))
        for seen in whole
    )


def _board(seen: Seen) -> str:
    return (seen.pci_address or "").rpartition(".")[0]
