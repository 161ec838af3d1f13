"""Readers that read files: the CPU, AMD, Intel, the kernel's log. On folders that the test writes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from anycard.cards.readings import reader_of, sysfs
from anycard.cards.readings.cpu import CpuReader
from anycard.cards.readings.kernel import KernelReader
from anycard.cards.readings.shapes import MarkKind
from anycard.cards.readings.sysfs import SysfsReader
from anycard.cards.readings.tools import ToolReader
from anycard.host.host import FileRead, Json
from anycard.host.live import LiveHost
from anycard.model.card import Card, Reading
from anycard.model.instant import Instant


class Below(LiveHost):
    """The machine as it stands below a folder; what is not there is not there."""

    def __init__(self, root: Path, system: Json = None) -> None:
        self.root = root
        self.system = system or {"affinity": [0, 1], "processor_count": 2}
        self.log: list[str] = []

    def put(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def _at(self, path: str) -> str:
        return str(self.root / path.lstrip("/"))

    def read(self, path: str, limit_bytes: int = 1 << 20) -> FileRead:
        return super().read(self._at(path), limit_bytes)

    def list_folder(self, path: str) -> tuple[str, ...] | None:
        return super().list_folder(self._at(path))

    def readlink(self, path: str) -> str | None:
        return super().readlink(self._at(path))

    def exists(self, path: str) -> bool:
        return super().exists(self._at(path))

    def ask(self, library: str) -> Json:
        return self.system if library == "system" else None

    def session(self, library: str):  # type: ignore[no-untyped-def]
        host = self

        class Log:
            def look(self) -> Json:
                lines, host.log = host.log, []
                return {"readable": True, "lines": [{"boot_s": 1.0, "text": line} for line in lines]}

            def close(self) -> None:
                pass

        return Log()

    def device(self, address: str, vendor: str, device: str, driver: str) -> str:
        folder = f"/sys/bus/pci/devices/{address}"
        for name, text in (("vendor", vendor), ("device", device), ("class", "030000")):
            self.put(f"{folder}/{name}", f"0x{text}\n")
        (self.root / folder.lstrip("/") / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        return folder


@pytest.fixture
def host(tmp_path: Path) -> Below:
    return Below(tmp_path)


def at(second: float) -> Instant:
    return Instant(1000 + second, second, "boot")


# ---- CPU


def test_the_cpu_is_as_busy_as_its_ticks_say(host: Below) -> None:
    host.put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n")
    host.put("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8\n")
    reader = CpuReader(host)
    first = reader.look(at(0)).readings[0]
    assert (first.utilisation, first.memory_used_bytes, first.memory_total_bytes) == (None, 600 * 1024, 1000 * 1024)
    host.put("/proc/stat", "cpu  150 0 110 830 10 0 0 0 0 0\n")
    second = reader.look(at(1)).readings[0]
    assert (second.utilisation, second.io_wait) == (pytest.approx(0.6), pytest.approx(0.1))


def test_only_the_processors_that_are_ours_count(tmp_path: Path) -> None:
    host = Below(tmp_path, {"affinity": [1], "processor_count": 2})
    reader = CpuReader(host)
    for busy, second in ((10, 0), (110, 1)):
        host.put(
            "/proc/stat",
            f"cpu  0 0 0 {second * 200} 0 0 0 0\ncpu0 0 0 0 {second * 100} 0 0 0 0\ncpu1 {busy} 0 0 0 0 0 0 0\n",
        )
        look = reader.look(at(second))
    assert look.readings[0].utilisation == 1.0


def test_a_container_is_measured_by_its_own_limit(host: Below) -> None:
    host.put("/proc/meminfo", "MemTotal:  1000000 kB\nMemAvailable:  10 kB\n")
    host.put("/proc/self/cgroup", "0::/box\n")
    host.put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")
    host.put("/sys/fs/cgroup/box/memory.max", "1048576\n")
    host.put("/sys/fs/cgroup/box/memory.current", "600000\n")
    host.put("/sys/fs/cgroup/box/memory.stat", "anon 1\ninactive_file 100000\n")
    reading = CpuReader(host).look(at(0)).readings[0]
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (500000, 1048576)


@pytest.mark.parametrize("stat", ["", "cpu", "garbage\n", "cpu a b\n", "cpu0 1 1 1 1 1 1 1 1\n"])
def test_an_unreadable_stat_is_an_unknown_value(host: Below, stat: str) -> None:
    host.put("/proc/stat", stat)
    reader = CpuReader(host)
    reader.look(at(0))
    reading = reader.look(at(1)).readings[0]
    assert (reading.utilisation, reading.memory_used_bytes) == (None, None)


def test_this_machine_is_read() -> None:
    reading = CpuReader(LiveHost()).look(at(0)).readings[0]
    assert reading.memory_total_bytes and 0 < (reading.memory_used_bytes or 0) < reading.memory_total_bytes


# ---- AMD


@pytest.fixture
def radeon(host: Below) -> str:
    folder = host.device("0000:03:00.0", "1002", "744c", "amdgpu")
    for name, text in {
        "unique_id": "0123456789abcdef",
        "gpu_busy_percent": "73",
        "mem_busy_percent": "21",
        "mem_info_vram_total": "25753026560",
        "mem_info_vram_used": "1073741824",
        "current_link_speed": "16.0 GT/s PCIe",
        "current_link_width": "16",
        "power/runtime_status": "active",
        "ras/umc_err_count": "ue: 2\nce: 5",
        "hwmon/hwmon3/temp1_input": "61000",
        "hwmon/hwmon3/power1_average": "203000000",
        "hwmon/hwmon3/power1_cap": "300000000",
        "hwmon/hwmon3/freq1_input": "2400000000",
        "hwmon/hwmon3/freq2_input": "1249000000",
        "hwmon/hwmon3/pwm1": "51",
    }.items():
        host.put(f"{folder}/{name}", text + "\n")
    return folder


def test_an_amd_card_by_sysfs(host: Below, radeon: str) -> None:
    host.put("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "54321\n")
    host.put("/sys/class/kfd/kfd/topology/nodes/1/properties", f"simd_count 96\ndomain 0\nlocation_id {0x0300}\n")
    host.put("/sys/class/kfd/kfd/proc/4242/vram_54321", "900000\n")
    host.put("/sys/class/kfd/kfd/proc/4243/vram_54321", "0\n")
    reader = reader_of("amd", host)
    assert isinstance(reader, SysfsReader)
    look = reader.look(at(0))
    assert look.readings == (
        Reading(
            "amd:GPU-0123456789abcdef",
            utilisation=0.73,
            memory_used_bytes=1 << 30,
            memory_total_bytes=25753026560,
            temperature_c=61,
            power_w=203,
            power_limit_w=300,
            clock_mhz=2400,
            memory_clock_mhz=1249,
            fan=0.2,
            memory_utilisation=0.21,
            pcie_generation=4,
            pcie_width=16,
            ecc_corrected=5,
            ecc_uncorrected=2,
        ),
    )
    assert [(use.card_id, use.pid, use.memory_bytes) for use in look.uses] == [
        ("amd:GPU-0123456789abcdef", 4242, 900000)
    ]


def test_a_sleeping_card_is_left_asleep(host: Below, radeon: str) -> None:
    """Its files would wake it; what it does is known without them."""
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    host.put(f"{radeon}/power/runtime_status", "suspended\n")
    read: list[str] = []
    plain = host.read
    host.read = lambda path, limit_bytes=1 << 20: read.append(path) or plain(path, limit_bytes)  # type: ignore[method-assign,assignment,func-returns-value]
    reader.look(at(0))
    read.clear()
    reading = reader.look(at(1)).readings[0]
    assert (reading.utilisation, reading.temperature_c, reading.memory_total_bytes) == (0.0, None, 25753026560)
    assert [path for path in read if "hwmon" in path or "busy" in path] == []


def test_a_file_that_vanishes_is_one_unknown_value(host: Below, radeon: str) -> None:
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    reader.look(at(0))
    (host.root / radeon.lstrip("/") / "gpu_busy_percent").unlink()
    host.put(f"{radeon}/hwmon/hwmon3/temp1_input", "hot as hell\n")
    reading = reader.look(at(1)).readings[0]
    assert (reading.utilisation, reading.temperature_c, reading.power_w) == (None, None, 203)


@pytest.mark.parametrize("instead", ["/proc/self/mem", "/proc", "/nowhere/at/all"], ids=["EIO", "EISDIR", "ENOENT"])
def test_files_that_cannot_be_read_any_more_are_unknown_values(host: Below, radeon: str, instead: str) -> None:
    """Opened, and gone before they are read: every file of the card, one after the other and then all."""
    file = host.root / radeon.lstrip("/") / "gpu_metrics"
    file.write_bytes(struct.pack("<HBB108xQ", 120, 1, 3, 1))
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    assert reader.look(at(0)).readings[0].utilisation == 0.73
    names = ("gpu_busy_percent", "mem_info_vram_used", "current_link_speed", "gpu_metrics", "hwmon/hwmon3/temp1_input",
             "hwmon/hwmon3/power1_average", "power/runtime_status", "ras/umc_err_count")  # fmt: skip
    for second, name in enumerate(names, 1):
        path = host.root / radeon.lstrip("/") / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(instead)
        (reading,) = reader.look(at(second)).readings
        assert reading.memory_total_bytes == 25753026560
    assert (reading.utilisation, reading.memory_used_bytes, reading.temperature_c, reading.power_w) == (None,) * 4
    assert (reading.throttle_reasons, reading.ecc_corrected, reading.pcie_generation) == (None,) * 3
    assert reading.clock_mhz == 2400


def test_an_amd_card_says_why_it_is_slowed_down(host: Below, radeon: str) -> None:
    file = host.root / radeon.lstrip("/") / "gpu_metrics"
    file.write_bytes(struct.pack("<HBB108xQ", 120, 1, 3, 1 | 1 << 36))  # PPT0, TEMP_HOTSPOT
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    assert reader.look(at(0)).readings[0].throttle_reasons == ("power-cap",)
    host.put(f"{radeon}/hwmon/hwmon3/power1_average", "9000000\n")
    assert reader.look(at(1)).readings[0].throttle_reasons == ()
    file.unlink()
    assert reader.look(at(2)).readings[0].throttle_reasons is None


def test_a_card_that_is_pulled_out_is_a_gap_and_is_found_again_at_once(host: Below, radeon: str) -> None:
    """Its folder goes, and when it is back its sensors have another number."""
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    folder = host.root / radeon.lstrip("/")
    assert len(reader.look(at(0)).readings) == 1
    away = folder.rename(host.root / "away")
    assert [reader.look(at(second)).readings for second in (1, 2)] == [(), ()]
    away.rename(folder)
    (folder / "hwmon" / "hwmon3").rename(folder / "hwmon" / "hwmon7")
    (back,) = reader.look(at(3)).readings
    assert (back.temperature_c, back.power_w) == (61, 203)


def test_a_second_card_is_found_in_time(host: Below, radeon: str) -> None:
    reader = SysfsReader("amd", host, sysfs.amd_cards)
    assert len(reader.look(at(0)).readings) == 1
    host.device("0000:04:00.0", "1002", "744c", "amdgpu")
    assert len(reader.look(at(60)).readings) == 2


# ---- Intel


def test_an_intel_card_of_xe(host: Below) -> None:
    folder = host.device("0000:05:00.0", "8086", "e20b", "xe")
    gt = f"{folder}/tile0/gt0"
    host.put(f"{gt}/freq0/act_freq", "2850\n")
    host.put(f"{gt}/gtidle/idle_residency_ms", "1000\n")
    host.put(f"{gt}/freq0/throttle/reason_pl1", "1\n")
    host.put(f"{gt}/freq0/throttle/reason_thermal", "0\n")
    host.put(f"{folder}/hwmon/hwmon2/temp2_input", "48000\n")
    host.put(f"{folder}/hwmon/hwmon2/energy1_input", "5000000\n")
    reader = reader_of("intel", host)
    first = reader.look(at(0)).readings[0]
    assert (first.utilisation, first.power_w) == (None, None)  # counters take two looks
    host.put(f"{gt}/gtidle/idle_residency_ms", "1500\n")
    host.put(f"{folder}/hwmon/hwmon2/energy1_input", "105000000\n")
    second = reader.look(at(2)).readings[0]
    assert (second.utilisation, second.power_w, second.clock_mhz) == (pytest.approx(0.75), 50, 2850)
    assert (second.temperature_c, second.throttle_reasons) == (48, ("power-cap",))


def test_a_counter_that_began_anew_is_unknown_once(host: Below) -> None:
    folder = host.device("0000:05:00.0", "8086", "e20b", "xe")
    idle = f"{folder}/tile0/gt0/gtidle/idle_residency_ms"
    reader = SysfsReader("intel", host, sysfs.intel_cards)
    seen = []
    for second, value in enumerate((5000, 6000, 10, 510)):
        host.put(idle, f"{value}\n")
        seen.append(reader.look(at(second)).readings[0].utilisation if second else reader.look(at(second)) and None)
    assert seen == [None, pytest.approx(0.0), None, pytest.approx(0.5)]


# ---- tools


def test_a_tool_that_takes_long_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ToolReader("apple", LiveHost())  # one without readings
    clock = iter((0.0, 2.0, 100.0, 100.01))
    monkeypatch.setattr("anycard.cards.readings.tools.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(reader._vendor, "find", lambda host: ())
    assert reader.look(at(0)).readings == () and reader.period_s == pytest.approx(40)
    reader.look(at(40))
    assert reader.period_s == 10


# ---- the kernel's log

CARDS = (
    Card("nvidia:GPU-a", "nvidia", "A100", pci_address="0000:65:00.0"),
    Card("amd:GPU-b", "amd", "MI300X", pci_address="0000:03:00.0"),
)


@pytest.mark.parametrize(
    "line, card, kind",
    [
        ("NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "nvidia:GPU-a", MarkKind.XID),
        ("NVRM: Xid (PCI:0000:99:00): 31, pid=7, MMU Fault", None, MarkKind.XID),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "amd:GPU-b", MarkKind.KERNEL),
        ("amdgpu 0000:03:00.0: [drm] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2", "amd:GPU-b", MarkKind.KERNEL),
        ("pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error message received from 0000:65:00.0", "nvidia:GPU-a", MarkKind.KERNEL),
    ],
)  # fmt: skip
def test_a_line_about_a_card_is_a_mark(host: Below, line: str, card: str | None, kind: MarkKind) -> None:
    reader = KernelReader(host, lambda: CARDS)
    host.log = [line]
    (mark,) = reader.look(at(5)).marks
    assert (mark.card_id, mark.kind) == (card, kind)
    assert reader.look(at(6)).marks == ()


@pytest.mark.parametrize(
    "line",
    [
        "usb 1-1: reset high-speed USB device",
        "amdgpu 0000:09:00.0: amdgpu: GPU reset begin!",  # no card of this machine
        "amdgpu 0000:03:00.0: amdgpu: Fetched VBIOS from VFCT",
        "e1000e 0000:00:1f.6 eth0: NIC Link is Down",
        "\x1b[31m" * 50,
    ],
)
def test_other_lines_are_none(host: Below, line: str) -> None:
    reader = KernelReader(host, lambda: CARDS)
    host.log = [line]
    assert reader.look(at(5)).marks == ()
