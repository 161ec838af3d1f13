"""`anycard cards --json` on a recorded host of every vendor: the right cards with vendor, model, memory, driver and state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anycard.cards import kfd, nvidiasmi, rocmsmi
from anycard.cards.probe import Inventory, probe
from anycard.cards.smitable import programs
from anycard.cli.verbs.cards import cards as cards_verb
from anycard.host.host import NodeStat
from anycard.host.recorded import RecordedHost
from anycard.model.card import CardProcess, Health, NodeAccess
from anycard.units import GIB, MIB

MakeHost = Callable[..., RecordedHost]
DEVICES = "/sys/bus/pci/devices"
ROCM = " ".join(rocmsmi.ARGUMENTS)
NO_NVML = {"nvml": {"init": {"error": "LIBRARY_NOT_FOUND"}, "cards": []}}


def on_bus(vendor: str, device: str, kind: str, driver: str | None, *addresses: str) -> dict[str, Any]:
    return dict.fromkeys(addresses, (vendor, device, kind, driver))


def nvml_card(index: int, **answers: Any) -> dict[str, Any]:
    card = {
        "handle": {"value": True},
        "uuid": {"value": f"GPU-{index}"},
        "pci": {"value": f"00000000:{0x10 + index:02X}:00.0"},
        "name": {"value": "NVIDIA H100 80GB HBM3"},
        "memory": {"value": {"total_bytes": 80 * GIB, "used_bytes": 0, "free_bytes": 80 * GIB}},
        "compute_capability": {"value": [9, 0]},
    }
    return {"index": index} | card | answers


LOST = {name: {"error": "GPU_IS_LOST"} for name in ("uuid", "name", "pci", "memory", "compute_capability")}
NVML = {
    "init": {"value": True},
    "driver": {"value": "580.95.05"},
    "cuda": {"value": 13000},
    "count": {"value": 2},
    "cards": [nvml_card(0), nvml_card(1, **LOST)],
}
NVIDIA_SMI = "0, GPU-aa, NVIDIA A800-SXM4-80GB, 00000000:31:00.0, 81920, 12, 570.86.10, 8.0, 5, 40, 60.10, 400.00, 300, 405, [N/A]\n"
MAPPING = (
    "NPU ID    Chip ID    Chip Logic ID    Chip Phy-ID    Chip Name\n"
    "0         0          0                0              Ascend 910C\n"
    "0         1          1                1              Ascend 910C\n"
    "0         2          -                -              Mcu\n"
)
XPU_SMI = f'{{"device_list": [{{"pci_bdf_address": "0000:03:00.0", "memory_physical_size_byte": "{12 * GIB}"}}]}}\n'
NODES = "/sys/class/kfd/kfd/topology/nodes"

# name -> (what the machine answers, (vendor, model, memory in MiB, driver, health) of each accelerator)
HOSTS: dict[str, tuple[dict[str, Any], list[tuple[str, str, int | None, str | None, str]]]] = {
    "nvidia, one of two lost": (
        {"libraries": {"nvml": NVML}, "bus": on_bus("10de", "2330", "030200", "nvidia", "0000:10:00.0", "0000:11:00.0"),
         "folders": {"/proc/driver/nvidia/gpus": ("0000:10:00.0", "0000:11:00.0")},
         "files": {"/proc/driver/nvidia/gpus/0000:11:00.0/information": "Model: \t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????\n"}},
        [("nvidia", "NVIDIA H100 80GB HBM3", 81920, "580.95.05", "ok"), ("nvidia", "NVIDIA H100 80GB HBM3", None, "580.95.05", "lost")],
    ),
    "nvidia by nvidia-smi alone": (
        {"libraries": NO_NVML, "tools": {" ".join(nvidiasmi.ARGV): NVIDIA_SMI},
         "bus": on_bus("10de", "20f3", "030200", "nvidia", "0000:31:00.0")},
        [("nvidia", "NVIDIA A800-SXM4-80GB", 81920, "570.86.10", "ok")],
    ),
    "amd by sysfs and amd-smi": (
        {"tools": {"amd-smi static --json": "amd-smi.json"}, "bus": on_bus("1002", "74a1", "120000", "amdgpu", "0000:05:00.0"),
         "files": {f"{DEVICES}/0000:05:00.0/mem_info_vram_total": f"{196592 * MIB}\n"}},
        [("amd", "AMD Instinct MI300X", 196592, "6.12.12", "ok")],
    ),
    "amd, an old rocm-smi beside an integrated card": (
        {"tools": {f"rocm-smi {ROCM}": "rocm-two.json"}},
        [("amd", "Radeon RX 7800 XT", 16368, "6.10.5", "ok"), ("amd", "Radeon 780M", None, "6.10.5", "ok")],
    ),
    "intel: i915 and xe": (
        {"bus": {**on_bus("8086", "3e92", "030000", "i915", "0000:00:02.0"), **on_bus("8086", "e20b", "030000", "xe", "0000:03:00.0")},
         "tools": {"xpu-smi discovery -j": XPU_SMI}},
        [("intel", "UHD Graphics 630", None, "i915", "ok"), ("intel", "Arc B580", 12288, "xe", "ok")],
    ),
    "ascend 310: four chips on a board": (
        {"tools": {"npu-smi info": "npu-310.txt"},
         "bus": on_bus("19e5", "d100", "120000", "devdrv_device_driver", "0000:89:00.0", "0000:8a:00.0")},
        [("ascend", "Ascend 310", 8192, "21.0.4.B030", "ok")] * 2,
    ),
    "ascend 910A: names by the mapping": (
        {"tools": {"npu-smi info": "npu-910a.txt", "npu-smi info -m": "npu-910a-m.txt"},
         "bus": on_bus("19e5", "d801", "120000", "devdrv_device_driver", "0000:c1:00.0", "0000:01:00.0")},
        [("ascend", "Ascend 910A", 32768, "24.1.RC2", "ok")] * 2,
    ),
    "ascend 910B4 without an address": (
        {"tools": {"npu-smi info": "npu-910b4.txt"}, "bus": on_bus("19e5", "d802", "120000", "devdrv_device_driver", "0000:c1:00.0")},
        [("ascend", "Ascend 910B4-1", 65536, "25.2.0", "ok")],
    ),
    "ascend 910C: two dies, one of them ill, with -m": (
        {"tools": {"npu-smi info": "npu-910c.txt", "npu-smi info -m": MAPPING},
         "bus": on_bus("19e5", "d803", "120000", "devdrv_device_driver", "0000:9d:00.0", "0000:9f:00.0")},
        [("ascend", "Ascend 910C", 65536, "25.3.rc1", "ok"), ("ascend", "Ascend 910C", 65536, "25.3.rc1", "unknown")],
    ),
    "ascend, npu-smi 26": (
        {"tools": {"npu-smi info": "npu-26.txt"}},
        [("ascend", "Ascend910", 65536, "26.0.rc2", "ok")],
    ),
    "moorethreads": (
        {"tools": {"mthreads-gmi": "mthreads.txt"}, "bus": on_bus("1ed5", "0400", "030000", "mtgpu", "0000:2a:00.0", "0000:2b:00.0")},
        [("moorethreads", "MTT S5000", 81920, "3.3.5-server", "ok"), ("moorethreads", "MTT S5000", None, "3.3.5-server", "ok")],
    ),
    "hygon": (
        {"tools": {f"hy-smi {ROCM}": "hygon.json"}, "bus": on_bus("1d94", "6210", "0b4000", "hydcu", "0000:33:00.0")},
        [("hygon", "Hygon DCU K100_AI", 65520, None, "ok")],
    ),
    "cambricon": (
        {"tools": {"cnmon": "cnmon.txt"}, "bus": on_bus("cabc", "0370", "120000", "cambricon", "0000:69:00.0")},
        [("cambricon", "Cambricon MLU370-X8", 42396, "5.10.22", "ok")],
    ),
    "iluvatar": (
        {"tools": {"ixsmi": "ixsmi.txt"}, "bus": on_bus("1e3e", "0002", "120000", "iluvatar", "0000:98:00.0", "0000:99:00.0")},
        [("iluvatar", "Iluvatar BI-V100", 32768, "3.1.0", "ok")] * 2,
    ),
    "metax": (
        {"tools": {"mx-smi": "mx-smi.txt"}, "bus": on_bus("9999", "0a01", "030200", "metax", "0000:0e:00.0", "0000:0f:00.0")},
        [("metax", "MetaX C500", 65536, "2.12.13", "ok")] * 2,
    ),
    "kunlunxin, communication controllers to the bus": (
        {"tools": {"xpu-smi": "kunlun.txt", "xpu-smi discovery -j": "kunlun.txt"},
         "bus": on_bus("1d22", "3688", "078000", "kunlun", "0000:03:00.0", "0000:05:00.0")},
        [("kunlunxin", "Kunlunxin P800 OAM", 98304, "5.0.21.40", "ok")] * 2,
    ),
    "apple": (
        {"platform": "darwin", "libraries": {"system": {"memory_total_bytes": 36 * GIB}},
         "tools": {"system_profiler SPDisplaysDataType -json": "apple.json", "sw_vers": "ProductVersion: 15.5\n"}},
        [("apple", "Apple M4 Max", 36864, "macOS 15.5", "ok")],
    ),
    "no driver at all": (
        {"libraries": NO_NVML, "bus": on_bus("10de", "2b85", "030000", None, "0000:01:00.0")},
        [("nvidia", "NVIDIA GeForce RTX 5090", None, None, "no-driver")],
    ),
    "unknown numbers stay unknown": (
        {"libraries": NO_NVML, "bus": on_bus("10de", "fff0", "030200", None, "0000:01:00.0")},
        [("nvidia", "NVIDIA card 0xfff0", None, None, "no-driver")],
    ),
}  # fmt: skip


def test_there_is_a_recorded_host_of_every_vendor() -> None:
    from anycard.cards.vendors import VENDORS

    shown = {vendor for _, expected in HOSTS.values() for vendor, *_ in expected}
    assert shown == set(VENDORS) - {"cpu"}


@pytest.mark.parametrize("name", HOSTS)
def test_the_verb_lists_the_cards_of_a_recorded_host(
    machine: MakeHost,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers, expected = HOSTS[name]
    host = machine(**answers)
    monkeypatch.setenv("ANYCARD_HOME", str(tmp_path))
    monkeypatch.setattr("anycard.host.live.LiveHost", lambda: host)
    assert cards_verb(json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [card["vendor"] for card in shown["cards"] if not card["accelerator"]] == ["cpu"]
    found = [
        (
            card["vendor"],
            card["model"],
            card["memory_bytes"] and card["memory_bytes"] // MIB,
            card["driver"],
            card["health"],
        )
        for card in shown["cards"]
        if card["accelerator"]
    ]
    assert found == expected
    assert shown["problems"] == []
    assert len({card["id"] for card in shown["cards"]}) == len(shown["cards"])
    assert all(card["health_reason"] for card in shown["cards"] if card["health"] != "ok")


# ---- programs on cards that are not NVIDIA's


def running(inventory: Inventory) -> dict[str, tuple[CardProcess, ...] | None]:
    return {card.id: card.processes for card in inventory.cards if card.is_accelerator}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iluvatar", [[(12345, 240)], []]),
        ("metax", [[], [(19567, 60000)]]),
        ("cambricon", [[(4711, 1024)]]),
        ("moorethreads", [[(31337, 66631)], []]),
        ("ascend 910A: names by the mapping", [[(37656, 686), (37657, 12)], []]),
        # the virtual function's program is the card's
        ("kunlunxin, communication controllers to the bus", [[(20111, 45604)], [(20222, 512)]]),
        # no such table was printed
        ("ascend 910B4 without an address", [None]),
        ("hygon", [None]),
    ],
)
def test_programs_that_a_tool_lists(machine: MakeHost, name: str, expected: list[list[tuple[int, int]] | None]) -> None:
    seen = running(probe(machine(**HOSTS[name][0]))).values()
    assert [
        None if one is None else [(process.pid, (process.memory_bytes or 0) // MIB) for process in one] for one in seen
    ] == expected


def test_programs_that_amds_driver_lists_are_named(machine: MakeHost) -> None:
    """Only where they hold memory: ROCm opens every card that it sees."""
    bus = on_bus("1002", "74a1", "120000", "amdgpu", "0000:05:00.0", "0000:26:00.0")
    files = {
        f"{NODES}/0/properties": "simd_count 0\n",
        f"{NODES}/1/properties": "simd_count 1216\nlocation_id 1280\ndomain 0\n",
        f"{NODES}/1/gpu_id": "51545\n",
        f"{NODES}/2/properties": "simd_count 1216\nlocation_id 9728\ndomain 0\n",
        f"{NODES}/2/gpu_id": "2899\n",
        f"{kfd.PROGRAMS}/4711/vram_51545": f"{3 * GIB}\n",
        f"{kfd.PROGRAMS}/4711/vram_2899": "0\n",
        f"{kfd.PROGRAMS}/4711/sdma_51545": "17\n",
    }
    folders = {
        NODES: ("0", "1", "2"),
        kfd.PROGRAMS: ("4711", "4712"),
        f"{kfd.PROGRAMS}/4711": ("vram_51545", "vram_2899", "sdma_51545", "queues"),
    }
    found = running(probe(machine(bus=bus, files=files, folders=folders)))
    assert found == {"amd:0000:05:00.0": (CardProcess(4711, 3 * GIB),), "amd:0000:26:00.0": ()}
    without = running(probe(machine(bus=bus, files=files, folders={NODES: ("0", "1", "2")})))
    assert set(without.values()) == {None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("| GPU  Name | Bus-Id |\n| 0 A | 1 |\n", None),
        ("|  GPU   PID   Process name   Usage |\n", {}),
        ("|  GPU   PID   Process name   Usage |\n|  No running processes found |\n", {}),
        (
            "|  GPU   PID   Process name   Usage |\n|  0  12  a b 3  7MiB |\n|  0  13  x |\n",
            {0: ((12, 7 * MIB), (13, None))},
        ),
        ("|  GPU   GI  CI  PID   Type  Process name |\n|  0  N/A  N/A  12  C  python |\n", {0: ((12, None),)}),
    ],
)
def test_tables_of_programs(text: str, expected: object) -> None:
    assert programs(text) == expected


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("nvidia, one of two lost", ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")),
        (
            "ascend 310: four chips on a board",
            ("/dev/davinci3", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        ),
        ("iluvatar", ("/dev/iluvatar0", "/dev/itrctl")),
        ("metax", ("/dev/mxcd", "/dev/dri/renderD128")),
        ("moorethreads", ("/dev/mtgpu.0", "/dev/dri/renderD128")),
        ("cambricon", ("/dev/cambricon_dev0", "/dev/cambricon_ctl")),
        ("kunlunxin, communication controllers to the bus", ("/dev/xpu0", "/dev/xpuctrl")),
    ],
)
def test_a_cards_nodes_are_shown_with_owner_and_mode(machine: MakeHost, name: str, nodes: tuple[str, ...]) -> None:
    answers = dict(HOSTS[name][0])
    address = next(iter(answers["bus"]))
    answers["nodes"] = {path: NodeStat(0o20640, "root", "video") for path in nodes}
    answers["folders"] = answers.get("folders", {}) | {f"{DEVICES}/{address}/drm": ("renderD128",)}
    if "libraries" in answers:
        seen = nvml_card(0, minor={"value": 0})
        answers["libraries"] = {"nvml": NVML | {"count": {"value": 1}, "cards": [seen]}}
    card = next(card for card in probe(machine(**answers)).cards if card.is_accelerator)
    assert card.device_access == tuple(NodeAccess(path, 0o640, "root", "video") for path in nodes)


# ---- what moves under our eyes


class Vanishing(RecordedHost):
    """From the ``after``-th question on, everything below ``path`` is gone, as sysfs does when a card leaves the bus."""

    path = f"{DEVICES}/0000:05:00.0"
    after = 0
    asked = 0

    def _gone(self, path: str) -> bool:
        self.asked += 1
        return self.asked > self.after and path.startswith(self.path)

    def read(self, path, limit_bytes=MIB):  # type: ignore[no-untyped-def]
        return super().read("/nowhere" if self._gone(path) else path, limit_bytes)

    def list_folder(self, path):  # type: ignore[no-untyped-def]
        return None if self._gone(path) else super().list_folder(path)

    def readlink(self, path):  # type: ignore[no-untyped-def]
        return None if self._gone(path) else super().readlink(path)


def test_a_card_whose_files_vanish_in_the_middle_of_a_look_hides_no_other(machine: MakeHost) -> None:
    """At each of the questions in turn: no exception, no nought, and the other card is whole."""
    bus = on_bus("1002", "74a1", "120000", "amdgpu", "0000:05:00.0", "0000:26:00.0")
    files = {f"{DEVICES}/{address}/mem_info_vram_total": f"{192 * GIB}\n" for address in bus}
    files |= {f"{DEVICES}/{address}/unique_id": f"{at:016x}\n" for at, address in enumerate(bus, 1)}
    machine_ = machine(bus=bus, files=files)
    for after in range(120):
        host = Vanishing(machine_._bundle)
        host.after = after
        seen = probe(host)
        assert seen.problems == ()
        cards = {card.pci_address: card for card in seen.cards if card.is_accelerator}
        whole = cards["0000:26:00.0"]
        assert (whole.id, whole.memory_bytes, whole.health) == (f"amd:GPU-{2:016x}", 192 * GIB, Health.OK)
        left = cards.get("0000:05:00.0")
        assert left is None or left.memory_bytes in (None, 192 * GIB)
        if host.asked <= after:
            break
    else:
        pytest.fail("the look never came to an end")


def test_a_card_that_returns_under_another_number_is_the_same_card(machine: MakeHost) -> None:
    """NVML renumbers by what is left; a render node gets another name. Who it is, is its UUID or its address."""

    def nvml(*cards: dict[str, Any]) -> dict[str, Any]:
        return {"nvml": NVML | {"count": {"value": len(cards)}, "cards": list(cards)}}

    a, b = nvml_card(0), nvml_card(1)
    nodes = {
        f"/dev/dri/{name}": NodeStat(0o20660, "root", "render")
        for name in ("card0", "card1", "renderD128", "renderD129")
    }
    arc = {"bus": on_bus("8086", "e20b", "030000", "xe", "0000:03:00.0"), "nodes": nodes}
    drm = f"{DEVICES}/0000:03:00.0/drm"
    both = probe(machine(libraries=nvml(a, b), folders={drm: ("card0", "renderD128")}, **arc))
    alone = probe(machine(libraries=nvml(b | {"index": 0}), folders={drm: ()}, **arc), both)
    assert [(card.id, card.health) for card in alone.cards if card.vendor == "nvidia"] == [
        ("nvidia:GPU-1", Health.OK),
        ("nvidia:GPU-0", Health.NOT_FOUND),
    ]
    back = probe(
        machine(libraries=nvml(b | {"index": 0}, a | {"index": 1}), folders={drm: ("card1", "renderD129")}, **arc),
        alone,
    )
    assert [(card.id, card.index, card.health) for card in back.cards if card.vendor == "nvidia"] == [
        ("nvidia:GPU-1", 0, Health.OK),
        ("nvidia:GPU-0", 1, Health.OK),
    ]
    (intel,) = [card for card in back.cards if card.vendor == "intel"]
    assert (intel.id, intel.device_nodes) == ("intel:0000:03:00.0", ("/dev/dri/renderD129", "/dev/dri/card1"))
