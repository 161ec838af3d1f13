"""Which generation an NVIDIA card is of, by what logs call it, and what that means for drivers."""

from __future__ import annotations

import re

from anycard.doctor.case import Case
from anycard.doctor.shapes import Fact

GENERATIONS = ("Fermi", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell")
KEPLER = GENERATIONS.index("Kepler")
PASCAL = GENERATIONS.index("Pascal")
VOLTA = GENERATIONS.index("Volta")
TURING = GENERATIONS.index("Turing")
BLACKWELL = GENERATIONS.index("Blackwell")

_CHIPS = dict(zip(("GF", "GK", "GM", "GP", "GV", "TU", "GA", "AD", "GH", "GB"), GENERATIONS, strict=True))
# What products are called. Source: NVIDIA's lists of CUDA GPUs and of legacy GPUs.
_PRODUCTS = (
    ("Blackwell", r"RTX 50[5-9]0|RTX PRO \d{4}|\bG?B[123]00\b|\bGB10\b|Blackwell"),
    ("Hopper", r"\bG?H(?:100|200|800|20)\b"),
    ("Ada", r"RTX 40[5-9]0|\bL(?:4|20|40S?)\b|RTX \d{4} Ada"),
    ("Ampere", r"RTX 30[5-9]0|\bA(?:100|800|10G?|30|40|16|2)\b|RTX A\d{4}"),
    ("Turing", r"RTX 20[5-9]0|GTX 16\d0|\bT(?:4|400|600|1000)\b|Quadro RTX|TITAN RTX"),
    ("Volta", r"\bV100S?\b|TITAN V\b|\bGV100\b"),
    ("Pascal", r"GTX? 10[1-8]0|\bP(?:100|40|4|6)\b|Quadro G?P\d+|TITAN Xp"),
    ("Maxwell", r"GTX? 9[1-8]0|GTX 7[45]0|\bM(?:40|60|10|6|4)\b|Quadro M\d+"),
    ("Kepler", r"GTX? [67]\d0|\bK(?:80|40|20|10|520)\b|Quadro K\d+|GTX TITAN"),
    ("Fermi", r"GTX? [45]\d0|\b[MC]20[5-9]0\b"),
)
# The last driver branch that drives a generation: https://www.nvidia.com/en-us/drivers/unix/legacy-gpu/ and the 580 release notes.
_LAST_BRANCH = {"Fermi": 390, "Kepler": 470, "Maxwell": 580, "Pascal": 580, "Volta": 580}


def oldest_card(case: Case) -> tuple[int, Fact] | None:
    """The place in ``GENERATIONS`` of the oldest NVIDIA card that the evidence names, and where."""
    known = [(place, fact) for fact in case.facts("nvidia_card") if (place := generation(fact.value)) is not None]
    return min(known, key=lambda pair: pair[0], default=None)


def generation(name: str) -> int | None:
    """The place in ``GENERATIONS`` of a chip (``GP104``) or product (``Tesla P40``); None where unknown."""
    chip = re.match(r"([A-Z]{2})\d{2,3}[A-Z]*\b", name)
    if chip and chip[1] in _CHIPS:
        return GENERATIONS.index(_CHIPS[chip[1]])
    for called, pattern in _PRODUCTS:
        if re.search(pattern, name, re.IGNORECASE):
            return GENERATIONS.index(called)
    return None


def last_branch(place: int) -> int | None:
    """The last driver branch for a generation, None where current drivers still know it."""
    return _LAST_BRANCH.get(GENERATIONS[place])
