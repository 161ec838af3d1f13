"""sysfs end to end: an unmodified program under umockdev sees a described machine, and says what cards it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UMOCKDEV = shutil.which("umockdev-run")
pytestmark = pytest.mark.skipif(UMOCKDEV is None, reason="install umockdev: it shows a program a described /sys")

# An AMD card and an Intel one on one switch, an NVIDIA card on a root port of its own without a driver, and the console of the board.
MACHINE = r"""
P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0
E: SUBSYSTEM=pci
A: class=0x030000\n
A: vendor=0x1002\n
A: device=0x747e\n
A: numa_node=0\n
A: unique_id=5c88007d760374f3\n
A: mem_info_vram_total=17163091968\n
A: mem_info_vram_used=27856896\n
A: gpu_busy_percent=37\n
L: driver=../../../../../../bus/pci/drivers/amdgpu

P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/drm/card1
E: SUBSYSTEM=drm
E: DEVNAME=/dev/dri/card1
N: dri/card1

P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/drm/renderD128
E: SUBSYSTEM=drm
E: DEVNAME=/dev/dri/renderD128
N: dri/renderD128

P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/hwmon/hwmon3
E: SUBSYSTEM=hwmon
A: temp1_input=45000\n
A: power1_average=53000000\n

P: /devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0
E: SUBSYSTEM=pci
A: class=0x030000\n
A: vendor=0x8086\n
A: device=0xe20b\n
A: numa_node=0\n
L: driver=../../../../../../bus/pci/drivers/xe

P: /devices/pci0000:00/0000:00:02.0/0000:05:00.0
E: SUBSYSTEM=pci
A: class=0x030200\n
A: vendor=0x10de\n
A: device=0x2330\n
A: numa_node=0\n

P: /devices/pci0000:00/0000:00:03.0/0000:06:00.0
E: SUBSYSTEM=pci
A: class=0x030000\n
A: vendor=0x1a03\n
A: device=0x2000\n
L: driver=../../../../bus/pci/drivers/ast
"""


# Cards that are asked through their makers' tools.
BY_TOOL = r"""
P: /devices/pci0000:00/0000:00:01.0/0000:0e:00.0
E: SUBSYSTEM=pci
A: class=0x030200\n
A: vendor=0x9999\n
A: device=0x0a01\n
L: driver=../../../../bus/pci/drivers/metax

P: /devices/pci0000:00/0000:00:02.0/0000:98:00.0
E: SUBSYSTEM=pci
A: class=0x120000\n
A: vendor=0x1e3e\n
A: device=0x0002\n
L: driver=../../../../bus/pci/drivers/iluvatar

P: /devices/pci0000:00/0000:00:03.0/0000:c1:00.0
E: SUBSYSTEM=pci
A: class=0x120000\n
A: vendor=0x19e5\n
A: device=0xd802\n
L: driver=../../../../bus/pci/drivers/devdrv_device_driver
"""


def under(tmp_path: Path, *argv: str, machine: str = MACHINE, path: str | None = None) -> str:
    description = tmp_path / "machine.umockdev"
    description.write_text(machine.lstrip())
    env = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "NVML_STANDIN")}
    command = [str(UMOCKDEV), "-d", str(description), "--", sys.executable, *argv]
    env["ANYCARD_HOME"] = str(tmp_path)
    env["PATH"] = f"{path}:{env['PATH']}" if path else env["PATH"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return ran.stdout


def test_every_card_of_a_described_machine(tmp_path: Path) -> None:
    seen = json.loads(under(tmp_path, "-m", "anycard", "cards", "--json"))
    cards = [
        (card["id"], card["model"], card["memory_bytes"], card["health"])
        for card in seen["cards"]
        if card["accelerator"]
    ]
    assert cards == [
        ("amd:GPU-5c88007d760374f3", "Radeon RX 7700 XT / 7800 XT", 17163091968, "ok"),
        ("intel:0000:04:00.0", "Arc B580", None, "ok"),
        ("nvidia:0000:05:00.0", "NVIDIA H100 SXM5 80GB", None, "no-driver"),
    ]
    amd = seen["cards"][1]
    assert (amd["numa_node"], amd["device_nodes"]) == (0, ["/dev/dri/renderD128", "/dev/dri/card1"])
    assert amd["device_access"][0]["mode"] == "0600"
    assert [(device["kind"], device["name"]) for device in seen["other_devices"]] == [("console", "ASPEED")]
    assert [link["letters"] for link in seen["links"]] == ["PIX", "PHB", "PHB"]


def test_its_readings(tmp_path: Path) -> None:
    program = (
        "from anycard.host.live import LiveHost; from anycard.cards.vendors import amd; print(amd.read(LiveHost())[0])"
    )
    said = under(tmp_path, "-c", program)
    for value in ("utilisation=0.37", "temperature_c=45.0", "power_w=53.0", "fan=None", "power_limit_w=None"):
        assert value in said


def test_a_tool_that_hangs_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    """The whole command, on a machine with three makers' cards: one tool sleeps, one fails in another language, one answers."""
    tools = tmp_path / "tools"
    tools.mkdir()
    answer = (Path(__file__).parent / "outputs" / "ixsmi.txt").read_text().split("| 1    Iluvatar")[0]
    (tools / "answer.txt").write_text(answer)
    for name, body in (
        ("mx-smi", "exec sleep 600"),
        ("ixsmi", f"cat {tools / 'answer.txt'}"),
        ("npu-smi", "echo dcmi 模块初始化失败 >&2; exit 255"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    seen = json.loads(under(tmp_path, "-m", "anycard", "cards", "--json", machine=BY_TOOL, path=str(tools)))
    cards = {card["vendor"]: card for card in seen["cards"]}
    assert {vendor: card["health"] for vendor, card in cards.items()} == {
        "cpu": "ok",
        "iluvatar": "ok",
        "metax": "unreachable",
        "ascend": "unreachable",
    }
    assert cards["iluvatar"]["memory_bytes"] == 32 << 30
    assert (cards["metax"]["model"], cards["ascend"]["model"]) == ("MetaX C500", "Ascend 910B")
    problems = {problem["vendor"]: problem["reason"] for problem in seen["problems"]}
    assert set(problems) == {"metax", "ascend"}
    assert "mx-smi did not answer" in problems["metax"]
    assert "255" in problems["ascend"] and "模块初始化失败" in problems["ascend"]
    assert cards["metax"]["health_reason"] == problems["metax"]


def test_the_sampler_reads_it(tmp_path: Path) -> None:
    """The readings of the platform, on the described sysfs: opened once and read twice, as the daemon does."""
    program = (
        "from anycard.host.clock import now; from anycard.host.live import LiveHost;"
        "from anycard.cards.readings import reader_of;"
        "amd = reader_of('amd', LiveHost()); amd.look(now()); print(amd.look(now()).readings[0])"
    )
    said = under(tmp_path, "-c", program)
    for value in ("utilisation=0.37", "memory_used_bytes=27856896", "temperature_c=45.0", "power_w=53.0", "fan=None"):
        assert value in said
