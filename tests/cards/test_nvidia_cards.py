"""The NVIDIA vendor file over the real binding, on the stand-in library."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from nvml_standin import EIGHT_CARDS, NvmlStandin

from anycard.cards.probe import probe
from anycard.cards.problem import VendorFault
from anycard.cards.vendors import nvidia
from anycard.host.bundle import Bundle
from anycard.host.host import FileRead
from anycard.host.live import LiveHost
from anycard.host.recorded import RecordedHost
from anycard.model.card import Card, Health
from anycard.units import GIB


def sick(number: int, fault: str) -> str:
    """EIGHT_CARDS with a fault on one of them."""
    blocks = EIGHT_CARDS.split("[card]")
    blocks[number + 1] += f"fault = {fault}\n"
    return "[card]".join(blocks)


def found() -> dict[int, Card]:
    return {card.index: card for card in nvidia.find(LiveHost())}


def test_a_card_is_described(nvml: NvmlStandin) -> None:
    nvml.describe("driver = 580.95.05\ncuda = 12080\n[card]\nbus = 00000001:C1:00.0\nuuid = GPU-1\nminor = 4\n")
    (card,) = nvidia.find(LiveHost())
    assert card == Card(
        id="nvidia:GPU-1",
        vendor="nvidia",
        model="NVIDIA A100-SXM4-80GB",
        uuid="GPU-1",
        pci_address="0001:c1:00.0",
        memory_bytes=80 * GIB,
        driver="580.95.05",
        runtime="CUDA 12.8",
        architecture="8.0",
        device_nodes=("/dev/nvidia4",),
        processes=(),
    )


@pytest.mark.parametrize("where", ["", "queries"])
@pytest.mark.parametrize(
    ("fault", "health", "words"),
    [
        ("lost", Health.LOST, "fell off the PCIe bus"),
        ("reset_required", Health.RESET_REQUIRED, "--gpu-reset -i 3"),
        ("not_found", Health.NOT_FOUND, "does not find it"),
        ("unknown", Health.UNKNOWN, "unknown error"),
        ("no_permission", Health.BLOCKED, "owner and mode of /dev/nvidia"),
        ("operating_system", Health.BLOCKED, "operating system blocks"),
        ("corrupted_inforom", Health.UNKNOWN, "CORRUPTED_INFOROM"),
        ("timeout", Health.UNREACHABLE, "in time"),
    ],
)
def test_one_sick_card_is_named_and_hides_no_other(
    nvml: NvmlStandin, fault: str, where: str, health: Health, words: str
) -> None:
    nvml.describe(sick(3, f"{fault} {where}"))
    cards = found()
    assert sorted(cards) == list(range(8))
    assert cards[3].health is health
    assert words in str(cards[3].health_reason)
    assert all(card.health is Health.OK and card.memory_bytes for index, card in cards.items() if index != 3)


@pytest.mark.parametrize("fault", ["lost", "reset_required"])
def test_lost_and_reset_required_count_on_any_call(nvml: NvmlStandin, fault: str) -> None:
    nvml.describe(sick(2, f"{fault} nvmlDeviceGetPowerUsage"))
    assert found()[2].health in (Health.LOST, Health.RESET_REQUIRED)


@pytest.mark.parametrize("fault", ["no_permission", "unknown", "not_supported", "not_found"])
def test_a_refused_detail_is_no_sickness(nvml: NvmlStandin, fault: str) -> None:
    nvml.describe(sick(2, f"{fault} nvmlDeviceGetPowerUsage"))
    assert found()[2].health is Health.OK


def test_unified_memory_is_unknown_memory_on_a_healthy_card(nvml: NvmlStandin) -> None:
    nvml.describe("[card]\nname = NVIDIA GB10\nmemory = -1\n")
    (card,) = nvidia.find(LiveHost())
    assert (card.memory_bytes, card.health) == (None, Health.OK)


def test_an_unreadable_process_list_is_none_on_a_healthy_card(nvml: NvmlStandin) -> None:
    nvml.describe(sick(1, "no_permission nvmlDeviceGetComputeRunningProcesses_v3"))
    cards = found()
    assert (cards[1].processes, cards[1].health) == (None, Health.OK)
    assert cards[0].processes == ()


def test_programs_on_a_card_are_shown_once_with_user_and_command(nvml: NvmlStandin) -> None:
    mine = os.getpid()
    nvml.describe(
        f"[card]\nprocess = {mine} 1000 compute\nprocess = {mine} 3000 graphics\nprocess = 4194305 5 compute\n"
    )
    (card,) = nvidia.find(LiveHost())
    assert card.processes is not None
    ours, gone = card.processes
    assert (ours.pid, ours.memory_bytes) == (mine, 3000)
    assert ours.user and "python" in (ours.command or "")
    assert (gone.pid, gone.memory_bytes, gone.user, gone.command) == (4194305, 5, None, None)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("driver_not_loaded", "kernel driver is not loaded"),
        ("version_mismatch", "different versions"),
        ("operating_system", "operating system blocks"),
        ("no_permission", "may not speak"),
        ("unknown", "answers UNKNOWN"),
    ],
)
def test_a_driver_that_does_not_answer_is_a_problem_of_the_vendor(nvml: NvmlStandin, answer: str, words: str) -> None:
    nvml.describe(f"init = {answer}\n[card]\n")
    with pytest.raises(VendorFault, match=words) as caught:
        nvidia.find(LiveHost())
    assert caught.value.problem.mend


def test_no_library_is_no_card_and_no_problem() -> None:
    program = (
        "from anycard.cards.probe import probe; from anycard.host.live import LiveHost;"
        "seen = probe(LiveHost()); print([card.vendor for card in seen.cards], seen.problems)"
    )
    env = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "NVML_STANDIN")}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    if "nvidia" in ran.stdout:
        pytest.skip("this machine has an NVIDIA driver")
    assert ran.stdout == "['cpu'] ()\n"


def test_a_fault_comes_and_goes_while_the_program_runs(nvml: NvmlStandin) -> None:
    host = LiveHost()
    nvml.describe(EIGHT_CARDS)
    before = probe(host)
    nvml.describe(sick(6, "lost"))
    during = probe(host, before)
    nvml.describe(EIGHT_CARDS)
    after = probe(host, during)
    assert before == after
    lost = next(card for card in during.cards if card.index == 6 and card.vendor == "nvidia")
    healthy = next(card for card in before.cards if card.index == 6 and card.vendor == "nvidia")
    # the card says nothing any more, not even who it is: its identity is that of the card which had its index
    assert replace(lost, health=Health.OK, health_reason=None, processes=()) == healthy
    assert lost.health is Health.LOST


def test_a_driver_that_goes_away_leaves_its_cards_unreachable(nvml: NvmlStandin) -> None:
    host = LiveHost()
    nvml.describe(EIGHT_CARDS)
    before = probe(host)
    nvml.describe("init = driver_not_loaded\n")
    during = probe(host, before)
    assert [card.id for card in during.cards] == [card.id for card in before.cards]
    assert {card.health for card in during.cards if card.vendor == "nvidia"} == {Health.UNREACHABLE}
    assert [problem.vendor for problem in during.problems] == ["nvidia"]


def test_a_card_that_is_no_longer_listed_stays_as_not_found(nvml: NvmlStandin) -> None:
    host = LiveHost()
    nvml.describe(EIGHT_CARDS)
    before = probe(host)
    nvml.describe("[card]".join(EIGHT_CARDS.split("[card]")[:8]))
    during = probe(host, before)
    assert [card.health for card in during.cards if card.vendor == "nvidia"] == [Health.OK] * 7 + [Health.NOT_FOUND]
    assert during.cards[-1].id == before.cards[-1].id


def test_the_kernels_list_names_a_lost_card_without_a_history() -> None:
    seen = {
        "init": {"value": True},
        "driver": {"value": "580"},
        "cuda": {"value": 13000},
        "count": {"value": 2},
        "cards": [
            {"index": 0, "handle": {"error": "GPU_IS_LOST"}},
            {
                "index": 1,
                "handle": {"value": True},
                "uuid": {"value": "GPU-b"},
                "pci": {"value": "00000000:65:00.0"},
                "name": {"value": "B"},
            },
        ],
    }
    folder = "/proc/driver/nvidia/gpus"
    information = b"Model: \t\t NVIDIA L4\nIRQ:   \t\t 90\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
    host = RecordedHost(
        Bundle(
            folders={folder: ("0000:17:00.0", "0000:65:00.0")},
            files={f"{folder}/0000:17:00.0/information": FileRead(information)},
            libraries={"nvml": seen},
        )
    )
    lost, healthy = nvidia.find(host)
    assert (lost.id, lost.model, lost.health) == ("nvidia:0000:17:00.0", "NVIDIA L4", Health.LOST)
    assert (healthy.id, healthy.processes) == ("nvidia:GPU-b", None)


def test_readings(nvml: NvmlStandin) -> None:
    nvml.describe(
        "[card]\nuuid = GPU-1\nutilisation = 87\nmemory_used = 1073741824\ntemperature = 61\npower = 305500\nfan = 40\nthrottle = 0x44\n"
        "[card]\nfault = lost\n[card]\nuuid = GPU-3\npower = -1\n"
    )
    first, third = nvidia.read(LiveHost())
    assert (first.card_id, first.utilisation, first.memory_used_bytes, first.memory_total_bytes) == (
        "nvidia:GPU-1",
        0.87,
        GIB,
        80 * GIB,
    )
    assert (first.temperature_c, first.power_w, first.power_limit_w, first.fan) == (61, 305.5, 400.0, 0.4)
    assert first.throttle_reasons == ("power-cap", "hardware-thermal")
    assert (third.card_id, third.power_w, third.fan) == ("nvidia:GPU-3", None, None)


def test_a_program_started_with_the_stand_in_finds_it(nvml: NvmlStandin) -> None:
    """By LD_LIBRARY_PATH, as a user's program would."""
    nvml.describe(EIGHT_CARDS)
    program = (
        "import pynvml as p; p.nvmlInit(); h = p.nvmlDeviceGetHandleByIndex(7);"
        "print(p.nvmlDeviceGetCount(), p.nvmlDeviceGetSerial(h))"
    )
    env = {**os.environ, **nvml.env}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "8 1565020000007\n"
