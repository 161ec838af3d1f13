"""The doctor's own tables, each row with its source. Read when asked for."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent

# Lowest driver branch of each CUDA major (minor-version compatibility): CUDA 13.2 release notes, table 2.
_CUDA_FLOOR = {"11": 450, "12": 525, "13": 580}


# Driver branch that came with each minor CUDA: CUDA 13.2 release notes, table 3.
_CUDA_NATIVE = {
    (11, 0): 450, (11, 1): 455, (11, 2): 460, (11, 3): 465, (11, 4): 470, (11, 5): 495, (11, 6): 510, (11, 7): 515, (11, 8): 520,
    (12, 0): 525, (12, 1): 530, (12, 2): 535, (12, 3): 545, (12, 4): 550, (12, 5): 555, (12, 6): 560, (12, 8): 570, (12, 9): 575,
    (13, 0): 580, (13, 1): 590, (13, 2): 595,
}  # fmt: skip


def cuda_native_driver(cuda: tuple[int, ...]) -> int | None:
    """The driver branch that came with this minor CUDA (``(12, 8)``): the lowest that needs no minor-version compatibility."""
    return _CUDA_NATIVE.get((cuda[0], cuda[1])) if len(cuda) > 1 else None


def cuda_floor_driver(cuda_major: str) -> int | None:
    """The lowest driver branch that runs builds of this CUDA major (``"12"``), None where unknown."""
    return _CUDA_FLOOR.get(cuda_major)


@dataclass(frozen=True, slots=True)
class Xid:
    """A row of NVIDIA's Xid catalogue: what to do at once, and what to look into after."""

    code: int
    mnemonic: str
    description: str
    immediate: str
    investigate: str


@cache
def xids() -> dict[int, Xid]:
    """By code. Source: NVIDIA's Xid catalogue, as generated into leptonai/gpud components/accelerator/nvidia/xid (2025-10-29)."""
    with (_HERE / "xid.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.reader((line for line in file if not line.startswith("#")), delimiter="\t")
        next(rows)
        return {int(code): Xid(int(code), *rest[:4]) for code, *rest in ((*row, "", "", "", "") for row in rows if row)}


@cache
def torch_npu_pairs() -> dict[str, tuple[str, str]]:
    """torch_npu wheel -> (torch, CANN). Source: github.com/Ascend/pytorch COMPATIBILITY.en.md at 9e73e708."""
    with (_HERE / "torch_npu.csv").open(encoding="utf-8", newline="") as file:
        return {row["torch_npu_wheel"]: (row["torch"], row["cann"]) for row in csv.DictReader(file)}
