"""The doctor's own tables, each row with its source. Read when asked for."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent

# Lowest driver branch of each CUDA major (minor-version compatibility): CUDA 13.2 release notes, table 2.
_CUDA_FLOOR = {"11": 450, "12": 525, "13": 580}


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
