"""What a card of a given model can hold and do, by name. Unknown figures stay None."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anycard.cards.specs.words import words
from anycard.units import GIB

CPU = "cpu"
# GDDR6 data-centre cards reserve a sixteenth for ECC (nvidia-smi: A40 46,068 of 49,152 MiB, L4 23,034 of 24,576).
_ECC_RESERVED = re.compile(r"^(A2|A10|A10G|A16|A40|L4|L20|L40|L40S|Tesla T4|T4)\b")


@dataclass(frozen=True, slots=True)
class CardSpec:
    """``memory_bytes`` as sold; ``half_tflops``: dense BF16 or FP16 without sparsity, vector rate where no matrix rate is known."""

    vendor: str
    model: str
    memory_bytes: int | None
    bandwidth_bytes_s: float | None = None
    fp32_flops: float | None = None
    half_flops: float | None = None
    memory_type: str = ""
    unified: bool = False
    tdp_w: float | None = None
    architecture: str = ""
    msrp_usd: float | None = None
    source: str = ""

    @property
    def usable_bytes(self) -> int | None:
        """What programs can allocate: less ECC, the driver's own, and on Apple the share that macOS keeps from the GPU."""
        if self.memory_bytes is None:
            return None
        if self.unified and self.vendor == "apple":
            # recommendedMaxWorkingSetSize as seen by llama.cpp: two thirds to 36 GB, three quarters above
            return round(self.memory_bytes * (0.75 if self.memory_bytes > 36 * GIB else 2 / 3))
        if self.unified:
            return round(self.memory_bytes * 0.9)
        share = 15 / 16 if _ECC_RESERVED.match(self.model) and "GDDR6" in self.memory_type else 0.985
        return round(self.memory_bytes * share)

    @property
    def hopper_or_newer(self) -> bool:
        return bool(re.match(r"(Hopper|Blackwell)", self.architecture)) or bool(
            re.match(r"(H\d00|H20|GH|B\d00|GB)", self.model)
        )


def parse_card_rows(rows: Iterable[Mapping[str, str]]) -> tuple[CardSpec, ...]:
    """The shipped table's rows. A unified-memory chip is one spec a memory size."""
    specs: list[CardSpec] = []
    for row in rows:
        sizes: Sequence[float | None] = [float(size) for size in row["memory_gib"].split()] or [None]
        for size in sizes:
            specs.append(
                CardSpec(
                    vendor=row["vendor"],
                    model=row["model"],
                    memory_bytes=None if size is None else round(size * GIB),
                    bandwidth_bytes_s=_scaled(row["bandwidth_gb_s"], 1e9),
                    fp32_flops=_scaled(row["fp32_tflops"], 1e12),
                    half_flops=_scaled(_half(row), 1e12),
                    memory_type=row["memory_type"],
                    unified=bool(row["unified"]),
                    tdp_w=_scaled(row["tdp_w"], 1),
                    architecture=row["architecture"],
                    msrp_usd=_scaled(row["msrp_usd"], 1),
                    source=row["sources"],
                )
            )
    return tuple(specs)


def _half(row: Mapping[str, str]) -> str:
    """The rate of matrix units, else of the shaders; Apple's GPUs do FP16 at the FP32 rate."""
    matrix = row["bf16_matrix_tflops"] or row["fp16_matrix_tflops"] or row["fp16_vector_tflops"]
    return matrix or (row["fp32_tflops"] if row["vendor"] == "apple" else "")


def find_card(name: str, specs: Sequence[CardSpec]) -> CardSpec | None:
    """The spec that ``name`` means (``"4090 24GB"``, ``"A100-80GB"``, ``"H100 80GB SXM5"``, ``"M1 Max 32-Core GPU 64GB"``), or None.

    Every word that tells must be in the model's name; memory in ``name`` must agree within a tenth. Of several, the one with the
    fewest further words is taken; of equals, the slowest memory, so that a vague name never promises too much.
    """
    wanted, memory = words(name)
    if not wanted:
        return None
    found: list[tuple[tuple[float, float, float], CardSpec]] = []
    for spec in specs:
        own, own_memory = words(spec.model)
        if not wanted <= own:
            continue
        size = (spec.memory_bytes or 0) / GIB or own_memory or 0.0
        if memory and size and abs(size - memory) > memory * 0.1:
            continue
        surplus = len(own - wanted)
        found.append(
            ((surplus, spec.bandwidth_bytes_s or 0.0, -size if memory is None and spec.unified else size), spec)
        )
    if found:
        return min(found, key=lambda pair: pair[0])[1]
    return None


def without_slices(name: str) -> tuple[str, int]:
    """``"2x RTX A6000"``, ``"3090 24GB * 6"`` -> (card, count)."""
    match = re.search(r"^\s*(\d{1,3})\s*x\s*(?=\D)|(?:\*|\bx)\s*(\d{1,3})\s*$", name, re.IGNORECASE)
    if not match:
        return name.strip(), 1
    return (name[: match.start()] + name[match.end() :]).strip(), int(match[1] or match[2])


def _scaled(text: str, factor: float) -> float | None:
    return float(text) * factor if text else None
