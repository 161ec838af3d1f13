from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.cards.names import names
from anycard.model.card import Card
from anycard.units import GIB, MIB

A100 = Card("a", "nvidia", "NVIDIA A100-SXM4-80GB", memory_bytes=81920 * MIB)
CALLED = [
    (
        A100,
        "A100 A100-80GB A100-SXM A100-SXM4 A100-SXM4-80GB nvidia nvidia-A100",
        "A10 SXM4 80GB A100-40GB 100 A1008 M4 80",
    ),
    (Card("b", "nvidia", "NVIDIA A800-SXM4-80GB"), "A800 A800-80GB", "M4 A100 A80 SXM4-80GB"),
    (
        Card("c", "nvidia", "NVIDIA GeForce RTX 4090", memory_bytes=24564 * MIB),
        "RTX4090 RTX-4090 rtx_4090 4090 RTX4090-24GB GeForce-RTX-4090",
        "RTX 409 RTX4090Ti RTX 24GB RTX40",
    ),
    (
        Card("d", "nvidia", "NVIDIA GeForce RTX 4070 Ti SUPER"),
        "RTX4070-Ti-SUPER RTX4070TiSUPER",
        "RTX4070 RTX4070Ti Ti SUPER",
    ),
    (
        Card("e", "nvidia", "NVIDIA RTX 6000 Ada Generation"),
        "RTX6000-Ada RTX6000Ada RTX-6000-Ada-Generation",
        "RTX6000 Ada",
    ),
    (
        Card("f", "nvidia", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
        "RTXPRO6000 RTX-PRO-6000",
        "RTX6000 RTX-6000",
    ),
    (Card("g", "nvidia", "NVIDIA A10", memory_bytes=23028 * MIB), "A10 A10-24GB", "A100 A1 A10G"),
    (Card("h", "nvidia", "NVIDIA H200", memory_bytes=143771 * MIB), "H200 H200-141GB", "H20 H200-140GB"),
    (Card("i", "nvidia", "NVIDIA H100 80GB HBM3"), "H100 H100-80GB", "HBM3 H100-94GB"),
    (Card("j", "nvidia", "Tesla V100-SXM2-32GB"), "V100 V100-32GB Tesla-V100", "V100-16GB Tesla"),
    (
        Card("k", "amd", "AMD Instinct MI300X", memory_bytes=205822885888),
        "MI300X amd MI300X-192GB",
        "MI300 nvidia Instinct",
    ),
    (Card("l", "ascend", "Ascend 910B4", memory_bytes=32 * GIB), "910B4 Ascend910B4 ascend", "910B 910 910B4-64GB"),
    (Card("m", "apple", "Apple M4 Max", memory_bytes=36 * GIB), "M4-Max M4Max apple", "M4 Max"),
    (Card("n", "intel", "Intel(R) Arc(TM) B580 Graphics"), "B580 Arc-B580", "Arc B58 R"),
]


@pytest.mark.parametrize(("card", "yes", "no"), CALLED, ids=[card.model for card, _, _ in CALLED])
def test_a_job_may_call_it(card: Card, yes: str, no: str) -> None:
    known = names(card)
    called = [name.lower().replace("_", " ") for name in yes.split()]
    assert [name for name in called if name not in known] == []
    assert [name for name in no.lower().split() if name in known] == []


@given(st.text(max_size=60), st.one_of(st.none(), st.integers(0, 2**50)))
def test_any_model_has_its_own_name_and_vendors(model: str, memory: int | None) -> None:
    known = names(Card("x", "nvidia", model, memory_bytes=memory))
    assert {model.lower(), "nvidia"} <= known
    assert all(name == name.lower() for name in known)


@given(st.text("abxm0123456789 -", min_size=1, max_size=16))
def test_no_name_is_a_bare_part_of_a_word(model: str) -> None:
    """Every name is made of the model's whole words, the vendor's name or a memory size."""
    words = set("".join(model.lower().split()).replace("-", "")) | set("nvidiagb0123456789sxm -")
    for name in names(Card("x", "nvidia", model)):
        assert set(name) <= words
