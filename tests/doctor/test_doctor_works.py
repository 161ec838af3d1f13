"""What shows a working card and nothing else is healthy; one word of doubt, and it is undecided with what to hand over next."""

from __future__ import annotations

import pytest

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.shapes import Diagnosis, Verdict

SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:10:00.0 Off |                    0 |
| N/A   31C    P0             52W /  400W |       0MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
QUERY = """\
Driver Version                            : 580.95.05
Attached GPUs                             : 1
    Product Name                          : NVIDIA A100-SXM4-80GB
        Uncorrectable Error               : 0
        Remapping Failure Occurred        : No
        Idle                              : Not Active
        HW Thermal Slowdown               : Not Active
        GPU Current Temp                  : 41 C
"""
NPU = """\
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                            |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| 0     910B3               | OK            | 92.4        36                0    / 0             |
"""


def of(text: str, *, said: str = "") -> Diagnosis:
    return diagnose([text_source("log", text), *([text_source("question", said, spoken=True)] if said else ())])


@pytest.mark.parametrize(
    "text",
    [
        SMI,
        QUERY,
        NPU,
        "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1b2c3d4e-0000-4000-8000-000000000001)\n",
        "PyTorch version: 2.8.0+cu128\nIs CUDA available: True\nNvidia driver version: 575.51.03\n",
        SMI + "epoch 1 loss 0.3\nepoch 2 loss 0.2\n",
    ],
    ids=["smi", "query", "npu", "list", "torch", "training"],
)
def test_a_working_card_and_nothing_else_is_healthy(text):
    seen = of(text)
    assert (seen.verdict, seen.findings, seen.next_check) == (Verdict.HEALTHY, (), None)


@pytest.mark.parametrize(
    "text",
    [
        SMI + "why does my training run on the CPU\n",
        SMI + "My program does not use it.\n",
        SMI + "训练没有使用显卡\n",
        SMI + "Traceback (most recent call last):\nKeyError: 1\n",
        SMI.replace("31C", "ERR!"),
        SMI.replace("                    0 |\n", "                   12 |\n"),  # memory errors
        NPU.replace("OK  ", "Warning"),
        "epoch 1 loss 0.3\n",  # no card is spoken of
        "nvidia 62611456 430 nvidia_uvm,nvidia_modeset\n",  # a module that is loaded reached no card yet
    ],
    ids=["asked", "doubted", "asked-zh", "failed", "err", "ecc", "npu-warns", "no-card", "module"],
)
def test_a_word_of_doubt_leaves_it_open(text):
    seen = of(text)
    assert seen.verdict is Verdict.UNDECIDED
    assert seen.next_check


def test_what_a_person_asks_is_not_answered_by_a_working_card():
    assert of(SMI, said="Training is on the CPU").verdict is not Verdict.HEALTHY


def test_where_nobody_complains_the_next_thing_is_to_capture_the_machine():
    assert of("epoch 1 loss 0.3\n").next_check == "anycard capture out.tar.gz"
