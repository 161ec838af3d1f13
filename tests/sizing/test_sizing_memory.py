"""Memory of serving and training: known answers, and what must hold whatever the numbers are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.sizing.files import card_by_name, card_specs, known_models, load_model
from anycard.sizing.fit import Verdict, fit_serving, fit_training, judge
from anycard.sizing.inference import Server, Serving, estimate_inference, llama_cpp_compute_bytes
from anycard.sizing.options import longest_context
from anycard.sizing.parallel import Split, estimate_split
from anycard.sizing.quantization import CACHE_BYTES, scheme
from anycard.sizing.recipe import Engine, Method, Recipe
from anycard.sizing.shape import shape_from_sizes
from anycard.sizing.training import estimate_training, trainable_params
from anycard.sizing.weights import weights_from_shape
from anycard.units import GIB, MIB

MODELS = st.sampled_from(["Qwen3-0.6B", "Qwen3-8B", "Mixtral-8x7B", "gemma-2-9b", "DeepSeek-V3", "gpt2", "falcon-7b"])
SERVINGS = st.builds(
    Serving,
    server=st.sampled_from(list(Server)),
    context=st.integers(1, 200_000),
    batch=st.integers(1, 64),
    cache_type=st.sampled_from(sorted(CACHE_BYTES)),
    ubatch=st.sampled_from([128, 512, 2048]),
    flash_attention=st.booleans(),
    old_modelling_code=st.booleans(),
    hopper=st.booleans(),
)
RECIPES = st.builds(
    Recipe,
    method=st.sampled_from(list(Method)),
    sequence=st.integers(16, 32768),
    batch=st.integers(1, 16),
    engine=st.sampled_from(list(Engine)),
    rank=st.integers(1, 256),
    checkpointing=st.booleans(),
    cards=st.sampled_from([1, 2, 8]),
    zero_stage=st.integers(0, 3),
    offload=st.booleans(),
    shared_tables=st.booleans(),
    chunked_loss=st.booleans(),
)


def of(name: str, serving: Serving):
    model = load_model(name)
    return estimate_inference(model.shape, model.weights, serving)


def test_qwen3_8b_in_bf16_as_measured():
    # QwenLM/Qwen3 speed_benchmark.md: 16,811 MiB at 6144 + 2048 tokens on an H20
    estimate = of("Qwen3-8B", Serving(context=8192, hopper=True))
    assert estimate.allocated_bytes / MIB == pytest.approx(16811, rel=0.005)


@pytest.mark.parametrize(
    ("heads", "hidden", "vocab", "intermediate", "context", "compute"),
    [
        (32, 4096, 32768, 14336, 2048, 164.0),
        (32, 4096, 32768, 14336, 32768, 2144.0),
        (24, 3072, 50688, 9216, 512, 105.0),
    ],
)
def test_llama_cpp_compute_buffers_as_printed(heads, hidden, vocab, intermediate, context, compute):
    shape = shape_from_sizes(
        name="m",
        n_layer=32,
        hidden=hidden,
        n_head=heads,
        n_kv_head=8,
        head_dim=128,
        vocab=vocab,
        intermediate=intermediate,
    )
    serving = Serving(Server.LLAMA_CPP, context=context, flash_attention=False, older_graph=True)
    assert llama_cpp_compute_bytes(shape, serving) / MIB == pytest.approx(compute, abs=0.5)


# hidden, MLP, heads, key-value heads, head size, context, flash attention, experts used, MiB that llama.cpp of 2026-10 printed (xllamacpp
# 2026.10.11549 on the CPU, models of two layers made for it, and SmolLM2-135M)
PRINTED_2026 = (
    (576, 1536, 9, 3, 64, 4096, True, 0, 18.64),
    (576, 1536, 9, 3, 64, 8192, True, 0, 22.64),
    (576, 1536, 9, 3, 64, 4096, False, 0, 87.51),
    (576, 1536, 9, 3, 64, 8192, False, 0, 167.51),
    (512, 4096, 8, 2, 64, 4096, True, 0, 33.02),
    (1024, 4096, 16, 2, 64, 4096, True, 0, 38.02),
    (1024, 8192, 16, 8, 64, 4096, True, 0, 62.02),
    (512, 1024, 8, 8, 64, 4096, False, 0, 80.01),
    (512, 1024, 8, 2, 64, 4096, False, 0, 78.51),
    (1024, 1024, 8, 2, 64, 4096, False, 0, 82.51),
    (1024, 4096, 16, 2, 64, 4096, False, 0, 148.51),
    (1024, 8192, 16, 8, 64, 4096, False, 0, 150.01),
    (512, 512, 8, 2, 64, 4096, True, 4, 21.02),
    (512, 512, 8, 2, 64, 4096, True, 8, 33.02),
    (512, 1024, 8, 2, 64, 4096, True, 4, 33.02),
    (1024, 512, 8, 2, 64, 4096, True, 4, 26.02),
    (1024, 512, 8, 2, 64, 4096, True, 8, 38.02),
    (1024, 384, 16, 4, 64, 4096, True, 8, 48.02),
    (1024, 256, 8, 2, 64, 4096, True, 8, 42.02),
    (2048, 768, 32, 4, 128, 4096, True, 8, 92.02),
)


@pytest.mark.parametrize(("hidden", "mlp", "heads", "kv", "size", "context", "flash", "used", "printed"), PRINTED_2026)
def test_todays_llama_cpp_compute_buffers_as_printed(hidden, mlp, heads, kv, size, context, flash, used, printed):
    shape = shape_from_sizes(
        name="m",
        n_layer=2,
        hidden=hidden,
        n_head=heads,
        n_kv_head=kv,
        head_dim=size,
        vocab=259,
        intermediate=mlp,
        n_expert=16 if used else 0,
        n_expert_active=used,
    )
    serving = Serving(Server.LLAMA_CPP, context=context, flash_attention=flash)
    assert llama_cpp_compute_bytes(shape, serving) / MIB == pytest.approx(printed, abs=0.05)


@given(MODELS, SERVINGS)
def test_parts_add_up_and_lie_within_the_interval(name, serving):
    estimate = of(name, serving)
    assert estimate.total_bytes == sum(part.size_bytes for part in estimate.parts)
    assert all(part.size_bytes >= 0 for part in estimate.parts)
    assert 0 < estimate.low_bytes <= estimate.high_bytes
    assert estimate.low_bytes <= estimate.total_bytes <= estimate.high_bytes


@given(MODELS, SERVINGS, st.integers(1, 100_000), st.integers(0, 8))
def test_more_context_or_batch_never_needs_less(name, serving, more_context, more_batch):
    larger = replace(serving, context=serving.context + more_context, batch=serving.batch + more_batch)
    assert of(name, larger).total_bytes >= of(name, serving).total_bytes


@given(MODELS, st.integers(1, 50_000))
def test_fewer_bits_never_need_more(name, context):
    model, serving = load_model(name), Serving(context=context)
    sizes = [
        estimate_inference(model.shape, weights_from_shape(model.shape, scheme(quant)), serving).total_bytes
        for quant in ("fp32", "bf16", "gptq-int8", "gptq-int4")
    ]
    assert sizes == sorted(sizes, reverse=True)


@given(MODELS, SERVINGS, st.integers(1, 16), st.sampled_from(list(Split)))
def test_more_cards_never_need_more_weights_each(name, serving, cards, split):
    model = load_model(name)
    one = estimate_split(model.shape, model.weights, serving, 1, split)
    many = estimate_split(model.shape, model.weights, serving, cards, split)
    assert many.part("weights") <= one.part("weights")
    assert many.part("weights") * cards >= one.part("weights") - cards
    assert many.part("kv_cache") * cards >= one.part("kv_cache") - cards


@settings(deadline=None)
@given(MODELS, SERVINGS, st.integers(1, 512))
def test_the_longest_context_is_the_longest(name, serving, gib):
    model = load_model(name)
    tokens = longest_context(model.shape, model.weights, serving, gib * GIB)

    def need(context: int) -> int:
        return estimate_split(model.shape, model.weights, replace(serving, context=context), 1).total_bytes

    if tokens:
        assert need(tokens) <= gib * GIB
    if tokens < (model.shape.max_context or 1 << 20):
        assert need(tokens + 1) > gib * GIB


@given(MODELS, RECIPES)
def test_training_parts_add_up(name, recipe):
    model = load_model(name)
    estimate = estimate_training(model.shape, model.weights, recipe)
    assert estimate.total_bytes == sum(part.size_bytes for part in estimate.parts) > 0
    assert estimate.low_bytes <= estimate.total_bytes <= estimate.high_bytes


@given(MODELS, RECIPES, st.integers(1, 10_000), st.integers(0, 8))
def test_longer_sequences_and_batches_never_train_in_less(name, recipe, longer, more):
    model = load_model(name)
    larger = replace(recipe, sequence=recipe.sequence + longer, batch=recipe.batch + more)
    assert (
        estimate_training(model.shape, model.weights, larger).total_bytes
        >= estimate_training(model.shape, model.weights, recipe).total_bytes
    )


@given(MODELS, st.integers(64, 4096))
def test_full_needs_more_than_lora_and_lora_more_than_qlora(name, sequence):
    model = load_model(name)
    nf4 = weights_from_shape(model.shape, scheme("nf4"))
    full = estimate_training(model.shape, model.weights, Recipe(Method.FULL, sequence)).total_bytes
    lora = estimate_training(model.shape, model.weights, Recipe(Method.LORA, sequence)).total_bytes
    assert full > lora
    if model.weights.scheme.linear_bytes > 1 and model.shape.linear_params > 10**9:
        assert lora > estimate_training(model.shape, nf4, Recipe(Method.QLORA, sequence)).total_bytes


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_each_zero_stage_needs_less(stage):
    model = load_model("Llama-3-8B")
    recipe = Recipe(Method.FULL, 1024, engine=Engine.HUGGING_FACE, cards=8)
    before = estimate_training(model.shape, model.weights, replace(recipe, zero_stage=stage - 1))
    after = estimate_training(model.shape, model.weights, replace(recipe, zero_stage=stage))
    assert after.part("optimizer") + after.part("gradients") + after.part("weights") < (
        before.part("optimizer") + before.part("gradients") + before.part("weights")
    )


def test_offload_moves_the_optimizer_to_the_host():
    model = load_model("Llama-3-8B")
    recipe = Recipe(Method.FULL, 1024)
    here = estimate_training(model.shape, model.weights, recipe)
    moved = estimate_training(model.shape, model.weights, replace(recipe, offload=True))
    assert moved.host_bytes == here.part("optimizer")
    assert moved.part("optimizer") == 0


def test_lora_parameters_are_rank_times_inputs_and_outputs():
    shape = load_model("Llama-2-7B").shape
    # published for rank 8 on q and v of Llama 2 7B: 4,194,304
    assert trainable_params(shape, Recipe(Method.LORA, 512, rank=8, targets=("q", "v"))) == 4_194_304


@pytest.mark.parametrize(
    ("model", "card", "cards", "verdict"),
    [
        ("Qwen3-8B", "RTX 4090", 1, Verdict.FITS),
        ("Qwen3-8B", "RTX 3060 12GB", 1, Verdict.DOES_NOT_FIT),
        ("Llama-3-70B", "A100 80GB", 1, Verdict.DOES_NOT_FIT),
        ("Llama-3-70B", "A100 80GB", 2, Verdict.FITS),
        ("Llama-3-70B", "M2 Ultra 192GB", 1, Verdict.FITS),
        ("Qwen3-8B", "Cambricon MLU370-X4", 1, Verdict.UNKNOWN),
    ],
)
def test_verdicts(model, card, cards, verdict):
    found = load_model(model)
    assert fit_serving(found.shape, found.weights, Serving(context=4096), card_by_name(card), cards).verdict is verdict


def test_what_does_not_fit_comes_with_options_that_are_judged():
    found = load_model("Qwen3-32B")
    card = card_by_name("RTX 4090")
    answer = fit_serving(found.shape, found.weights, Serving(context=32768, batch=4), card)
    names = {option.name for option in answer.options}
    assert {"quantise-awq-int4", "smaller-batch", "more-cards", "offload"} & names
    for option in answer.options:
        assert option.fits == (option.total_bytes <= (card.usable_bytes or 0))
        assert str(option.price)


def test_a_full_fine_tune_that_does_not_fit_is_offered_lora():
    found = load_model("Llama-3-8B")
    answer = fit_training(found.shape, found.weights, Recipe(Method.FULL, 4096, batch=4), card_by_name("RTX 4090"))
    assert answer.verdict is Verdict.DOES_NOT_FIT
    by_name = {option.name: option for option in answer.options}
    assert by_name["qlora"].total_bytes < by_name["lora"].total_bytes < answer.estimate.total_bytes
    assert "accumulate" in by_name


def test_cards_do_not_add_up_for_the_largest_buffer():
    found = load_model("Qwen3-8B")
    estimate = estimate_inference(found.shape, found.weights, Serving(context=64))
    card = card_by_name("RTX 4090")
    assert judge(estimate, card) is Verdict.FITS
    assert judge(replace(estimate, largest_buffer_bytes=30 * GIB), card) is Verdict.DOES_NOT_FIT


def test_an_unknown_architecture_widens_the_interval():
    found = load_model("Qwen3-8B")
    known = estimate_inference(found.shape, found.weights, Serving())
    unknown = estimate_inference(replace(found.shape, known=False), found.weights, Serving())
    assert unknown.high_bytes > known.high_bytes and unknown.low_bytes < known.low_bytes
    assert unknown.warnings


@pytest.mark.parametrize("name", known_models())
@pytest.mark.parametrize("server", list(Server))
def test_every_model_on_every_server_has_an_answer(name, server):
    found = load_model(name)
    for card in card_specs()[:3]:
        assert fit_serving(found.shape, found.weights, Serving(server), card).estimate.total_bytes > 0


def test_llama_cpp_keeps_a_micro_batch_beside_a_window():
    # llama-kv-cache-iswa.cpp: window + micro-batch, up to a multiple of 256; gemma 2: half of 26 layers slide over 4096
    shape = load_model("gemma-2-2b").shape
    serving = Serving(Server.LLAMA_CPP, context=32768, ubatch=512)
    estimate = estimate_inference(shape, load_model("gemma-2-2b", "q8_0").weights, serving)
    assert estimate.part("kv_cache") == 13 * 2 * 4 * 256 * 2 * (32768 + 4608)


def test_the_interval_of_a_split_shrinks_with_its_share():
    model = load_model("DeepSeek-V3", "fp8")
    one = estimate_split(model.shape, model.weights, Serving(), 1)
    many = estimate_split(model.shape, model.weights, Serving(), 16)
    assert many.low_bytes < many.total_bytes < many.high_bytes
    assert many.high_bytes / many.total_bytes == pytest.approx(one.high_bytes / one.total_bytes, rel=0.02)
