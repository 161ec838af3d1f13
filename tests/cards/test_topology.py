"""Links between cards, from each place that tells of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvml_standin import EIGHT_CARDS, NvmlStandin

from anycard.cards.probe import Inventory, probe
from anycard.cards.topology import letters, links
from anycard.cards.views import around_json
from anycard.cli.cardtable import topology_lines
from anycard.host.host import CommandResult
from anycard.host.live import LiveHost
from anycard.host.recorded import RecordedHost
from anycard.model.card import Card, Link, LinkKind

MakeHost = Callable[..., RecordedHost]
DEVICES = "/sys/bus/pci/devices"


def bus(index: int) -> str:
    return f"00000000:{0x10 + index:02X}:00.0"


def seen(inventory: Inventory) -> dict[tuple[int, int], str]:
    """(index, index) -> letters, of one vendor's cards."""
    index = {card.id: card.index for card in inventory.cards if card.is_accelerator}
    found = {}
    for link in inventory.links:
        a, b = sorted((index[link.a], index[link.b]))
        found[a, b] = letters(link)
    return found


def eight(more: Callable[[int], str]) -> str:
    head, *blocks = EIGHT_CARDS.split("[card]")
    return "[card]".join([head, *(block + more(index) for index, block in enumerate(blocks))])


def test_nvlink_straight_from_card_to_card(nvml: NvmlStandin) -> None:
    """Pairs with twelve links each, the rest over the bus: what NVML answers, over the real binding."""

    def lines(index: int) -> str:
        peer = index ^ 1
        nvlinks = "".join(f"nvlink = {link} {bus(peer)}\n" for link in range(12))
        near = "".join(
            f"near = {other} {30 if other // 4 == index // 4 else 50}\n" for other in range(8) if other != index
        )
        return nvlinks + near

    nvml.describe(eight(lines))
    found = seen(probe(LiveHost()))
    assert len(found) == 28
    for (a, b), way in found.items():
        assert way == ("NV12" if a ^ 1 == b else "PHB" if a // 4 == b // 4 else "SYS")


def test_nvlink_by_way_of_switches(nvml: NvmlStandin) -> None:
    """Every link ends at a switch, whose address is no card's: all cards are joined by as many as they have."""
    switch = "00000000:C0:00.0"
    nvml.describe(
        "[card]\nbus = 00000000:10:00.0\nuuid = GPU-0\n"
        + "".join(f"nvlink = {link} {switch}\n" for link in range(18))
        + "near = 2 20\n"
        + "[card]\nbus = 00000000:11:00.0\nuuid = GPU-1\n"
        + "".join(f"nvlink = {link} {switch}\n" for link in range(17))  # one is down
        + "near = 2 40\n"
        + "[card]\nbus = 00000000:12:00.0\nuuid = GPU-2\n"
    )
    assert seen(probe(LiveHost())) == {(0, 1): "NV17", (0, 2): "PXB", (1, 2): "NODE"}


def test_a_lost_card_has_no_known_link_and_hides_no_other(nvml: NvmlStandin) -> None:
    nvml.describe(eight(lambda index: "fault = lost\n" if index == 3 else ""))
    found = seen(probe(LiveHost()))
    assert {pair for pair, way in found.items() if way == "?"} == {pair for pair in found if 3 in pair}


def test_links_are_asked_once_for_the_same_cards(nvml: NvmlStandin) -> None:
    nvml.describe(eight(lambda index: f"near = {index ^ 1} 10\n"))
    host = LiveHost()
    first = probe(host)
    nvml.describe(eight(lambda index: f"near = {index ^ 1} 20\n"))
    assert probe(host, first).links is first.links
    assert seen(probe(host))[0, 1] == "PXB"


# ---- by sysfs


def placed(machine: MakeHost, paths: dict[str, str], **more: object) -> tuple[RecordedHost, list[Card]]:
    """Cards by the ends of their paths; the NUMA node is the second digit of the root's number."""
    cards = [
        Card(f"x:{index}", "x", "X", index=index, pci_address=path.rpartition("/")[2], numa_node=int(path[8]))
        for index, path in enumerate(paths.values())
    ]
    host = machine(
        links={f"{DEVICES}/{path.rpartition('/')[2]}": f"../../../devices/{path}" for path in paths.values()}, **more
    )
    return host, cards


TREE = {
    "on one switch": "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
    "its neighbour": "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
    "a switch below": "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0",
    "another root port": "pci0000:00/0000:00:02.0/0000:10:00.0",
    "another root": "pci0000:08/0000:08:01.0/0000:20:00.0",
}


def test_the_way_by_the_paths_of_sysfs(machine: MakeHost) -> None:
    host, cards = placed(machine, TREE)
    ways = {(link.a, link.b): letters(link) for link in links(host, cards)}
    assert ways == {
        ("x:0", "x:1"): "PIX",
        ("x:0", "x:2"): "PXB",
        ("x:1", "x:2"): "PXB",
        ("x:0", "x:3"): "PHB",
        ("x:1", "x:3"): "PHB",
        ("x:2", "x:3"): "PHB",
        ("x:0", "x:4"): "NODE",
        ("x:1", "x:4"): "NODE",
        ("x:2", "x:4"): "NODE",
        ("x:3", "x:4"): "NODE",
    }


def test_across_sockets_and_what_is_not_told(machine: MakeHost) -> None:
    host, cards = placed(
        machine, {"a": "pci0000:00/0000:00:01.0/0000:01:00.0", "b": "pci0000:10/0000:10:01.0/0000:81:00.0"}
    )
    (link,) = links(host, cards)
    assert (link.kind, letters(link)) == (LinkKind.SOCKET, "SYS")
    unknown = [Card("y:1", "y", "Y"), *cards]
    assert [letters(link) for link in links(host, unknown)] == ["SYS", "?", "?"]
    assert links(host, cards[:1]) == ()


@given(
    st.lists(
        st.lists(st.sampled_from(["0000:00:01.0", "0000:01:00.0", "pci0000:00", "pci0000:80", "x", ""]), max_size=6),
        min_size=2,
        max_size=4,
    )
)
def test_any_path_gives_one_link_for_each_two(paths: list[list[str]]) -> None:
    from anycard.host.bundle import Bundle

    names = [f"0000:{index:02x}:00.0" for index in range(len(paths))]
    host = RecordedHost(
        Bundle(links={f"{DEVICES}/{name}": "/".join(path) for name, path in zip(names, paths, strict=True)})
    )
    cards = [Card(f"x:{name}", "x", "X", pci_address=name) for name in names]
    assert [(link.a, link.b) for link in links(host, cards)] == [
        (f"x:{a}", f"x:{b}") for a, b in combinations(names, 2)
    ]


def test_xgmi_from_kfd(machine: MakeHost) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    files = {f"{nodes}/0/properties": "simd_count 0\n"}
    for node, location in ((1, 0x0500), (2, 0x2600), (3, 0x4600)):
        files[f"{nodes}/{node}/properties"] = f"simd_count 1216\nlocation_id {location}\ndomain 0\n"
    files[f"{nodes}/1/io_links/0/properties"] = "type 2\nnode_from 1\nnode_to 0\n"
    files[f"{nodes}/1/io_links/1/properties"] = "type 11\nnode_from 1\nnode_to 2\n"
    files[f"{nodes}/1/io_links/2/properties"] = "type 2\nnode_from 1\nnode_to 3\n"
    host = machine(files=files, folders={nodes: ("0", "1", "2", "3"), f"{nodes}/1/io_links": ("0", "1", "2")})
    cards = [
        Card(f"amd:{at}", "amd", "AMD Instinct MI300X", pci_address=f"0000:{bus:02x}:00.0")
        for at, bus in enumerate((5, 0x26, 0x46))
    ]
    assert [letters(link) for link in links(host, cards)] == ["XGMI", "?", "?"]


def ascend_cards() -> list[Card]:
    return [Card(f"ascend:{at}", "ascend", "Ascend 910B3", index=at) for at in range(3)]


def test_hccs_from_npu_smi(machine: MakeHost) -> None:
    host = machine({"npu-smi info -t topo": "npu-topo.txt"})
    assert [letters(link) for link in links(host, ascend_cards())] == ["HCCS", "SYS", "PIX"]


@pytest.mark.parametrize("said", ["", "garbage NPU0\nNPU1\nNPU0 X", "NPU0 NPU1\nNPU9 HCCS HCCS\n"])
def test_half_a_matrix_leaves_links_unknown(machine: MakeHost, said: str) -> None:
    assert {letters(link) for link in links(machine({"npu-smi info -t topo": said + "\n"}), ascend_cards())} == {"?"}
    argv = ("npu-smi", "info", "-t", "topo")
    hung = machine({" ".join(argv): CommandResult(argv, None, timed_out=True)})
    assert {letters(link) for link in links(hung, ascend_cards())} == {"?"}


def test_links_of_two_makers_cards(machine: MakeHost) -> None:
    host, _ = placed(machine, TREE)
    pair = [
        Card("amd:a", "amd", "AMD", pci_address="0000:03:00.0"),
        Card("nvidia:b", "nvidia", "NVIDIA", pci_address="0000:04:00.0"),
    ]
    assert links(host, pair) == (Link("amd:a", "nvidia:b", LinkKind.PCIE_SWITCH),)


# ---- shown


def test_the_matrix(machine: MakeHost) -> None:
    host, cards = placed(machine, dict(list(TREE.items())[:2]))
    shown = around_json(Inventory(tuple(cards), (), links=links(host, cards)))
    assert shown["links"] == [{"a": "x:0", "b": "x:1", "kind": "pcie-switch", "lanes": None, "letters": "PIX"}]
    rows = [
        {"id": card.id, "vendor": card.vendor, "index": card.index, "numa_node": 0, "accelerator": True}
        for card in cards
    ]
    lines = [line.split() for line in topology_lines(rows, shown["links"])]
    assert lines[:3] == [["x0", "x1", "NUMA", "CARD"], ["x0", "X", "PIX", "0", "x:0"], ["x1", "PIX", "X", "0", "x:1"]]
    assert lines[-1] == ["PIX", "one", "PCIe", "switch"]
    assert len(topology_lines(rows[:1], [])) == 1


def test_the_verb_on_the_stand_in(nvml: NvmlStandin, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    nvml.describe(eight(lambda index: f"nvlink = 0 {bus(index ^ 1)}\nnear = {(index + 2) % 8} 40\n"))
    env = {**os.environ, **nvml.env, "ANYCARD_HOME": str(tmp_path), "ANYCARD_LANG": "en"}
    ran = subprocess.run(
        [sys.executable, "-m", "anycard", "cards", "--topology"], env=env, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert rows[0] == [*(f"nvidia{index}" for index in range(8)), "NUMA", "CARD"]
    assert rows[1][:4] == ["nvidia0", "X", "NV1", "NODE"]
