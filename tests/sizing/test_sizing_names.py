"""Names as people write them: the right row, or an honest refusal with the nearest; never another model in silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.errors import NotFoundError
from anycard.sizing.files import is_diffusion, known_models, load_diffusion, load_model, named_model
from anycard.sizing.names import meant_by, nearest, parse_name
from anycard.sizing.quantization import scheme

MEANT = {
    "llama3.1 8b q4": ("Llama-3.1-8B", "q4_k_m"),
    "llama-3-1-8b": ("Llama-3.1-8B", "bf16"),
    "llama3.1:8b-instruct-q4_K_M": ("Llama-3.1-8B", "q4_k_m"),
    "neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16": ("Llama-3.1-8B", "gptq-int4"),
    "unsloth/Meta-Llama-3.1-8B-bnb-4bit": ("Llama-3.1-8B", "nf4"),
    "Llama 3.1 405B FP8": ("Llama-3.1-405B", "fp8"),
    "Qwen/Qwen2.5-7B-Instruct-AWQ": ("Qwen2.5-7B", "awq-int4"),
    "Qwen2.5-7B-Instruct-GPTQ-Int8": ("Qwen2.5-7B", "gptq-int8"),
    "hf.co/unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL": ("Qwen3-8B", "ud-q4_k_xl"),
    "mlx-community/Qwen3-8B-4bit": ("Qwen3-8B", "mlx-4bit"),
    "qwen3:30b": ("Qwen3-30B-A3B", "bf16"),
    "Qwen3-Coder-30B-A3B-Instruct-FP8": ("Qwen3-Coder-30B-A3B", "fp8"),
    "deepseek-r1": ("DeepSeek-R1", "fp8"),
    "DeepSeek-R1-0528": ("DeepSeek-R1", "fp8"),
    "deepseek-r1:32b": ("DeepSeek-R1-Distill-Qwen-32B", "bf16"),
    "deepseek-r1:8b": ("DeepSeek-R1-0528-Qwen3-8B", "bf16"),
    "deepseek-v3-0324": ("DeepSeek-V3", "fp8"),
    "DeepSeek-V3-0324-UD-IQ1_S": ("DeepSeek-V3", "ud-iq1_s"),
    "gpt-oss:20b": ("gpt-oss-20b", "mxfp4"),
    "google/gemma-3-27b-it-qat-q4_0-gguf": ("gemma-3-27b", "q4_0"),
    "mistral 7b instruct v0.3": ("Mistral-7B-v0.3", "bf16"),
    "Mixtral-8x7B-Instruct-v0.1-GPTQ": ("Mixtral-8x7B", "gptq-int4"),
    "TinyLlama-1.1B-Chat-v1.0": ("TinyLlama-1.1B", "bf16"),
    "Phi-3-mini-4k-instruct": ("Phi-3-mini", "bf16"),
    "Phi-3-mini-128k-instruct": ("Phi-3-mini-128k", "bf16"),
    "llama4:scout": ("Llama-4-Scout-17B-16E", "bf16"),
}


@pytest.mark.parametrize("name", MEANT)
def test_the_right_row_in_the_format_that_the_name_says(name):
    model = named_model(name)
    assert (model.shape.name, model.weights.scheme.name) == MEANT[name]


def test_every_row_is_found_by_its_own_name():
    for name in known_models():
        assert named_model(name).shape.name == name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gemma 31b", "gemma"),  # neither Gemma 3 1B nor Gemma 4 31B
        ("llama 27b", "Llama"),  # not Llama 2 7B
        ("llama3.1", "Llama-3.1-8B"),
        ("Qwen3-8B-abliterated-pruned", "Qwen3-8B"),
        ("Qwen/Qwen1.5-7B", "Qwen"),
        ("Kimi-K2-Thinking", "Kimi-K2"),
        ("mistral large", "Mistral"),
    ],
)
def test_what_is_not_known_says_what_is_near(name, near):
    with pytest.raises(NotFoundError) as caught:
        named_model(name)
    assert near in str(caught.value.params["nearest"])


@pytest.mark.parametrize("name", ["", "/", "q4_k_m", "8b", "\N{GRINNING FACE}", "a" * 5000, "instruct"])
def test_no_model_at_all_is_said_so(name):
    with pytest.raises(NotFoundError):
        named_model(name)


@pytest.mark.parametrize(
    "path", ["/models/Qwen3-8B", "./Qwen3-8B", "~/Qwen3-8B", "Qwen3-8B.Q4_K_M.gguf", "a/b/c/Qwen3-8B"]
)
def test_a_file_that_is_missing_is_not_a_name(path):
    with pytest.raises(NotFoundError, match="no file or folder"):
        load_model(path)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("flux dev", 16.87),
        ("black-forest-labs/FLUX.1-schnell", 16.86),
        ("sdxl", 3.47),
        ("stabilityai/stable-diffusion-xl-base-1.0", 3.47),
        ("sd 1.5", 1.07),
    ],
)
def test_image_models_by_name(name, billions):
    assert is_diffusion(name)
    assert sum(part.weight_bytes for part in load_diffusion(name)) / 2e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("name", ["flux", "flux dev q4", "wan 2.1", "./sdxl", "Qwen3-8B"])
def test_no_image_model_is_guessed(name):
    assert not is_diffusion(name)


def test_a_format_asked_for_wins_over_the_name():
    assert named_model("Qwen3-8B-FP8", "q8_0").weights.scheme.name == "q8_0"


@given(st.text(max_size=60))
def test_any_text_is_a_row_or_none(text):
    asked = parse_name(text)
    if asked.quant is not None:
        assert scheme(asked.quant).linear_bytes > 0
    row = meant_by(asked, known_models())
    assert row is None or row in known_models()
    assert len(nearest(asked, known_models())) <= 3
