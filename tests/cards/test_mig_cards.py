"""A card in MIG mode and its instances, over the real binding on the stand-in library; and through nvidia-smi."""

from __future__ import annotations

import os

import pytest
from divided import WHOLE, A, B, C, divided
from nvml_standin import NvmlStandin

from anycard.cards.mig import split_model
from anycard.cards.names import names
from anycard.cards.probe import Inventory, is_destroyed, probe
from anycard.cards.vendors import nvidia
from anycard.cards.visibility import visibility_env
from anycard.cli.sizingwords import local_specs
from anycard.doctor.looks import nvml_lines
from anycard.host.libraries import nvml as library
from anycard.host.live import LiveHost
from anycard.jobs.places import spec_of
from anycard.model.card import Card, Health
from anycard.units import GIB


def look(before: Inventory | None = None) -> Inventory:
    return probe(LiveHost(), before, vendors=(nvidia,))


def by_id(seen: Inventory) -> dict[str, Card]:
    return {card.id: card for card in seen.cards}


def test_instances_stand_behind_their_card(nvml: NvmlStandin) -> None:
    nvml.describe(divided() + "[card]\nuuid = GPU-second\nbus = 00000000:20:00.0\n")
    cards = look().cards
    assert [card.id.removeprefix("nvidia:") for card in cards] == [WHOLE, A, B, C, "GPU-second"]
    whole, first = cards[0], cards[1]
    assert whole.divided and not whole.is_grantable and whole.part_of is None
    assert (whole.memory_bytes, whole.processes, whole.health) == (80 * GIB, (), Health.OK)
    assert first == Card(
        id=f"nvidia:{A}",
        vendor="nvidia",
        model="NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        index=0,
        part_of=whole.id,
        uuid=A,
        memory_bytes=10 * GIB,
        driver=whole.driver,
        runtime=whole.runtime,
        architecture="8.0",
        device_nodes=whole.device_nodes,
        processes=(),
    )
    assert not cards[4].divided and cards[4].part_of is None


def test_a_program_is_on_its_instance_alone(nvml: NvmlStandin) -> None:
    nvml.describe(divided(f"process = {os.getpid()} 1000 compute 0 1\n"))
    seen = by_id(look())
    assert [process.pid for process in seen[f"nvidia:{B}"].processes or ()] == [os.getpid()]
    assert all(card.processes == () for name, card in seen.items() if name != f"nvidia:{B}")
    assert list(library.pids(library.look())).count(os.getpid()) == 2  # a bundle holds who it is


def test_what_only_root_sees_of_the_whole_card_is_no_sickness(nvml: NvmlStandin) -> None:
    calls = ("MemoryInfo_v2", "ComputeRunningProcesses_v3", "GraphicsRunningProcesses_v3")
    nvml.describe(divided("".join(f"fault = no_permission nvmlDeviceGet{call}\n" for call in calls)))
    seen = look().cards
    assert (seen[0].health, seen[0].memory_bytes, seen[0].processes) == (Health.OK, None, ())
    assert [(card.health, card.memory_bytes) for card in seen[1:]] == [(Health.OK, n * GIB) for n in (10, 20, 40)]


def test_a_sick_instance_hides_neither_card_nor_siblings(nvml: NvmlStandin) -> None:
    nvml.describe(divided())
    before = look()
    nvml.describe(divided("mig_fault = 1 unknown\n"))
    seen = by_id(look(before))
    assert seen[f"nvidia:{B}"].health is Health.UNKNOWN
    assert seen[f"nvidia:{B}"].memory_bytes == 20 * GIB  # it is still the one that had the slot
    assert [card.health for name, card in seen.items() if name != f"nvidia:{B}"] == [Health.OK] * 3
    nvml.describe(divided())
    assert all(card.health is Health.OK for card in look(before).cards)


@pytest.mark.parametrize(
    ("fault", "health"), [("lost", Health.LOST), ("reset_required queries", Health.RESET_REQUIRED)]
)
def test_what_ails_the_card_ails_its_instances(nvml: NvmlStandin, fault: str, health: Health) -> None:
    nvml.describe(divided())
    before = look()
    nvml.describe(divided(f"fault = {fault}\n"))
    seen = look(before)
    assert [card.id for card in seen.cards] == [card.id for card in before.cards]
    assert {card.health for card in seen.cards} == {health}
    assert not any(is_destroyed(card) for card in seen.cards)


