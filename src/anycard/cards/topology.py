"""How each two cards reach each other: by a fabric (NVLink, XGMI, HCCS), over the PCI bus, or across sockets.

A fabric comes from its driver (NVML, KFD's topology in sysfs, ``npu-smi info -t topo``); the way over the bus from NVML, else from the
cards' paths in sysfs, which any vendor's cards have: so also two makers' cards have a link.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from anycard.cards import kfd, pci
from anycard.cards.problem import VendorFault
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card, Link, LinkKind

Pair = tuple[str, str]  # ids, in order
_Found = dict[Pair, tuple[LinkKind, int | None]]

# nvmlGpuTopologyLevel_t
_LEVELS = {
    0: LinkKind.PCIE_SWITCH,  # two on one board, behind its own bridge
    10: LinkKind.PCIE_SWITCH,
    20: LinkKind.PCIE_SWITCHES,
    30: LinkKind.HOST_BRIDGE,
    40: LinkKind.NUMA_NODE,
    50: LinkKind.SOCKET,
}
# What people read in `nvidia-smi topo -m`
LETTERS = {
    LinkKind.PCIE_SWITCH: "PIX",
    LinkKind.PCIE_SWITCHES: "PXB",
    LinkKind.HOST_BRIDGE: "PHB",
    LinkKind.NUMA_NODE: "NODE",
    LinkKind.SOCKET: "SYS",
    LinkKind.UNKNOWN: "?",
}
_FABRICS = {"nvidia": "NV", "amd": "XGMI", "hygon": "XGMI", "ascend": "HCCS"}


def links(host: Host, cards: Sequence[Card]) -> tuple[Link, ...]:
    """One link for each two accelerators, by id, ``a < b``. Instances have none: they cannot reach each other, and their whole card is
    there."""
    held = [card for card in cards if card.is_accelerator and card.part_of is None]
    if len(held) < 2:
        return ()
    found: _Found = {}
    for ask in (_by_path, _by_nvml, _by_kfd, _by_npu_smi):  # the later know better
        found |= ask(host, held)
    pairs = sorted(_pair(a, b) for a, b in combinations(held, 2))
    return tuple(Link(*pair, *found.get(pair, (LinkKind.UNKNOWN, None))) for pair in pairs)


def letters(link: Link) -> str:
    """``NV12``, ``XGMI``, ``PIX`` ... as in ``nvidia-smi topo -m``."""
    if link.kind is LinkKind.FABRIC:
        return f"{_FABRICS.get(link.a.partition(':')[0], 'FABRIC')}{link.lanes or ''}"
    return LETTERS[link.kind]


def _pair(a: Card, b: Card) -> Pair:
    return (a.id, b.id) if a.id < b.id else (b.id, a.id)


def _each(cards: Sequence[Card], vendor: str, key: Callable[[Card], object]) -> dict[object, Card]:
    return {key(card): card for card in cards if card.vendor == vendor and key(card) is not None}


# ---- the bus


def _by_path(host: Host, cards: Sequence[Card]) -> _Found:
    paths = {card.id: path for card in cards if (path := _path(host, card)) is not None}
    nodes = {card.id: card.numa_node for card in cards}
    return {(a, b): (_way(paths[a], paths[b], nodes[a], nodes[b]), None) for a, b in combinations(sorted(paths), 2)}


def _path(host: Host, card: Card) -> tuple[str, ...] | None:
    """``("pci0000:00", "0000:00:01.0", "0000:01:00.0")``: the root and every bridge down to the card."""
    target = host.readlink(f"{pci.DEVICES}/{card.pci_address}") if card.pci_address else None
    parts = tuple(
        part for part in (target or "").split("/") if re.fullmatch(r"pci[0-9a-f]{4,}:[0-9a-f]{2}|[0-9a-f:.]{12,}", part)
    )
    return parts if parts[:1] and parts[0].startswith("pci") else None


def _way(a: Sequence[str], b: Sequence[str], node_a: int | None, node_b: int | None) -> LinkKind:
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared >= 2:
        # below the common bridge: a port of the switch and the card, or more ports of more switches
        return LinkKind.PCIE_SWITCH if max(len(a), len(b)) - shared <= 2 else LinkKind.PCIE_SWITCHES
    if shared == 1:
        return LinkKind.HOST_BRIDGE
    if node_a is None or node_b is None:
        return LinkKind.UNKNOWN
    return LinkKind.NUMA_NODE if node_a == node_b else LinkKind.SOCKET


# ---- fabrics


def _by_nvml(host: Host, cards: Sequence[Card]) -> _Found:
    ours = _each(cards, "nvidia", lambda card: card.pci_address)
    if len(ours) < 2:
        return {}
    seen = host.ask("nvml_links") or {}
    by_index = {one["index"]: ours.get(pci.normal_address(one["pci"].get("value"))) for one in seen.get("cards", ())}
    found: _Found = {}
    for a, b, level in seen.get("pairs", ()):
        first, second = by_index.get(a), by_index.get(b)
        if first is not None and second is not None and level.get("value") in _LEVELS:
            found[_pair(first, second)] = (_LEVELS[level["value"]], None)
    return found | _nvlinks(seen, by_index, ours)


def _nvlinks(seen: dict[str, Any], by_index: dict[int, Card | None], ours: dict[object, Card]) -> _Found:
    """Links that end at the other card; or, behind switches, as many as the card with fewer has, for the switch joins all."""
    ends = {
        card.id: Counter(pci.normal_address(link["pci"].get("value")) for link in one["nvlinks"])
        for one in seen.get("cards", ())
        if (card := by_index.get(one["index"])) is not None
    }
    switched = {name: sum(count for end, count in to.items() if end not in ours) for name, to in ends.items()}
    addresses = {card.id: address for address, card in ours.items()}
    found: _Found = {}
    for a, b in combinations(sorted(ends), 2):
        direct = max(ends[a][str(addresses[b])], ends[b][str(addresses[a])])
        lanes = direct or min(switched[a], switched[b])
        if lanes:
            found[a, b] = (LinkKind.FABRIC, lanes)
    return found


_XGMI = 11  # HSA_IOLINKTYPE_XGMI in the kernel's kfd_crat.h


def _by_kfd(host: Host, cards: Sequence[Card]) -> _Found:
    ours = {card.pci_address: card for card in cards if card.vendor in ("amd", "hygon") and card.pci_address}
    if len(ours) < 2:
        return {}
    nodes = {
        node: ours[address]
        for node in kfd.nodes(host)
        if (address := kfd.address(kfd.properties(host, f"{kfd.NODES}/{node}/properties"))) in ours
    }
    found: _Found = {}
    for node, card in nodes.items():
        for name in host.list_folder(f"{kfd.NODES}/{node}/io_links") or ():
            link = kfd.properties(host, f"{kfd.NODES}/{node}/io_links/{name}/properties")
            other = nodes.get(str(link.get("node_to")))
            if other is not None and other is not card and link.get("type") == _XGMI:
                found[_pair(card, other)] = (LinkKind.FABRIC, None)
    return found


def _by_npu_smi(host: Host, cards: Sequence[Card]) -> _Found:
    """A square of names and words: HCCS is the fabric, the rest is as in NVIDIA's."""
    ours = _each(cards, "ascend", lambda card: card.index)
    if len(ours) < 2:
        return {}
    try:
        said = ask_tool(host, "ascend", ("npu-smi", "info", "-t", "topo"))
    except VendorFault:
        return {}  # the way over the bus is known; the cards themselves said already that the tool hangs
    kinds = {word: kind for kind, word in LETTERS.items()} | {"HCCS": LinkKind.FABRIC, "HCCS_SW": LinkKind.FABRIC}
    found: _Found = {}
    for line in (said.text if said else "").splitlines():
        words = line.split()
        row = re.fullmatch(r"NPU(\d+)", words[0]) if words else None
        if row is None or re.match(r"NPU\d", words[-1]):
            continue  # the header, or no row
        for column, word in enumerate(words[1:]):
            first, second = ours.get(int(row[1])), ours.get(column)
            if first is not None and second is not None and first is not second and word in kinds:
                found[_pair(first, second)] = (kinds[word], None)
    return found
