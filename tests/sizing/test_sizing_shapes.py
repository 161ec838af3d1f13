"""Shapes from configurations and names: published parameter counts, caches of every attention kind, contradictions named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.errors import NotFoundError
from anycard.sizing.cache import cache_bytes
from anycard.sizing.config import ConfigError, shape_from_config
from anycard.sizing.files import known_models, load_model
from anycard.sizing.headers_only import reconciled, shape_from_tensors
from anycard.sizing.inference import Serving, estimate_inference
from anycard.sizing.quantization import names, scheme
from anycard.sizing.recipe import Engine, Method, Recipe
from anycard.sizing.shape import shape_from_sizes
from anycard.sizing.training import estimate_training
from anycard.sizing.weight_format import scheme_from_config
from anycard.sizing.weights import Tensor, census, parameter_count, weights_from_shape

# Published on the model cards, billions: total and, for mixtures of experts, active.
PUBLISHED = {
    "Qwen3-8B": (8.2, None),
    "Qwen3-30B-A3B": (30.5, 3.3),
    "Qwen3-235B-A22B": (235.0, 22.0),
    "Llama-3.1-8B": (8.03, None),
    "Llama-3.1-405B": (405.0, None),
    "Mixtral-8x7B": (46.7, 12.9),
    "Mixtral-8x22B": (141.0, 39.0),
    "gemma-2-27b": (27.2, None),
    "gemma-7b": (8.54, None),
    "falcon-7b": (6.92, None),
    "phi-2": (2.78, None),
    "DeepSeek-V3": (671.0, 37.0),
    "gpt-oss-20b": (20.9, 3.6),
    "gpt-oss-120b": (116.8, 5.1),
    "gpt2": (0.124, None),
    "SmolLM2-135M": (0.135, None),
    "Qwen-72B": (72.3, None),
    "gemma-3-4b": (4.30, None),
    "gemma-3-12b": (12.19, None),
    "gemma-3-27b": (27.43, None),
    "Mistral-Nemo-12B": (12.25, None),
    "Mistral-Small-24B": (23.57, None),
    "Phi-4-mini": (3.84, None),
    "SmolLM3-3B": (3.08, None),
    "DeepSeek-R1-Distill-Qwen-7B": (7.62, None),
    "Qwen3-Coder-30B-A3B": (30.5, 3.3),
}


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_parameter_counts_are_the_published_ones(name, published):
    shape = load_model(name).shape
    total, active = published
    assert shape.params / 1e9 == pytest.approx(total, rel=0.01)
    if active:
        assert shape.active_params / 1e9 == pytest.approx(active, rel=0.1)


@pytest.mark.parametrize("name", known_models())
def test_every_model_of_the_table_has_weights_and_a_cache(name):
    model = load_model(name)
    assert model.weights.total_bytes > model.shape.params * 0.4
    assert cache_bytes(model.shape, 2) > cache_bytes(model.shape, 1) > 0


@pytest.mark.parametrize("spelling", ["qwen3-8b", "Qwen/Qwen3-8B", "qwen3:8b", "Qwen3_8B"])
def test_names_as_people_write_them(spelling):
    assert load_model(spelling).shape.name == "Qwen3-8B"


def test_instruct_models_have_the_shape_of_their_base():
    assert load_model("meta-llama/Meta-Llama-3.1-8B-Instruct").shape.name == "Llama-3.1-8B"


def test_unknown_names_say_what_is_near():
    with pytest.raises(NotFoundError) as caught:
        load_model("Qwen3-9B")
    assert "Qwen3-8B" in caught.value.to_json()["hint"]


def test_cache_of_grouped_queries_is_exact():
    # 36 layers, K and V, 8 heads of 128, 2 bytes: 147,456 a token
    assert cache_bytes(load_model("Qwen3-4B").shape, 1000, 3) == 147_456 * 1000 * 3


def test_cache_of_latent_attention():
    assert cache_bytes(load_model("DeepSeek-V3").shape, 1) == 61 * (512 + 64) * 2


def test_sliding_windows_stop_growing():
    shape = load_model("gemma-2-2b").shape
    full = load_model("gemma-2-2b").shape.cache[0]
    growth = cache_bytes(shape, 10_000) - cache_bytes(shape, 9_999)
    assert growth == full.layers * full.elements_per_token * 2
    assert cache_bytes(shape, 10_000, full_windows=True) > cache_bytes(shape, 10_000)


def test_gpt_oss_cache_as_vllm_charges_it():
    # printed by vLLM: 73,728 bytes a token (alvarobartt/hf-mem#60)
    assert cache_bytes(load_model("gpt-oss-120b").shape, 1, full_windows=True) == 73_728


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def test_hybrid_attention_keeps_a_state_instead_of_tokens():
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    config = {
        **LLAMA,
        "layer_types": kinds,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    }
    shape = shape_from_config(config)
    assert cache_bytes(shape, 1001) - cache_bytes(shape, 1000) == 2 * 2 * 16 * 2
    assert cache_bytes(shape, 0) == 3 * 4 * 16 * 16 * 4


def test_vision_models_count_their_tower():
    config = {
        "text_config": LLAMA,
        "vision_config": {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64},
    }
    plain = shape_from_config(LLAMA)
    blocks, projector = 2 * (4 * 32 * 32 + 2 * 32 * 64), 32 * 64 + 64 * 64
    assert shape_from_config(config).params - plain.params == blocks + projector


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "no hidden_size"),
        ({"hidden_size": "big"}, "hidden_size is big"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"hidden_size": float("nan")}, "makes no sense"),
        ({"hidden_size": 10**30}, "makes no sense"),
        ({"num_attention_heads": 5}, "do not divide"),
        ({"num_key_value_heads": 3}, "cannot share"),
        ({"num_key_value_heads": 8}, "cannot share"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"num_local_experts": 4, "num_experts_per_tok": 9}, "9 of 4 experts"),
    ],
)
def test_contradictions_are_named(change, says):
    with pytest.raises(ConfigError, match=says):
        shape_from_config({**LLAMA, **change}, "m")


@given(
    st.dictionaries(
        st.sampled_from(sorted(LLAMA)),
        st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.lists(st.integers())),
    )
)
def test_any_config_is_a_shape_or_a_config_error(change):
    try:
        shape = shape_from_config({**LLAMA, **change}, "m")
    except ConfigError:
        return
    assert shape.params > 0


def _compressed(weights):
    return {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights}},
        }
    }


def test_smaller_groups_cost_more():
    small = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
    assert scheme_from_config(small).linear_bytes == 0.5 + 2 / 32 + 0.5 / 32


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}, "fp8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq-int4"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, "gptq-int8"),
        (
            {
                "quantization_config": {
                    "quant_method": "bitsandbytes",
                    "load_in_4bit": True,
                    "bnb_4bit_use_double_quant": True,
                }
            },
            "nf4-dq",
        ),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}}, "gptq-int3"),
        ({"quantization_config": {"quant_method": "fbgemm_fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
        (
            {"quantization_config": {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}},
            "gptq-int4",
        ),
        (_compressed({"num_bits": 8, "type": "float"}), "fp8"),
        (_compressed({"num_bits": 8, "type": "int", "strategy": "channel"}), "int8"),
        (_compressed({"num_bits": 4, "type": "int", "group_size": 128}), "gptq-int4"),
        (_compressed({"num_bits": 4, "type": "float", "group_size": 16}), "nvfp4"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "mlx-4bit"),
        ({"text_config": {"dtype": "float16"}}, "fp16"),
        ({"quantization_config": {"quant_method": "gptq", "bits": [], "group_size": "x"}}, "gptq-int4"),
        ({"quantization_config": {"quant_method": 4, "config_groups": {"g": 5}}}, "bf16"),
        ({"torch_dtype": "float32"}, "fp32"),
        ({"torch_dtype": "strange"}, "bf16"),
        ({}, "bf16"),
    ],
)
def test_weight_format_of_a_config(config, name):
    assert scheme_from_config(config).name == name


@pytest.mark.parametrize("name", names())
def test_every_weight_format_is_smaller_than_fp32(name):
    assert 0.1 < scheme(name).linear_bytes <= 4


@pytest.mark.parametrize(
    ("spelling", "same"),
    [("UD-Q4_K_XL", "q4_k_m"), ("Q6_K_L", "q6_k"), ("Q3_K_L", "q3_k_l"), ("Q5_K_L", "q5_k_m"), ("UD-IQ2_M", "iq2_m")],
)
def test_mixtures_as_publishers_spell_them(spelling, same):
    assert scheme(spelling).linear_bytes == scheme(same).linear_bytes


def test_fp8_of_a_tied_model_stores_the_head_again():
    shape = load_model("Qwen3-4B").shape
    assert weights_from_shape(shape, scheme("bf16")).head_bytes == 0
    assert weights_from_shape(shape, scheme("fp8")).head_bytes == shape.head_params * 2


@given(
    gated=st.booleans(),
    tied=st.booleans(),
    n_layer=st.integers(2, 80),
    heads=st.sampled_from([8, 16, 32]),
    intermediate=st.integers(512, 20000),
)
def test_gated_and_tied_are_found_from_the_parameter_count(gated, tied, n_layer, heads, intermediate):
    hidden, vocab = heads * 64, 50_000
    linear = n_layer * (4 * hidden * hidden + (3 if gated else 2) * hidden * intermediate)
    params = linear + vocab * hidden * (1 if tied else 2)
    shape = shape_from_sizes(
        name="m",
        n_layer=n_layer,
        hidden=hidden,
        n_head=heads,
        n_kv_head=heads,
        head_dim=64,
        vocab=vocab,
        intermediate=intermediate,
        params=params,
    )
    assert shape.params == params
    # another combination can only win by meeting the count as well
    if (shape.gated, shape.tied) != (gated, tied):
        other = n_layer * (4 * hidden * hidden + (3 if shape.gated else 2) * hidden * intermediate)
        assert other + vocab * hidden * (1 if shape.tied else 2) == params


def test_shape_from_tensor_names_alone():
    tensors = [Tensor("model.embed_tokens.weight", "BF16", (1000, 64), 128_000)]
    for layer in range(3):
        tensors += [
            Tensor(f"model.layers.{layer}.self_attn.k_proj.weight", "BF16", (32, 64), 4096),
            Tensor(f"model.layers.{layer}.self_attn.v_proj.weight", "BF16", (32, 64), 4096),
            Tensor(f"model.layers.{layer}.mlp.gate_proj.weight", "BF16", (128, 64), 16384),
        ]
    shape = shape_from_tensors(tensors, "m")
    assert shape.known and (shape.n_layer, shape.vocab, shape.hidden) == (3, 1000, 64)
    assert cache_bytes(shape, 1) == 3 * 64 * 2


def test_an_unknown_architecture_says_so():
    tensors = [Tensor("wte.weight", "F32", (1000, 64), 256_000), Tensor("h.0.mystery", "F32", (64, 64), 16384)]
    assert not shape_from_tensors(tensors, "m").known


def _block(layer, kv=32, hidden=64):
    sizes = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden)}
    sizes |= {"self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (128, hidden), "mlp.up_proj": (128, hidden)}
    sizes |= {"mlp.down_proj": (hidden, 128)}
    return [
        Tensor(f"model.layers.{layer}.{name}.weight", "BF16", dims, 2 * dims[0] * dims[1])
        for name, dims in sizes.items()
    ]


def _tensors(n_layer=4, kv=32):
    table = Tensor("model.embed_tokens.weight", "BF16", (100, 64), 12_800)
    return [table, *(tensor for layer in range(n_layer) for tensor in _block(layer, kv))]


def test_tensors_that_agree_leave_the_configuration_as_it_is():
    shape = reconciled(shape_from_config(LLAMA), census(_tensors()))
    assert shape.known and shape.tied  # no head is stored
    assert shape.cache == shape_from_config(LLAMA).cache
    assert shape.linear_params == 4 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128)


@pytest.mark.parametrize(("n_layer", "kv"), [(8, 32), (4, 64)])
def test_tensors_are_believed_over_a_configuration_that_they_contradict(n_layer, kv):
    shape = reconciled(shape_from_config(LLAMA), census(_tensors(n_layer, kv)))
    assert not shape.known
    assert cache_bytes(shape, 1) == n_layer * 2 * kv * 2


def test_a_vision_tower_keeps_no_cache():
    tower = [
        Tensor(f"vision_tower.blocks.{n}.attn.{m}_proj.weight", "BF16", (48, 48), 4608) for n in (0, 1) for m in "kv"
    ]
    assert reconciled(shape_from_config(LLAMA), census([*_tensors(), *tower])).known


def test_layers_that_predict_tokens_ahead_are_no_contradiction():
    assert reconciled(shape_from_config({**LLAMA, "num_nextn_predict_layers": 1}), census(_tensors(5))).known
    ahead = [tensor._replace(name=tensor.name.replace("model.layers", "mtp.layers")) for tensor in _block(0)]
    assert reconciled(shape_from_config(LLAMA), census([*_tensors(), *ahead])).known


def test_latent_attention_is_not_judged_by_matrices_of_another_kind():
    latent = {**LLAMA, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "linear_attn_config": {"full_attn_layers": [4]}}
    shape = reconciled(shape_from_config(latent), census(_tensors(3)))
    assert shape.known and cache_bytes(shape, 2) - cache_bytes(shape, 1) == (16 + 8) * 2


@pytest.mark.parametrize(
    ("name", "dtype", "dims", "bits", "weights"),
    [
        ("h.0.q_proj.qweight", "I32", (8, 64), 4, 8 * 8 * 64),
        ("h.0.q_proj.qweight", "I32", (16, 64), 8, 4 * 16 * 64),
        ("h.0.q_proj.weight_packed", "U8", (8, 64), 4, 2 * 8 * 64),
        ("h.0.mlp.experts.gate_up_proj_blocks", "U8", (2, 8, 2, 16), 4, 2 * 2 * 8 * 2 * 16),
        ("h.0.mlp.experts.gate_up_proj_scales", "U8", (2, 8, 2), 4, 0),
        ("h.0.q_proj.weight_scale_inv", "F32", (8, 8), 4, 0),
        ("h.0.q_proj.weight", "BF16", (8, 8), 4, 64),
    ],
)
def test_packed_weights_are_counted_unpacked(name, dtype, dims, bits, weights):
    assert parameter_count([Tensor(name, dtype, dims, 0)], bits) == weights


@pytest.mark.parametrize("method", list(Method))
def test_tensors_without_layers_can_be_trained_with_a_wide_interval(method):
    shape = shape_from_tensors([Tensor("double.qkv.weight", "BF16", (64, 64), 8192)], "m")
    for cards in (1, 8):
        recipe = Recipe(method, 128, engine=Engine.TORCHTUNE, cards=cards, zero_stage=3)
        estimate = estimate_training(shape, weights_from_shape(shape, scheme("bf16")), recipe)
        assert estimate.high_bytes > 1.4 * estimate.total_bytes
        assert any("does not know" in str(text) for text in estimate.warnings)


# Sizes of files that publishers made with llama.cpp's own quantize (bytes, tokenizer and header included).
@pytest.mark.parametrize(
    ("name", "quant", "file_bytes", "off"),
    [
        ("gemma-2-2b", "Q4_K_M", 1_708_582_752, 0.015),  # a tied table of 256,000 words is kept in Q6_K
        ("Llama-3.2-1B", "Q4_K_M", 807_694_464, 0.015),
        ("Llama-3.2-1B", "Q8_0", 1_321_083_008, 0.015),
        ("Llama-3.2-3B", "Q4_K_M", 2_019_377_696, 0.015),
        ("Mistral-7B-v0.3", "Q4_K_M", 4_372_812_000, 0.015),
        ("Qwen2.5-7B", "Q4_K_M", 4_683_073_536, 0.015),
        ("gemma-2-9b", "Q4_K_M", 5_761_057_728, 0.015),
        ("Qwen2.5-0.5B", "Q4_K_M", 397_808_192, 0.05),  # rows of 896 do not fit blocks of 256
    ],
)
def test_mixtures_by_what_they_keep_of_tables_and_narrow_rows(name, quant, file_bytes, off):
    assert load_model(name, quant).weights.total_bytes == pytest.approx(file_bytes, rel=off)


def test_an_unknown_architecture_says_what_it_was_taken_for():
    shape = shape_from_config({**LLAMA, "model_type": "weirdnet"})
    weights = weights_from_shape(shape, scheme("bf16"))
    estimate = estimate_inference(shape, weights, Serving())
    usual = estimate_inference(shape_from_config(LLAMA), weights, Serving())
    assert any("taken for a decoder" in str(text) for text in estimate.warnings)
    assert estimate.low_bytes < usual.low_bytes
    assert usual.high_bytes < estimate.high_bytes


def test_a_part_of_an_image_model_has_no_configuration_of_a_language_model():
    with pytest.raises(ConfigError, match="part of an image model"):
        shape_from_config({"_class_name": "FluxTransformer2DModel", "num_attention_heads": 24, "num_layers": 19})


def test_a_layer_word_that_nobody_knows_counts_as_full_attention():
    shape = shape_from_config({**LLAMA, "layer_types": ["newfangled"] * LLAMA["num_hidden_layers"]})
    assert shape.cache == shape_from_config(LLAMA).cache