def test_a_destroyed_instance_is_lost_and_a_new_one_is_seen(nvml: NvmlStandin) -> None:
    nvml.describe(divided())
    before = look()
    other = "MIG-5eed0000-0000-5000-8000-00000000000d"
    nvml.describe(divided().replace(B, other))
    seen = look(before)
    known = by_id(seen)
    assert known[f"nvidia:{B}"].health is Health.LOST
    assert "destroyed" in str(known[f"nvidia:{B}"].health_reason)
    assert [card.id for card in seen.cards if is_destroyed(card)] == [f"nvidia:{B}"]
    assert known[f"nvidia:{other}"].health is Health.OK
    assert by_id(look(seen))[f"nvidia:{B}"].health is Health.LOST


def test_mig_mode_that_is_switched_off_gives_the_card_back(nvml: NvmlStandin) -> None:
    nvml.describe(divided())
    before = look()
    nvml.describe(f"[card]\nuuid = {WHOLE}\n")
    seen = look(before).cards
    assert not seen[0].divided and seen[0].health is Health.OK
    assert all(is_destroyed(card) for card in seen[1:])


def test_an_instance_has_names_of_its_own(nvml: NvmlStandin) -> None:
    nvml.describe(divided() + "[card]\nuuid = GPU-second\nbus = 00000000:20:00.0\n")
    cards = look().cards
    of_instance, of_whole = names(cards[1]), names(cards[4])
    assert {"1g.10gb", "mig-1g.10gb", "a100-1g.10gb", "a100-sxm4-80gb-1g.10gb", "mig", "nvidia"} <= of_instance
    assert of_instance & of_whole == {"nvidia"}
    assert not {"a100", "10gb", "a100-10gb"} & of_instance
    media = Card("x", "nvidia", "NVIDIA H100 MIG 1g.12gb+me", part_of="y")
    assert {"1g.12gb+me", "1g.12gb.me", "h100-1g.12gb+me"} <= names(media)


@pytest.mark.parametrize(
    ("model", "split"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", ("NVIDIA A100-SXM4-80GB", "1g.10gb")),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", ("NVIDIA H100 80GB HBM3", "1c.3g.40gb")),
        ("NVIDIA A100-SXM4-80GB", ("NVIDIA A100-SXM4-80GB", None)),
        ("NVIDIA A30 MIG", ("NVIDIA A30 MIG", None)),
    ],
)
def test_the_profile_is_read_from_the_name(model: str, split: tuple[str, str | None]) -> None:
    assert split_model(model) == split


def test_a_program_is_told_its_instance(nvml: NvmlStandin) -> None:
    nvml.describe(divided())
    cards = look().cards
    assert visibility_env([cards[2]])["CUDA_VISIBLE_DEVICES"] == B


def test_an_instance_is_sized_by_its_own_memory_and_has_none_of_the_cards_figures(nvml: NvmlStandin) -> None:
    nvml.describe(divided())
    spec = spec_of(look().cards[1])
    assert (spec.memory_bytes, spec.bandwidth_bytes_s, spec.tdp_w) == (10 * GIB, None, None)


# ---- device nodes, nvidia-smi: recorded hosts

OUTCOME = {"value": True}


def test_the_nodes_of_an_instance_are_its_cards_and_its_capabilities(machine) -> None:
    folder = "/proc/driver/nvidia/capabilities/gpu3/mig/gi7"
    access = {f"{folder}/access": "DeviceFileMinor: 66\nDeviceFileMode: 292\nDeviceFileModify: 1\n"}
    access |= {f"{folder}/ci0/access": "DeviceFileMinor: 67\nDeviceFileMode: 292\nDeviceFileModify: 1\n"}
    values = {
        "uuid": A,
        "name": "NVIDIA A30 MIG 1g.6gb",
        "gpu_instance": 7,
        "compute_instance": 0,
        "compute_processes": [],
    }
    instance = {"index": 0, "handle": OUTCOME} | {name: {"value": value} for name, value in values.items()}
    whole = {"uuid": WHOLE, "name": "NVIDIA A30", "pci": "00000000:10:00.0", "minor": 3, "mig_mode": [1, 1]}
    card = {"index": 0, "handle": OUTCOME, "instances": [instance]} | {name: {"value": v} for name, v in whole.items()}
    seen = {
        "init": OUTCOME,
        "driver": {"value": "580"},
        "cuda": {"value": 13000},
        "count": {"value": 1},
        "cards": [card],
    }
    _, first = nvidia.find(machine(files=access, libraries={"nvml": seen}))
    assert first.device_nodes == ("/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")


