from __future__ import annotations

import os
import subprocess
import sys

import pytest
from nvml_standin import EIGHT_CARDS, NvmlStandin

from anycard.cards.visibility import visibility_env
from anycard.model.card import Card

CPU = Card("cpu", "cpu", "a CPU", cores=8.0)


def nvidia(index: int, uuid: str | None) -> Card:
    return Card(f"nvidia:{uuid or index}", "nvidia", "NVIDIA A100", index=index, uuid=uuid)


def test_a_job_without_a_card_sees_none_of_any_vendor() -> None:
    for held in ((), (CPU,)):
        env = visibility_env(held)
        assert env == {
            "CUDA_VISIBLE_DEVICES": "",
            "ROCR_VISIBLE_DEVICES": "",
            "HIP_VISIBLE_DEVICES": "-1",  # empty means unset there
            "ZE_AFFINITY_MASK": "65535",  # so it does here
            "ONEAPI_DEVICE_SELECTOR": "!level_zero:*;!opencl:gpu",
            "ASCEND_RT_VISIBLE_DEVICES": "-1",
            "MUSA_VISIBLE_DEVICES": "-1",
            "MLU_VISIBLE_DEVICES": "-1",
            "TOPS_VISIBLE_DEVICES": "-1",
            "XPU_VISIBLE_DEVICES": "-1",
            "ANYCARD_DEVICE": "cpu",
        }


def test_nvidia_by_uuid_in_index_order_and_the_others_hidden() -> None:
    env = visibility_env((nvidia(3, "GPU-c"), nvidia(1, "GPU-a")))
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-c"
    assert env["ANYCARD_DEVICE"] == "cuda"
    assert env["HIP_VISIBLE_DEVICES"] == "-1"
    assert visibility_env((nvidia(0, "MIG-7"),))["CUDA_VISIBLE_DEVICES"] == "MIG-7"


def test_indices_where_one_card_has_no_uuid() -> None:
    assert visibility_env((nvidia(0, "GPU-a"), nvidia(2, None)))["CUDA_VISIBLE_DEVICES"] == "0,2"


def test_rocm_counts_what_its_first_filter_left() -> None:
    env = visibility_env(tuple(Card(f"amd:{i}", "amd", "MI300X", index=i) for i in (6, 4)))
    assert (env["ROCR_VISIBLE_DEVICES"], env["HIP_VISIBLE_DEVICES"]) == ("4,6", "0,1")
    assert env["CUDA_VISIBLE_DEVICES"] == ""


def test_ascend_in_ascending_order_and_its_torch_device() -> None:
    env = visibility_env(tuple(Card(f"ascend:{i}", "ascend", "Ascend 910B4", index=i) for i in (10, 2)))
    assert (env["ASCEND_RT_VISIBLE_DEVICES"], env["ANYCARD_DEVICE"]) == ("2,10", "npu")


def test_intel_by_bus_order_and_whole_cards() -> None:
    env = visibility_env(tuple(Card(f"intel:{i}", "intel", "Arc B580", index=i) for i in (2, 1)))
    assert (env["ZE_AFFINITY_MASK"], env["ANYCARD_DEVICE"]) == ("1,2", "xpu")
    assert env["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] == "1"  # else the discrete cards come first
    assert env["ZE_FLAT_DEVICE_HIERARCHY"] == "COMPOSITE"  # else a Max card's tiles are counted
    assert env["ONEAPI_DEVICE_SELECTOR"] == "!opencl:gpu"
    assert "ZE_ENABLE_PCI_ID_DEVICE_ORDER" not in visibility_env((nvidia(0, "GPU-a"),))


def test_kunlunxin_says_the_same_in_both_of_its_variables() -> None:
    env = visibility_env(tuple(Card(f"kunlunxin:{i}", "kunlunxin", "P800", index=i) for i in (5, 2)))
    assert (env["XPU_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"], env["ANYCARD_DEVICE"]) == ("2,5", "2,5", "cuda")


@pytest.mark.parametrize(
    ("vendor", "variable", "torch"),
    [
        ("hygon", "HIP_VISIBLE_DEVICES", "cuda"),
        ("moorethreads", "MUSA_VISIBLE_DEVICES", "musa"),
        ("cambricon", "MLU_VISIBLE_DEVICES", "mlu"),
        ("iluvatar", "CUDA_VISIBLE_DEVICES", "cuda"),
        ("metax", "CUDA_VISIBLE_DEVICES", "cuda"),
        ("enflame", "TOPS_VISIBLE_DEVICES", "gcu"),
    ],
)
def test_each_makers_variable_and_torch_device(vendor: str, variable: str, torch: str) -> None:
    env = visibility_env((Card(f"{vendor}:0", vendor, "X", index=0),))
    assert (env[variable], env["ANYCARD_DEVICE"]) == ("0", torch)


def test_apples_card_cannot_be_hidden_and_is_mps() -> None:
    assert visibility_env((Card("apple:0", "apple", "Apple M4"),))["ANYCARD_DEVICE"] == "mps"


def test_the_uuids_are_those_that_the_driver_knows(nvml: NvmlStandin) -> None:
    """What we put into the variable is what a program that asks the driver by UUID finds again."""
    nvml.describe(EIGHT_CARDS)
    uuid = "GPU-1b2c3d4e-0000-4000-8000-000000000005"
    env = visibility_env((nvidia(5, uuid),))
    program = (
        "import os, pynvml as p; p.nvmlInit();"
        "print([p.nvmlDeviceGetIndex(p.nvmlDeviceGetHandleByUUID(u)) for u in os.environ['CUDA_VISIBLE_DEVICES'].split(',')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **nvml.env, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "[5]\n"
