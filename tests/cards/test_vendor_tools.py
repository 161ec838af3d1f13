"""What each vendor's tool prints, and what becomes of it: right, absent, cut off, foreign, failing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anycard.cards import nvidiasmi, rocmsmi, smitable
from anycard.cards.probe import all_vendors, probe
from anycard.cards.problem import VendorFault
from anycard.cards.tools import TIME_LIMIT_S
from anycard.cards.vendors import (
    amd,
    apple,
    ascend,
    cambricon,
    hygon,
    iluvatar,
    intel,
    kunlunxin,
    metax,
    moorethreads,
    nvidia,
)
from anycard.host import probes
from anycard.host.bundle import Bundle
from anycard.host.host import CommandResult, NodeStat
from anycard.host.live import LiveHost
from anycard.host.recorded import RecordedHost
from anycard.model.card import Card, Health
from anycard.units import MIB

ROCM = " ".join(rocmsmi.ARGUMENTS)
MakeHost = Callable[..., RecordedHost]

TOOLS = {
    "moorethreads": (moorethreads, {"mthreads-gmi": "mthreads.txt"}),
    "iluvatar": (iluvatar, {"ixsmi": "ixsmi.txt"}),
    "metax": (metax, {"mx-smi": "mx-smi.txt"}),
    "cambricon": (cambricon, {"cnmon": "cnmon.txt"}),
    "kunlunxin": (kunlunxin, {"xpu-smi": "kunlun.txt"}),
    "hygon": (hygon, {f"hy-smi {ROCM}": "hygon.json"}),
    "amd": (amd, {"amd-smi static --json": "amd-smi.json"}),
    "ascend": (ascend, {"npu-smi info": "npu-910c.txt"}),
    "intel": (intel, {"xpu-smi discovery -j": "xpu-b60.json"}),
}


def brief(cards: tuple[Card, ...]) -> list[tuple[object, ...]]:
    return [(card.index, card.id, card.model, card.memory_bytes and card.memory_bytes // MIB) for card in cards]


# ---- what is printed


@pytest.mark.parametrize(
    ("vendor", "cards", "driver", "runtime"),
    [
        (
            "moorethreads",
            [
                (0, "moorethreads:0000:2a:00.0", "MTT S5000", 81920),
                (1, "moorethreads:0000:2b:00.0", "MTT S5000", None),
            ],
            "3.3.5-server",
            None,
        ),
        (
            "iluvatar",
            [
                (0, "iluvatar:0000:98:00.0", "Iluvatar BI-V100", 32768),
                (1, "iluvatar:0000:99:00.0", "Iluvatar BI-V100", 32768),
            ],
            "3.1.0",
            "CUDA 10.2",
        ),
        (
            "metax",
            [(0, "metax:0000:0e:00.0", "MetaX C500", 65536), (1, "metax:0000:0f:00.0", "MetaX C500", 65536)],
            "2.12.13",
            "MACA 2.29.0.19",
        ),
        ("cambricon", [(0, "cambricon:0000:69:00.0", "Cambricon MLU370-X8", 42396)], "5.10.22", None),
        (
            "kunlunxin",  # the virtual function is a part of the first card
            [
                (0, "kunlunxin:0000:03:00.0", "Kunlunxin P800 OAM", 98304),
                (2, "kunlunxin:0000:05:00.0", "Kunlunxin P800 OAM", 98304),
            ],
            "5.0.21.40",
            "XPU-RT 5.0.21",
        ),
        ("hygon", [(0, "hygon:GPU-7100fa8866904061", "Hygon DCU K100_AI", 65520)], None, None),
        (
            "amd",
            [(0, "amd:0000:05:00.0", "AMD Instinct MI300X", 196592), (1, "amd:0000:26:00.0", "AMD card", None)],
            "6.12.12",
            None,
        ),
        ("intel", [(0, "intel:index-0", "Arc Pro B60", 24480)], "7B7A46009E666C4D10E1134", None),
    ],
)
def test_cards_of_a_tool(machine: MakeHost, vendor: str, cards: object, driver: str, runtime: str) -> None:
    module, tools = TOOLS[vendor]
    found = module.find(machine(tools))
    assert brief(found) == cards
    assert (found[0].driver, found[0].runtime) == (driver, runtime)
    assert {card.vendor for card in found} == {vendor}


def test_readings_of_tools(machine: MakeHost) -> None:
    (first, second) = iluvatar.read(machine({"ixsmi": "ixsmi.txt"}))
    assert (first.utilisation, first.temperature_c, first.power_w, first.power_limit_w) == (0.12, 30, 40, 250)
    assert (second.utilisation, second.temperature_c, second.power_w) == (None, None, None)
    (mlu,) = cambricon.read(machine({"cnmon": "cnmon.txt"}))
    assert (mlu.memory_used_bytes, mlu.power_w, mlu.utilisation) == (1024 * MIB, 58, 0.03)
    busy = metax.read(machine({"mx-smi": "mx-smi.txt"}))[1]
    assert (busy.utilisation, busy.memory_used_bytes) == (1.0, 60826 * MIB)
    mtt, silent = moorethreads.read(machine({"mthreads-gmi": "mthreads.txt"}))
    assert (mtt.utilisation, mtt.temperature_c, silent.utilisation, silent.temperature_c) == (0.07, 52, None, None)
    (dcu,) = hygon.read(machine({f"hy-smi {ROCM}": "hygon.json"}))
    assert (dcu.utilisation, dcu.memory_used_bytes, dcu.power_w, dcu.power_limit_w) == (0.0, 2 * MIB, 80, None)


@pytest.mark.parametrize(
    ("file", "mapping", "cards"),
    [
        ("npu-310.txt", None, [(3, "ascend:0000:89:00.0", "Ascend 310", 8192), (4, "ascend:0000:8a:00.0", "Ascend 310", 8192)]),
        ("npu-910a.txt", "npu-910a-m.txt",
         [(0, "ascend:0000:c1:00.0", "Ascend 910A", 32768), (1, "ascend:0000:01:00.0", "Ascend 910A", 32768)]),
        ("npu-910a.txt", None, [(0, "ascend:0000:c1:00.0", "Ascend NPU", 32768), (1, "ascend:0000:01:00.0", "Ascend NPU", 32768)]),
        ("npu-910b4.txt", None, [(0, "ascend:npu0-chip0", "Ascend 910B4-1", 65536)]),
        ("npu-910c.txt", None, [(0, "ascend:0000:9d:00.0", "Ascend910", 65536), (1, "ascend:0000:9f:00.0", "Ascend910", 65536)]),
        ("npu-26.txt", None, [(4, "ascend:0000:9d:00.0", "Ascend910", 65536)]),
    ],
)  # fmt: skip
def test_the_layouts_of_npu_smi(machine: MakeHost, file: str, mapping: str | None, cards: object) -> None:
    tools = {"npu-smi info": file} | ({"npu-smi info -m": mapping} if mapping else {})
    assert brief(ascend.find(machine(tools))) == cards


def test_what_npu_smi_says_of_a_card(machine: MakeHost) -> None:
    host = machine({"npu-smi info": "npu-910a.txt"})
    first, second = ascend.find(host)
    assert first.driver == "24.1.RC2"
    assert first.processes is not None
    assert [(process.pid, process.memory_bytes) for process in first.processes] == [
        (37656, 686 * MIB),
        (37657, 12 * MIB),
    ]
    assert (second.health, second.processes) == (Health.OK, ())
    assert "Warning" in str(second.health_reason)
    reading = ascend.read(host)[1]
    assert (reading.utilisation, reading.power_w, reading.memory_used_bytes) == (0.5, 206.9, 16384 * MIB)


def test_the_second_die_of_a_board_has_no_power_and_its_own_health(machine: MakeHost) -> None:
    host = machine({"npu-smi info": "npu-910c.txt"})
    assert [card.health for card in ascend.find(host)] == [Health.OK, Health.UNKNOWN]
    assert [reading.power_w for reading in ascend.read(host)] == [163.6, None]
    assert ascend.read(host)[1].memory_used_bytes == 57784 * MIB


def test_programs_ask_for_an_ascend_chip_by_its_logical_id(machine: MakeHost) -> None:
    """In a container that was given one chip of eight its physical id stays, and names the device node."""
    mapping = "NPU ID   Chip ID   Chip Logic ID   Chip Phy-ID   Chip Name\n2        0         0               4             Ascend910\n"
    host = machine(
        {"npu-smi info": "npu-26.txt", "npu-smi info -m": mapping},
        nodes={path: NodeStat(0o20660, "HwHiAiUser", "HwHiAiUser") for path in ("/dev/davinci0", "/dev/davinci4")},
    )
    (card,) = ascend.find(host)
    assert (card.index, card.device_nodes) == (0, ("/dev/davinci4",))


def test_a_mapping_that_hangs_takes_no_chip_away(machine: MakeHost) -> None:
    argv = ("npu-smi", "info", "-m")
    host = machine({"npu-smi info": "npu-910c.txt", " ".join(argv): CommandResult(argv, None, timed_out=True)})
    assert [(card.index, card.model) for card in ascend.find(host)] == [(0, "Ascend910"), (1, "Ascend910")]


def test_rocm_smi_where_amd_smi_is_not(machine: MakeHost) -> None:
    big, small = amd.find(machine({f"rocm-smi {ROCM}": "rocm-two.json"}))
    assert (big.model, big.uuid, big.architecture) == ("Radeon RX 7800 XT", "GPU-5c88007d760374f3", "gfx1101")
    assert (small.model, small.uuid, small.memory_bytes, small.pci_address) == (
        "Radeon 780M",
        None,
        None,
        "0000:c4:00.0",
    )
    assert big.driver == "6.10.5"


def test_a_rocm_smi_of_hygon_lists_no_amd_card_and_the_other_way_round(machine: MakeHost) -> None:
    assert amd.find(machine({f"rocm-smi {ROCM}": "hygon.json"})) == ()
    assert hygon.find(machine({f"rocm-smi {ROCM}": "rocm-two.json"})) == ()
    assert [card.vendor for card in hygon.find(machine({f"rocm-smi {ROCM}": "hygon.json"}))] == ["hygon"]


def test_the_two_tools_called_xpu_smi(machine: MakeHost) -> None:
    kunlun = machine({"xpu-smi": "kunlun.txt", "xpu-smi discovery -j": "kunlun.txt"})
    assert intel.find(kunlun) == ()
    assert len(kunlunxin.find(kunlun)) == 2
    arc = machine(
        {
            "xpu-smi": "Intel XPU System Management Interface -- v1.2\nUsage: xpu-smi\n",
            "xpu-smi discovery -j": "xpu-b60.json",
        }
    )
    assert kunlunxin.find(arc) == ()
    assert len(intel.find(arc)) == 1


def test_apple_shares_the_machines_memory(machine: MakeHost) -> None:
    host = machine(
        {
            "system_profiler SPDisplaysDataType -json": "apple.json",
            "sw_vers": "ProductName: macOS\nProductVersion: 15.5\n",
        },
        libraries={"system": {"memory_total_bytes": 36 << 30}},
        platform="darwin",
    )
    (card,) = apple.find(host)
    assert (card.id, card.model, card.memory_bytes, card.driver) == ("apple:0", "Apple M4 Max", 36 << 30, "macOS 15.5")
    assert apple.find(machine({"system_profiler SPDisplaysDataType -json": "apple.json"})) == ()


NO_NVML = {"nvml": {"init": {"error": "LIBRARY_NOT_FOUND"}, "cards": []}}


def test_nvidia_smi_where_there_is_no_library(machine: MakeHost) -> None:
    said = (
        "0, GPU-aa, NVIDIA L4, 00000000:31:00.0, 23034, 12, 580.95.05, 8.9, 5, 40, 33.10, 72.00, 300, 405, [N/A]\n"
        "1, [GPU is lost], [GPU is lost], 00000000:32:00.0, [GPU is lost], [GPU is lost], 580.95.05, [GPU is lost], [GPU is lost],"
        " [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n"
    )
    host = machine({" ".join(nvidiasmi.ARGV): said}, libraries=NO_NVML)
    healthy, lost = nvidia.find(host)
    assert (healthy.id, healthy.model, healthy.memory_bytes, healthy.architecture) == (
        "nvidia:GPU-aa",
        "NVIDIA L4",
        23034 * MIB,
        "8.9",
    )
    assert (lost.id, lost.health, lost.uuid, lost.memory_bytes) == ("nvidia:0000:32:00.0", Health.LOST, None, None)
    assert (nvidia.read(host)[0].power_w, nvidia.read(host)[0].fan) == (33.1, None)
    assert nvidia.find(machine({" ".join(nvidiasmi.ARGV): "No devices were found\n"}, libraries=NO_NVML)) == ()


# ---- what goes wrong


@pytest.mark.parametrize("vendor", TOOLS)
@pytest.mark.parametrize(
    "said",
    ["\x1b[31m\0\xff garbage\n", "命令未找到：驱动没有加载\n", "Error: cannot open the driver\n", ""],
    ids=["garbage", "chinese", "english", "empty"],
)
@pytest.mark.parametrize("code", [0, 1, 255])
def test_what_is_not_understood_is_a_problem_in_its_own_words(
    machine: MakeHost, vendor: str, said: str, code: int
) -> None:
    module, tools = TOOLS[vendor]
    argv = tuple(next(iter(tools)).split())
    host = machine({" ".join(argv): CommandResult(argv, code, said.encode("utf-8", "surrogateescape"))})
    try:
        assert module.find(host) == ()
    except VendorFault as fault:
        assert fault.problem.vendor == vendor
        assert argv[0] in str(fault.problem.reason)
        assert not code or str(code) in str(fault.problem.reason)
    else:
        assert (vendor, code) in {("intel", code), ("hygon", code)}  # another maker's program of that name


@pytest.mark.parametrize("vendor", TOOLS)
def test_a_foreign_program_of_that_name_is_no_problem_where_the_bus_has_no_such_card(
    machine: MakeHost, vendor: str
) -> None:
    module, tools = TOOLS[vendor]
    host = machine(
        dict.fromkeys(tools, "usage: something else\n"),
        bus={"0000:00:02.0": ("1af4", "1050", "030000", "virtio-pci")},
    )
    assert module.find(host) == ()


@pytest.mark.parametrize("vendor", TOOLS)
def test_half_an_answer_gives_what_it_holds(machine: MakeHost, vendor: str) -> None:
    """Cut at each line: never an exception of ours, never a 0 for what is missing, and whole cards stay as they are."""
    module, tools = TOOLS[vendor]
    whole = module.find(machine(tools))
    line = next(iter(tools))
    text = (Path(__file__).parent / "outputs" / tools[line]).read_text()
    for end in range(0, len(text), 37):
        try:
            found = module.find(machine({line: text[:end] or "\n"}))
        except VendorFault:
            continue
        assert len(found) <= len(whole)
        assert all(card.memory_bytes != 0 for card in found)
        for card, full in zip(found[:-1], whole, strict=False):
            assert (card.id, card.memory_bytes) == (full.id, full.memory_bytes)


@given(st.text(st.characters(codec="utf-8"), max_size=400), st.sampled_from(sorted(TOOLS)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
def test_no_text_breaks_a_vendor(text: str, vendor: str) -> None:
    module, tools = TOOLS[vendor]
    argv = tuple(next(iter(tools)).split())
    host = RecordedHost(Bundle(commands={argv: CommandResult(argv, 0, text.encode())}))
    try:
        module.find(host)
    except VendorFault as fault:
        assert len(str(fault)) < 400


@given(
    st.lists(
        st.sampled_from(
            ["| 0  A  | 0000:01:00.0 |", "|===|===|", "+---+---+", "| GPU  Name | Bus-Id |", "", "|", "| x"]
        ),
        max_size=30,
    )
)
def test_no_arrangement_of_a_table_breaks_it(lines: list[str]) -> None:
    for seen in smitable.rows("\n".join(lines)):
        assert seen.index == 0


def test_a_tool_that_hangs_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small executables on PATH: one sleeps, one answers."""
    program(tmp_path / "mx-smi", "sleep 60")
    program(tmp_path / "ixsmi", f"cat {Path(__file__).parent}/outputs/ixsmi.txt")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("anycard.cards.pci.may_have", lambda *_: True)  # this machine has neither card on its bus
    seen = probe(
        LiveHost(), vendors=tuple(vendor for vendor in all_vendors() if vendor.VENDOR in ("metax", "iluvatar"))
    )
    assert [card.vendor for card in seen.cards] == ["iluvatar", "iluvatar"]
    (problem,) = seen.problems
    assert (problem.vendor, str(TIME_LIMIT_S) in str(problem.reason), "mx-smi" in str(problem.mend)) == (
        "metax",
        True,
        True,
    )