def test_a_bundle_from_before_there_were_instances_reads_as_ever(machine) -> None:
    values = {"uuid": WHOLE, "name": "NVIDIA A30", "pci": "00000000:10:00.0", "minor": 0, "mig_mode": [1, 1]}
    card = {"index": 0, "handle": OUTCOME} | {name: {"value": value} for name, value in values.items()}
    seen = {
        "init": OUTCOME,
        "driver": {"value": "535"},
        "cuda": {"value": 12020},
        "count": {"value": 1},
        "cards": [card],
    }
    (whole,) = nvidia.find(machine(libraries={"nvml": seen}))
    assert whole.divided and whole.health is Health.OK


ROW = (
    "{}, {}, NVIDIA A100-SXM4-40GB, 00000000:{}:00.0, 40960, 12, 535.86, 8.0, {}, 33, 45.1, 400.00, 210, 1215, [N/A]\n"
)
QUERY = " ".join(nvidia.nvidiasmi.ARGV)


def test_nvidia_smi_lists_instances_too(machine) -> None:
    listed = (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {WHOLE})\n  MIG 3g.20gb     Device  0: (UUID: {A})\n"
        f"  MIG 1g.5gb      Device  1: (UUID: {B})\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-second)\n"
    )
    tools = {
        QUERY: ROW.format(0, WHOLE, 10, "[N/A]") + ROW.format(1, "GPU-second", 11, 5),
        "nvidia-smi --query-gpu=index,mig.mode.current --format=csv,noheader": "0, Enabled\n1, Disabled\n",
        "nvidia-smi -L": listed,
    }
    cards = nvidia.find(machine(tools, bus={"0000:10:00.0": ("10de", "20b0", "030200", "nvidia")}))
    assert [(card.uuid, card.divided, card.part_of) for card in cards] == [
        (WHOLE, True, None),
        (A, False, f"nvidia:{WHOLE}"),
        (B, False, f"nvidia:{WHOLE}"),
        ("GPU-second", False, None),
    ]
    assert (cards[1].model, cards[1].memory_bytes) == ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", None)


def test_nvidia_smi_is_asked_no_more_where_each_card_tells_its_utilisation(machine) -> None:
    only = {QUERY: ROW.format(0, WHOLE, 10, 7)}  # whatever else it were asked would be no such program
    (card,) = nvidia.find(machine(only, bus={"0000:10:00.0": ("10de", "20b0", "030200", "nvidia")}))
    assert not card.divided


def test_the_doctor_finds_nothing_wrong_with_what_only_root_may_see(nvml: NvmlStandin) -> None:
    calls = (
        "MemoryInfo_v2",
        "ComputeRunningProcesses_v3",
        "GraphicsRunningProcesses_v3",
        "MPSComputeRunningProcesses_v3",
    )
    nvml.describe(divided("".join(f"fault = no_permission nvmlDeviceGet{call}\n" for call in calls)))
    assert not [line for line in nvml_lines(LiveHost()) if "Insufficient Permissions" in line]
    nvml.describe("[card]\nfault = no_permission nvmlDeviceGetMemoryInfo_v2\n")
    assert [line for line in nvml_lines(LiveHost()) if "Insufficient Permissions" in line]


def test_what_is_here_counts_an_instance_once_and_the_divided_card_not_at_all(nvml: NvmlStandin) -> None:
    instances = "".join(f"mig = {slot} 1g.10gb MIG-{slot} {10 * GIB}\n" for slot in range(3))
    nvml.describe(f"[card]\nuuid = {WHOLE}\n{instances}")
    assert [(spec.memory_bytes, count) for spec, count in local_specs()] == [(10 * GIB, 1)]
