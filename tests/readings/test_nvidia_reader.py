"""NVIDIA's reader against the stand-in library: the real binding, without a card."""

from __future__ import annotations

import os

import nvml_standin
import pytest

from anycard.cards.problem import VendorFault
from anycard.cards.readings.nvidia import NvidiaReader
from anycard.cards.readings.shapes import Look, MarkKind
from anycard.host.bundle import Bundle
from anycard.host.clock import now
from anycard.host.libraries import nvml_session
from anycard.host.recorded import RecordedHost
from anycard.model.card import Reading


def of(look: Look, uuid: str) -> Reading:
    return next(reading for reading in look.readings if reading.card_id == f"nvidia:{uuid}")


def test_it_reads_what_the_driver_says(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(
        "[card]\nuuid = GPU-a\nutilisation = 87\nmemory_utilisation = 40\nmemory_used = 1073741824\ntemperature = 71\n"
        "power = 250500\npower_limit = 400000\nsm_clock = 1410\nmemory_clock = 1593\nfan = 55\nthrottle = 0x24\n"
        f"pcie_generation = 4\npcie_width = 8\necc_corrected = 3\necc_uncorrected = 1\nprocess = {os.getpid()} 1000 compute 60\n"
    )
    look = reader.look(now())
    assert look.readings == (
        Reading(
            "nvidia:GPU-a",
            utilisation=0.87,
            memory_used_bytes=1 << 30,
            memory_total_bytes=85899345920,
            temperature_c=71,
            power_w=250.5,
            power_limit_w=400,
            clock_mhz=1410,
            memory_clock_mhz=1593,
            fan=0.55,
            throttle_reasons=("power-cap", "software-thermal"),
            memory_utilisation=0.4,
            pcie_generation=4,
            pcie_width=8,
            ecc_corrected=3,
            ecc_uncorrected=1,
        ),
    )
    use = look.uses[0]
    assert (use.card_id, use.pid, use.memory_bytes, use.utilisation) == ("nvidia:GPU-a", os.getpid(), 1000, 0.6)


def test_what_a_card_does_not_say_is_unknown_and_costs_nothing_else(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe("[card]\nuuid = GPU-a\nutilisation = 50\npower = -1\ntemperature = -1\nfan = -1\necc = -1\n")
    for _ in range(3):  # what it has no answer for is asked seldom: it stays unknown
        reading = reader.look(now()).readings[0]
        assert (reading.power_w, reading.temperature_c, reading.fan, reading.ecc_corrected) == (None, None, None, None)
        assert reading.utilisation == 0.5


@pytest.mark.parametrize("answer", ["unknown", "timeout", "no_permission", "corrupted_inforom"])
def test_an_error_of_one_call_is_one_unknown_value(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, answer: str
) -> None:
    nvml.describe(
        f"[card]\nuuid = GPU-a\nutilisation = 50\nfault = {answer} nvmlDeviceGetPowerUsage\n[card]\nuuid = GPU-b\n"
    )
    look = reader.look(now())
    assert of(look, "GPU-a").power_w is None and of(look, "GPU-a").utilisation == 0.5
    assert of(look, "GPU-b").power_w == 62
    assert look.marks == ()  # no illness


def test_a_lost_card_is_a_mark_and_the_rest_is_read(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    two = "[card]\nuuid = GPU-a\n{fault}[card]\nuuid = GPU-b\nutilisation = 30\n"
    nvml.describe(two.format(fault=""))
    reader.look(now())
    nvml.describe(two.format(fault="fault = lost\n"))
    look = reader.look(now())
    assert [reading.card_id for reading in look.readings] == ["nvidia:GPU-b"]
    assert [(mark.card_id, mark.kind) for mark in look.marks] == [("nvidia:GPU-a", MarkKind.HEALTH)]
    assert "fell off the PCIe bus" in str(look.marks[0].text)
    assert reader.look(now()).marks == ()  # told once
    nvml.describe(two.format(fault=""))
    back = reader.look(now())
    assert len(back.readings) == 2
    assert [str(mark.text) for mark in back.marks] == ["The card answers again."]


def test_a_card_that_returns_under_another_index_is_the_same_card(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe("[card]\nuuid = GPU-a\nutilisation = 10\n[card]\nuuid = GPU-b\nutilisation = 20\n")
    reader.look(now())
    nvml.describe("[card]\nuuid = GPU-b\nutilisation = 20\n")
    gone = reader.look(now())
    assert [reading.card_id for reading in gone.readings] == ["nvidia:GPU-b"]
    assert [(mark.card_id, mark.kind) for mark in gone.marks] == [("nvidia:GPU-a", MarkKind.HEALTH)]
    nvml.describe("[card]\nuuid = GPU-b\nutilisation = 20\n[card]\nuuid = GPU-a\nutilisation = 10\n")
    back = reader.look(now())
    assert of(back, "GPU-a").utilisation == 0.1 and of(back, "GPU-b").utilisation == 0.2


def test_what_seldom_changes_follows_its_card_not_its_index(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe("[card]\nuuid = GPU-a\npower_limit = 100000\n[card]\nuuid = GPU-b\npower_limit = 200000\n")
    reader.look(now())
    nvml.describe("[card]\nuuid = GPU-b\npower_limit = 200000\n[card]\nuuid = GPU-a\npower_limit = 100000\n")
    look = reader.look(now())
    assert of(look, "GPU-a").power_limit_w == 100 and of(look, "GPU-b").power_limit_w == 200


def test_an_xid_is_a_mark_of_its_card_also_when_that_is_lost(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader
) -> None:
    nvml.describe("[card]\nuuid = GPU-a\n[card]\nuuid = GPU-b\n")
    reader.look(now())
    nvml.describe("[card]\nuuid = GPU-a\n[card]\nuuid = GPU-b\nxid = 79\nfault = lost\n")
    marks = {mark.kind: mark for mark in reader.look(now()).marks}
    assert marks[MarkKind.XID].card_id == "nvidia:GPU-b"
    assert marks[MarkKind.XID].text.params["number"] == 79
    assert MarkKind.HEALTH in marks
    assert MarkKind.XID not in {mark.kind for mark in reader.look(now()).marks}


def test_a_sick_driver_is_opened_anew(
    nvml: nvml_standin.NvmlStandin, reader: NvidiaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open NVML does not see that a card came back: it has to be closed and opened."""
    monkeypatch.setattr(nvml_session, "_STAYS_OPEN_S", 0.0)
    nvml.describe("[card]\nuuid = GPU-a\nfault = lost\n")
    reader.look(now())
    nvml.describe("init = driver_not_loaded\n[card]\nuuid = GPU-a\n")
    with pytest.raises(VendorFault, match="not loaded"):
        reader.look(now())
    nvml.describe("[card]\nuuid = GPU-a\n")
    assert [reading.card_id for reading in reader.look(now()).readings] == ["nvidia:GPU-a"]


def test_programs_of_every_list_count_once(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe(
        "[card]\nuuid = GPU-a\nprocess = 4242 100 compute 10\nprocess = 4242 50 graphics 10\nprocess = 7 5 graphics\n"
    )
    uses = {use.pid: use for use in reader.look(now()).uses}
    assert {pid: use.memory_bytes for pid, use in uses.items()} == {4242: 100, 7: 5}


def test_an_unreadable_program_list_is_no_program(nvml: nvml_standin.NvmlStandin, reader: NvidiaReader) -> None:
    nvml.describe("[card]\nuuid = GPU-a\nutilisation = 9\nfault = unknown nvmlDeviceGetComputeRunningProcesses_v3\n")
    look = reader.look(now())
    assert look.uses == () and look.readings[0].utilisation == 0.09


@pytest.mark.parametrize("recorded, busy, memory", [(87, 0.87, None), ([87, 40], 0.87, 0.4)])
def test_a_recorded_host_is_read_also_when_its_bundle_is_old(
    recorded: object, busy: float, memory: float | None
) -> None:
    card = {"index": 0, "uuid": {"value": "GPU-a"}, "utilisation_percent": {"value": recorded}}
    host = RecordedHost(Bundle(libraries={"nvml": {"init": {"value": True}, "cards": [card]}}))
    (reading,) = NvidiaReader(host).look(now()).readings
    assert (reading.utilisation, reading.memory_utilisation) == (busy, memory)