def test_a_tool_is_run_once_for_several_looks_and_left_alone_after_it_hung(machine: MakeHost) -> None:
    runs: list[tuple[str, ...]] = []

    class Counting(RecordedHost):
        def run(self, argv, timeout_s=10.0):  # type: ignore[no-untyped-def]
            runs.append(tuple(argv))
            return super().run(argv, timeout_s)

    said = CommandResult(("ixsmi",), 0, (Path(__file__).parent / "outputs" / "ixsmi.txt").read_bytes())
    hung = CommandResult(("mx-smi",), None, timed_out=True)
    host = Counting(Bundle(commands={("ixsmi",): said, ("mx-smi",): hung}))
    for _ in range(3):
        assert len(iluvatar.find(host)) == len(iluvatar.read(host)) == 2
        with pytest.raises(VendorFault, match="did not answer"):
            metax.find(host)
    assert sorted(runs) == [("ixsmi",), ("mx-smi",)]


def test_a_program_that_may_not_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cnmon").write_text("no program\n")
    (tmp_path / "cnmon").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("anycard.cards.pci.may_have", lambda *_: True)
    with pytest.raises(VendorFault, match=r"cnmon cannot be started: ENOEXEC"):
        cambricon.find(LiveHost())


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_bundle_holds_what_the_vendors_ask(machine: MakeHost) -> None:
    """Every command that a vendor runs is one that `anycard capture` records."""
    asked: list[tuple[str, ...]] = []

    class Listening(RecordedHost):
        def run(self, argv, timeout_s=10.0):  # type: ignore[no-untyped-def]
            asked.append(tuple(argv))
            return super().run(argv, timeout_s)

    for platform in ("linux", "darwin"):
        host = Listening(Bundle(platform=platform, libraries=dict(NO_NVML)))
        for vendor in all_vendors():
            vendor.find(host)
    assert len(asked) > 10
    assert set(asked) - set(probes.COMMANDS) == set()
