"""Cards by name, and how fast they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.errors import NotFoundError
from anycard.sizing.cardspec import CardSpec, find_card, without_slices
from anycard.sizing.files import card_by_name, card_specs, load_model
from anycard.sizing.recipe import Method, Recipe
from anycard.sizing.speed import CLASSES, decode_speed, prefill_speed, speed_class, training_scale, training_speed
from anycard.units import GIB

CASES = {
    "3070 8GB": "GeForce RTX 3070",
    "NVIDIA GeForce RTX 4090": "GeForce RTX 4090",
    "RTX4090": "GeForce RTX 4090",
    "3080 Ti 12GB": "GeForce RTX 3080 Ti",
    "RTX 4000 Ada 20GB": "RTX 4000 Ada Generation",
    "A100-80GB": "A100 PCIe 80 GB",
    "A100 SXM 80GB": "A100 SXM4 80 GB",
    "NVIDIA A100-SXM4-40GB": "A100 SXM4 40 GB",
    "A10G 24GB": "A10G",
    "A10": "A10 PCIe",
    "H100 80GB SXM5": "H100 SXM5 80 GB",
    "H100": "H100 PCIe 80 GB",
    "M1 Max 32‑Core GPU 64GB": "Apple M1 Max",
    "M3 Max 40-Core GPU 64GB": "Apple M3 Max",
    "RX 7900 XTX": "Radeon RX 7900 XTX",
    "Intel Arc B580": "Arc B580",
    "MI300X": "Radeon Instinct MI300X",
    "L4": "L4",
    "V100 16GB": "Tesla V100 PCIe 16 GB",
    "Quadro RTX 8000": "Quadro RTX 8000",
    "RTX 4060 Ti 16GB": "GeForce RTX 4060 Ti 16 GB",
}


@pytest.mark.parametrize(("name", "model"), CASES.items())
def test_names_as_people_and_drivers_write_them(name, model):
    assert card_by_name(name).model == model


@pytest.mark.parametrize("name", ["", "A800-SXM9 12GB", "RTX 9999", "A100 60GB", "banana"])
def test_unknown_names_are_unknown(name):
    assert find_card(name, card_specs()) is None


def test_an_unknown_name_says_what_is_near():
    with pytest.raises(NotFoundError) as caught:
        card_by_name("RTX 4095")
    assert "RTX 40" in caught.value.to_json()["hint"]


@pytest.mark.parametrize("spec", {spec.model: spec for spec in card_specs()}.values(), ids=lambda spec: spec.model)
def test_every_card_of_the_table_is_found_by_its_own_name(spec):
    found = find_card(spec.model, card_specs())
    assert found is not None and found.model == spec.model
    assert spec.source


@pytest.mark.parametrize(
    ("written", "card", "count"),
    [
        ("3090 24GB * 6", "3090 24GB", 6),
        ("2x RTX A6000", "RTX A6000", 2),
        ("RTX 3090", "RTX 3090", 1),
        ("8x H100 80GB SXM5", "H100 80GB SXM5", 8),
        ("RTX 4090 x 2", "RTX 4090", 2),
    ],
)
def test_counts_in_names(written, card, count):
    assert without_slices(written) == (card, count)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("RTX 4090", 23.5, 24),
        ("A40", 44.5, 45.5),
        ("M1 8GB", 5.2, 5.5),
        ("M1 Max 64GB", 47.5, 48.5),
        ("L4", 22.3, 22.6),
    ],
)
def test_usable_memory(name, least, most):
    assert least * GIB <= (card_by_name(name).usable_bytes or 0) <= most * GIB


@pytest.mark.parametrize(
    ("name", "backend", "kind"),
    [
        ("RTX 4090", None, "cuda-gddr"),
        ("A100 80GB", None, "cuda-ampere-hbm"),
        ("H100", "CUDA", "cuda-hopper-hbm"),
        ("M3 Max 64GB", None, "apple"),
        ("RX 7900 XTX", "HIP", "rocm"),
        ("RX 7900 XTX", "Vulkan", "vulkan"),
        ("Arc B580", None, "sycl"),
        ("RTX 3090", "CPU ngl0", "cpu"),
        ("MTT S4000", None, None),
    ],
)
def test_speed_classes(name, backend, kind):
    found = speed_class(card_by_name(name), backend)
    assert (found.name if found else None) == kind


def test_unknown_figures_give_no_speed_not_zero():
    model = load_model("Qwen3-8B")
    blank = CardSpec("nvidia", "Mystery", 24 * GIB)
    assert decode_speed(model.shape, model.weights, blank) is None
    assert prefill_speed(model.shape, model.weights, blank) is None
    assert training_speed(model.shape, Recipe(Method.LORA, 512), blank) is None


@given(
    st.sampled_from(["RTX 3060 12GB", "RTX 4090", "A100 80GB", "M3 Max 64GB"]),
    st.integers(0, 100_000),
    st.integers(1, 50_000),
)
def test_a_longer_context_is_never_faster(name, context, more):
    model, card = load_model("Qwen3-8B"), card_by_name(name)
    near = decode_speed(model.shape, model.weights, card, context=context)
    far = decode_speed(model.shape, model.weights, card, context=context + more)
    assert near is not None and far is not None
    assert far.tokens_per_s <= near.tokens_per_s
    assert near.low <= near.tokens_per_s <= near.high


def test_experts_that_do_not_run_cost_no_time():
    mixture, dense = load_model("Qwen3-30B-A3B"), load_model("Qwen3-32B")
    card = card_by_name("H100")
    fast = decode_speed(mixture.shape, mixture.weights, card)
    slow = decode_speed(dense.shape, dense.weights, card)
    assert fast is not None and slow is not None and fast.tokens_per_s > 4 * slow.tokens_per_s


def test_every_class_says_where_its_constants_come_from():
    for kind in CLASSES.values():
        assert kind.source and kind.rows >= 1 and 0 < kind.error < 1


def test_training_scales_between_bandwidth_and_arithmetic():
    # Lambda's PyTorch throughputs: an H100 SXM trains 1.5 to 2.5 times as fast as an A100 SXM, though it computes 3.2 times as fast
    fast, slow = training_scale(card_by_name("H100 SXM")), training_scale(card_by_name("A100 SXM 80GB"))
    assert fast is not None and slow is not None and 1.5 < fast / slow < 2.5
    assert training_scale(CardSpec("x", "x", None)) is None
