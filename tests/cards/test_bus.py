"""Cards without a driver, devices that are no cards, and vendors that read sysfs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anycard.cards.bus import others
from anycard.cards.pci import normal_address, scan
from anycard.cards.probe import Inventory, probe
from anycard.cards.vendors import amd, intel
from anycard.cards.views import around_json, card_json
from anycard.host.host import CommandResult, NodeStat
from anycard.host.recorded import RecordedHost
from anycard.model.card import Card, Health, NodeAccess
from anycard.units import GIB, MIB

MakeHost = Callable[..., RecordedHost]
DEVICES = "/sys/bus/pci/devices"
H100 = ("10de", "2330", "030200")
NO_NVML = {"nvml": {"init": {"error": "LIBRARY_NOT_FOUND"}, "cards": []}}


def accelerators(host: RecordedHost, previous: Inventory | None = None) -> list[Card]:
    return [card for card in probe(host, previous).cards if card.is_accelerator]


@pytest.mark.parametrize(
    ("numbers", "driver", "vendor", "model", "health", "words"),
    [
        (H100, None, "nvidia", "NVIDIA H100 SXM5 80GB", Health.NO_DRIVER, "no driver is bound to it"),
        (H100, "nouveau", "nvidia", "NVIDIA H100 SXM5 80GB", Health.NO_DRIVER, "nouveau"),
        (H100, "vfio-pci", "nvidia", "NVIDIA H100 SXM5 80GB", Health.BLOCKED, "virtual machines"),
        (H100, "nvidia", "nvidia", "NVIDIA H100 SXM5 80GB", Health.UNREACHABLE, "libnvidia-ml.so.1"),
        (("1002", "74a1", "120000"), None, "amd", "AMD Instinct MI300X", Health.NO_DRIVER, "Install AMD's driver"),
        (("1002", "6798", "030000"), "radeon", "amd", "AMD Radeon HD 7970/8970 OEM / R9 280X", Health.NO_DRIVER, "radeon"),
        (("8086", "e20b", "030000"), None, "intel", "Intel Arc B580", Health.NO_DRIVER, "Install Intel's driver"),
        (("19e5", "d802", "120000"), None, "ascend", "Ascend 910B", Health.NO_DRIVER, "Install Ascend's driver"),
        (("19e5", "d802", "120000"), "devdrv_device_driver", "ascend", "Ascend 910B", Health.UNREACHABLE, "npu-smi"),
        (("1ed5", "0201", "030000"), None, "moorethreads", "Moore Threads MTT S80", Health.NO_DRIVER, "Moore Threads"),
        (("1d94", "6210", "0b4000"), None, "hygon", "Hygon DCU K100_AI", Health.NO_DRIVER, "Hygon"),
        (("cabc", "0370", "120000"), None, "cambricon", "Cambricon MLU370-S4", Health.NO_DRIVER, "Cambricon"),
        (("1e3e", "0002", "120000"), None, "iluvatar", "Iluvatar card 0x0002", Health.NO_DRIVER, "Iluvatar"),
        (("9999", "4000", "030200"), None, "metax", "MetaX card 0x4000", Health.NO_DRIVER, "MetaX"),
        (("1d22", "3684", "120000"), None, "kunlunxin", "Kunlunxin Kunlun AI Accelerator", Health.NO_DRIVER, "Kunlunxin"),
        (("1d22", "3684", "078000"), "kunlun", "kunlunxin", "Kunlunxin Kunlun AI Accelerator", Health.UNREACHABLE, "xpu-smi"),
        (("1d22", "3688", "120000"), None, "kunlunxin", "Kunlunxin P800", Health.NO_DRIVER, "Kunlunxin"),
        (("1d94", "62b7", "038000"), None, "hygon", "Hygon DCU K100", Health.NO_DRIVER, "Hygon"),
        (("9999", "0a01", "030200"), None, "metax", "MetaX C500", Health.NO_DRIVER, "MetaX"),
        (("1da3", "1020", "120000"), "habanalabs", "habana", "Habana Gaudi2 AI Training Accelerator", Health.UNKNOWN, "not yet speak"),
    ],
)  # fmt: skip
def test_a_card_that_nobody_answers_for_is_named_with_its_reason(
    machine: MakeHost,
    numbers: tuple[str, str, str],
    driver: str | None,
    vendor: str,
    model: str,
    health: Health,
    words: str,
) -> None:
    (card,) = accelerators(machine(bus={"0000:17:00.0": (*numbers, driver)}, libraries=NO_NVML))
    assert (card.vendor, card.model, card.health, card.id) == (vendor, model, health, f"{vendor}:0000:17:00.0")
    assert words in str(card.health_reason)
    assert (card.memory_bytes, card.processes) == (None, None)


def test_a_tool_that_fails_gives_its_reason_to_the_cards_on_the_bus(machine: MakeHost) -> None:
    host = machine(
        {"npu-smi info": CommandResult(("npu-smi", "info"), None, timed_out=True)},
        bus={"0000:c1:00.0": ("19e5", "d801", "120000", "devdrv_device_driver")},
    )
    seen = probe(host)
    (card,) = [card for card in seen.cards if card.is_accelerator]
    assert (card.health, card.health_reason) == (Health.UNREACHABLE, seen.problems[0].reason)


def test_what_is_virtual_or_a_console_is_named_and_no_accelerator(machine: MakeHost) -> None:
    bus = {
        "0000:00:01.0": ("1af4", "1050", "038000", "virtio-pci"),
        "0000:00:02.0": ("1234", "1111", "030000", "bochs-drm"),
        "0000:00:03.0": ("1013", "00b8", "030000", "cirrus"),
        "0000:00:04.0": ("15ad", "0405", "030000", "vmwgfx"),
        "0000:00:05.0": ("1a03", "2000", "030000", "ast"),
        "0000:00:06.0": ("19e5", "1711", "030000", "hibmc-drm"),
        "0000:00:07.0": ("1002", "515e", "030000", "radeon"),
        "0000:00:08.0": ("abcd", "0001", "030000", None),
        "0000:00:09.0": ("8086", "4940", "0b4000", "4xxx"),  # encrypts
        "0000:00:0a.0": ("8086", "0d57", "060000", None),  # a bridge
        "0000:00:0b.0": ("8086", "7d1d", "120000", "intel_vpu"),  # a known maker's, and no card
        "0000:00:0c.0": ("abcd", "0002", "120000", "strange"),
        "0000:00:0d.0": ("abcd", "0003", "078000", None),  # a modem
    }
    folders = {
        "/etc/OpenCL/vendors": ("pocl.icd",),
        "/usr/share/vulkan/icd.d": ("lvp_icd.x86_64.json", "radeon_icd.json"),
    }
    seen = probe(machine(bus=bus, folders=folders))
    assert [card.vendor for card in seen.cards] == ["cpu"]
    assert [(other.kind, other.name) for other in seen.others] == [
        ("virtual", "virtio GPU"),
        ("virtual", "Bochs/QEMU standard VGA"),
        ("virtual", "Cirrus Logic GD 5446 (QEMU)"),
        ("virtual", "VMware SVGA"),
        ("console", "ASPEED"),
        ("console", "Huawei iBMC"),
        ("console", "ATI ES1000"),
        ("unknown", "abcd:0001"),
        ("unknown", "abcd:0002"),
        ("software", "PoCL"),
        ("software", "llvmpipe"),
    ]
    shown = around_json(seen)["other_devices"]
    assert shown[0]["pci_address"] == "0000:00:01.0"
    assert "abcd:0001" in shown[7]["what"]


def test_the_machines_own_list_names_what_the_shipped_one_does_not(machine: MakeHost) -> None:
    listed = "# comment\nabcc  Before\n\t0001  No\nabcd  Newcomer Ltd.\n\t0001  GX1 [Newcomer Blaze 7]\nabce  After\n"
    host = machine(bus={"0000:00:08.0": ("abcd", "0001", "030000", None)}, files={"/usr/share/misc/pci.ids": listed})
    assert [other.name for other in others(host)] == ["Newcomer Blaze 7"]


def test_virtual_functions_beside_their_card_are_left_out(machine: MakeHost) -> None:
    host = machine(
        bus={"0000:03:00.0": (*H100, None), "0000:03:00.4": (*H100, None)},
        links={f"{DEVICES}/0000:03:00.4/physfn": "../0000:03:00.0"},
        libraries=NO_NVML,
    )
    assert [seen.address for seen in scan(host) or ()] == ["0000:03:00.0"]


def test_a_driver_that_comes_later_takes_the_card_over(machine: MakeHost) -> None:
    address = "0000:05:00.0"
    bare = machine(bus={address: ("1002", "74a1", "120000", None)})
    before = probe(bare)
    driven = machine(
        bus={address: ("1002", "74a1", "120000", "amdgpu")},
        files={f"{DEVICES}/{address}/unique_id": "5c88007d760374f3\n"},
    )
    (card,) = accelerators(driven, before)
    assert (card.id, card.health) == ("amd:GPU-5c88007d760374f3", Health.OK)
    # and when it goes, the card is not gone
    (left,) = accelerators(bare, Inventory((card,), ()))
    assert (left.id, left.health) == ("amd:GPU-5c88007d760374f3", Health.NO_DRIVER)
    # only when it left the bus too
    (gone,) = accelerators(machine(bus={}), Inventory((card,), ()))
    assert gone.health is Health.NOT_FOUND


AMD_FILES = {
    "mem_info_vram_total": "17163091968",
    "mem_info_vram_used": "1048576",
    "gpu_busy_percent": "37",
    "unique_id": "5c88007d760374f3",
    "hwmon/hwmon3/temp1_input": "45000",
    "hwmon/hwmon3/power1_average": "53000000",
    "hwmon/hwmon3/power1_cap": "245000000",
    "hwmon/hwmon3/freq1_input": "2100000000",
    "hwmon/hwmon3/pwm1": "51",
}


def amd_beside_nvidia(machine: MakeHost, **more: object) -> RecordedHost:
    big, small = "0000:03:00.0", "0000:c4:00.0"
    files = {f"{DEVICES}/{big}/{name}": f"{value}\n" for name, value in AMD_FILES.items()}
    files |= {
        f"{DEVICES}/{small}/mem_info_vram_total": "536870912\n",
        "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 16\nsimd_count 0\n",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 120\nlocation_id 768\ndomain 0\ngfx_target_version 110001\n",
        "/sys/class/kfd/kfd/topology/nodes/2/properties": "simd_count 24\nlocation_id 50176\ndomain 0\ngfx_target_version 110003\n",
    }
    nvml = {
        "init": {"value": True},
        "driver": {"value": "580"},
        "cuda": {"value": 13000},
        "count": {"value": 1},
        "cards": [
            {
                "index": 0,
                "handle": {"value": True},
                "uuid": {"value": "GPU-b"},
                "pci": {"value": "00000000:65:00.0"},
                "name": {"value": "NVIDIA GeForce RTX 5090"},
                "memory": {"value": {"total_bytes": 32 * GIB, "used_bytes": 0, "free_bytes": 32 * GIB}},
            }
        ],
    }
    return machine(
        bus={
            big: ("1002", "747e", "030000", "amdgpu"),
            small: ("1002", "1900", "030000", "amdgpu"),
            "0000:65:00.0": ("10de", "2b85", "030000", "nvidia"),
        },
        files=files,
        folders={
            f"{DEVICES}/{big}/hwmon": ("hwmon3",),
            f"{DEVICES}/{big}/drm": ("card1", "renderD128"),
            "/sys/class/kfd/kfd/topology/nodes": ("0", "1", "2"),
        },
        nodes={
            "/dev/kfd": NodeStat(0o20666, "root", "render"),
            "/dev/dri/renderD128": NodeStat(0o20660, "root", "render"),
        },
        libraries={"nvml": nvml},
        **more,
    )


def test_amd_by_sysfs_alone_beside_an_nvidia_card(machine: MakeHost) -> None:
    nvidia, big, small = accelerators(amd_beside_nvidia(machine))
    assert (nvidia.model, nvidia.health) == ("NVIDIA GeForce RTX 5090", Health.OK)
    assert (big.index, big.model, big.memory_bytes, big.architecture) == (
        0,
        "Radeon RX 7700 XT / 7800 XT",
        17163091968,
        "gfx1101",
    )
    assert (small.index, small.model, small.memory_bytes, small.architecture) == (
        1,
        "Radeon 780M",
        512 * MIB,
        "gfx1103",
    )
    assert (big.uuid, small.uuid) == ("GPU-5c88007d760374f3", None)
    assert big.device_access == (
        NodeAccess("/dev/kfd", 0o666, "root", "render"),
        NodeAccess("/dev/dri/renderD128", 0o660, "root", "render"),
    )
    assert card_json(big)["device_access"][1] == {
        "path": "/dev/dri/renderD128",
        "mode": "0660",
        "owner": "root",
        "group": "render",
    }


def test_a_card_in_parts_is_one_card(machine: MakeHost) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    files = {
        f"{nodes}/{node}/properties": f"simd_count 152\nlocation_id {where}\ndomain 0\n"
        for node, where in ((1, 0x500), (2, 0x500), (3, 0x2600))
    }
    bus = {"0000:05:00.0": ("1002", "74a1", "120000", "amdgpu"), "0000:26:00.0": ("1002", "74a1", "120000", "amdgpu")}
    found = amd.find(machine(bus=bus, files=files, folders={nodes: ("1", "2", "3")}))
    assert [(card.index, card.pci_address) for card in found] == [(0, "0000:05:00.0"), (2, "0000:26:00.0")]


def test_amds_tool_gives_names_and_takes_nothing_away_when_it_hangs(machine: MakeHost) -> None:
    argv = ("amd-smi", "static", "--json")
    card = '{"gpu": 7, "asic": {"market_name": "AMD Radeon RX 7800 XT"}, "bus": {"bdf": "0000:03:00.0"}, "driver": {"version": "6.12.12"}}'
    named = f"[{card}]\n"
    cards = amd.find(amd_beside_nvidia(machine, tools={" ".join(argv): named}))
    assert [(card.index, card.model, card.driver) for card in cards] == [
        (0, "AMD Radeon RX 7800 XT", "6.12.12"),
        (1, "Radeon 780M", None),
    ]
    hung = amd.find(amd_beside_nvidia(machine, tools={" ".join(argv): CommandResult(argv, None, timed_out=True)}))
    assert len(hung) == 2


def test_readings_of_amd_by_sysfs(machine: MakeHost) -> None:
    big, small = amd.read(amd_beside_nvidia(machine))
    assert (big.utilisation, big.memory_used_bytes, big.temperature_c) == (0.37, MIB, 45.0)
    assert (big.power_w, big.power_limit_w, big.clock_mhz, big.fan) == (53.0, 245.0, 2100.0, 0.2)
    assert replace(small, card_id="", memory_total_bytes=None) == replace(
        small, card_id="", memory_total_bytes=None, utilisation=None, power_w=None
    )


def test_intel_by_sysfs(machine: MakeHost) -> None:
    igpu, arc, xe = "0000:00:02.0", "0000:03:00.0", "0000:04:00.0"
    host = machine(
        {
            "xpu-smi discovery -j": f'{{"device_list": [{{"pci_bdf_address": "{xe}", "memory_physical_size_byte": "12884901888"}}]}}\n'
        },
        bus={
            igpu: ("8086", "3e92", "030000", "i915"),
            arc: ("8086", "56a0", "030000", "i915"),
            xe: ("8086", "e20b", "030000", "xe"),
            "0000:00:0b.0": ("8086", "7d1d", "120000", "intel_vpu"),
        },
        files={
            f"{DEVICES}/{arc}/lmem_total_bytes": "16225243136\n",
            f"{DEVICES}/{igpu}/drm/card0/gt_act_freq_mhz": "1150\n",
            f"{DEVICES}/{xe}/tile0/gt0/freq0/act_freq": "2850\n",
            f"{DEVICES}/{xe}/hwmon/hwmon2/temp2_input": "51000\n",
            f"{DEVICES}/{xe}/hwmon/hwmon2/power1_max": "190000000\n",
        },
        folders={f"{DEVICES}/{igpu}/drm": ("card0",), f"{DEVICES}/{xe}/hwmon": ("hwmon2",)},
    )
    assert [(card.index, card.model, card.memory_bytes) for card in intel.find(host)] == [
        (0, "UHD Graphics 630", None),
        (1, "Arc A770", 16225243136),
        (2, "Arc B580", 12 * GIB),
    ]
    small, _, big = intel.read(host)
    assert (small.clock_mhz, small.temperature_c, small.power_limit_w) == (1150, None, None)
    assert (big.clock_mhz, big.temperature_c, big.power_limit_w, big.utilisation) == (2850, 51.0, 190.0, None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:65:00.0", "0000:65:00.0"),
        ("65:00.0", "0000:65:00.0"),
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("10000:E1:00.0", "10000:e1:00.0"),
        ("0000:xx:00.0", None),
        ("", None),
        (None, None),
    ],
)
def test_addresses(text: str | None, address: str | None) -> None:
    assert normal_address(text) == address
