"""How many bytes a weight takes in each format, and which weights the format touches."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ggml tensor types: id -> (name, weights a block, bytes a block). Source: ggml-org/ggml, include/ggml.h and src/ggml-common.h.
GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}

# Bits of a cache element in llama.cpp's --cache-type-k/-v.
CACHE_BYTES: dict[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}

# safetensors dtypes -> bits. Source: huggingface/safetensors, safetensors/src/tensor.rs.
SAFETENSORS_BITS: dict[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


@dataclass(frozen=True, slots=True)
class Scheme:
    """A weight format. ``linear_bytes``: a weight of the blocks' matrices, scales and zero points included.

    ``table_bytes``: a weight of the embedding, and of the head unless ``head_bytes`` says otherwise, which then counts for an embedding
    that is the head too. ``unties``: checkpoints of tied models store the head a second time.
    ``packed``: kernels unpack a layer into a temporary copy. ``fused_rotary``: the runtime keeps a rotary table a layer.
    """

    name: str
    linear_bytes: float
    table_bytes: float
    unties: bool = False
    packed: bool = False
    fused_rotary: bool = False
    file_format: str = "safetensors"
    head_bytes: float | None = None
    narrow_bytes: float | None = None  # of the blocks' matrices whose rows are no multiple of 256


def grouped(bits: int, group: int = 128) -> float:
    """GPTQ and AWQ: packed integers, and one FP16 scale and one packed zero point per group."""
    return bits / 8 + 2 / group + bits / 8 / group


# Bits a weight of llama.cpp's mixtures, whole file. Source: ggml-org/llama.cpp, tools/quantize/README.md (Llama 3.1 8B).
_GGUF_BITS: dict[str, float] = {
    "iq1_s": 2.0042,
    "iq1_m": 2.1460,
    "tq1_0": 1.69,
    "tq2_0": 2.06,
    "iq2_xxs": 2.3824,
    "iq2_xs": 2.5882,
    "iq2_s": 2.7403,
    "iq2_m": 2.9294,
    "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "iq4_xs": 4.4597,
    "iq4_nl": 4.6818,
    "q2_k_s": 2.9697,
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k": 3.9960,
    "q3_k_m": 3.9960,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_0": 4.6616,
    "q4_1": 5.1052,
    "q4_k": 4.8944,
    "q4_k_m": 4.8944,
    "q5_0": 5.5540,
    "q5_1": 6.0010,
    "q5_k_s": 5.5704,
    "q5_k": 5.7036,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
}

# What those mixtures keep the embedding in (else the type that they are called after), and the head, or an embedding that is both: Q6_K, or
# Q5_K in the smallest. Source: ggml-org/llama.cpp, src/llama-quant.cpp (llama_tensor_get_type).
_EMBEDDING_BITS = {
    "iq1": 2.625, "iq2_xxs": 2.625, "iq2_xs": 2.625, "iq2_s": 3.4375, "iq2_m": 3.4375, "iq3": 3.4375, "iq4_xs": 4.25, "iq4_nl": 4.5,
    "q2_k": 2.625, "q3_k": 3.4375, "q4_1": 5.0, "q4": 4.5, "q5_1": 6.0, "q5": 5.5, "q6_k": 6.5625, "q8_0": 8.5, "tq": 4.5,
}  # fmt: skip
# Rows that are no multiple of 256 do not fit the blocks of the K and IQ types: Q5_0, Q5_1, Q8_0 or IQ4_NL stand in (same file).
_NARROW_BITS = {"q4_k": 5.5, "q5_k": 6.0, "q6_k": 8.5, "q2_k": 4.5, "q3_k": 4.5, "iq": 4.5}
_SMALLEST = ("iq1", "iq2", "iq3_xxs")
_MEASURED_ON = (6_979_321_856, 525_336_576)  # weights of Llama 3.1 8B's layers, and of either table


def _mixture(name: str, key: str) -> Scheme:
    """The layers' share of a mixture's bits: what the tables of the model that it was measured on leave."""
    layers, table = _MEASURED_ON
    whole = _GGUF_BITS[key]
    embedding = next(bits for start, bits in _EMBEDDING_BITS.items() if key.startswith(start))
    head = 8.5 if key == "q8_0" else 5.5 if key.startswith(_SMALLEST) else 6.5625
    linear = (whole * (layers + 2 * table) - (embedding + head) * table) / layers
    narrow = next((bits for start, bits in _NARROW_BITS.items() if key.startswith(start)), None)
    return Scheme(
        name,
        linear / 8,
        embedding / 8,
        file_format="gguf",
        head_bytes=head / 8,
        narrow_bytes=None if narrow is None else narrow / 8,
    )


_SCHEMES: dict[str, Scheme] = {
    "fp32": Scheme("fp32", 4.0, 4.0),
    "bf16": Scheme("bf16", 2.0, 2.0),
    "fp16": Scheme("fp16", 2.0, 2.0),
    # block-wise FP8: one scale per 128 x 128 block; checkpoints of tied models (Qwen3) store lm_head again
    "fp8": Scheme("fp8", 1.0 + 4 / 128**2, 2.0, unties=True),
    "gptq-int8": Scheme("gptq-int8", grouped(8), 2.0, packed=True),
    "gptq-int4": Scheme("gptq-int4", grouped(4), 2.0, packed=True),
    # AutoAWQ's fused attention keeps a complex64 rotary table in each layer (awq/modules/fused/attn.py, class RoPE)
    "awq-int4": Scheme("awq-int4", grouped(4), 2.0, fused_rotary=True),
    # bitsandbytes: 4 bits and an FP32 absmax per 64; -dq quantises the absmax to 8 bits with an FP32 per 256 of them
    "nf4": Scheme("nf4", 0.5 + 4 / 64, 2.0, packed=True),
    "nf4-dq": Scheme("nf4-dq", 0.5 + 1 / 64 + 4 / (64 * 256), 2.0, packed=True),
    "int8": Scheme("int8", 1.0, 2.0, packed=True),
    # MLX: a scale and a bias of 16 bits a group of 64, embedding and head included
    "mlx-4bit": Scheme("mlx-4bit", 0.5 + 4 / 64, 0.5 + 4 / 64),
    "mlx-8bit": Scheme("mlx-8bit", 1.0 + 4 / 64, 1.0 + 4 / 64),
    # blocks of 32 4-bit values and an 8-bit exponent (OCP microscaling; the experts of gpt-oss)
    "mxfp4": Scheme("mxfp4", 17 / 32, 2.0),
    # blocks of 16 4-bit values and an FP8 scale
    "nvfp4": Scheme("nvfp4", 0.5 + 1 / 16, 2.0),
}
_ALIASES = {
    "f32": "fp32",
    "float32": "fp32",
    "f16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "f8": "fp8",
    "float8": "fp8",
    "gptq": "gptq-int4",
    "awq": "awq-int4",
    "int4": "gptq-int4",
    "bnb.nf4": "nf4",
    "bnb.nf4-dq": "nf4-dq",
    "bnb-4bit": "nf4",
    "fp4": "nf4",
    "bnb-8bit": "int8",
    "bnb.int8": "int8",
    "mxfp4_moe": "mxfp4",
}


def scheme(name: str) -> Scheme:
    """The scheme called ``name`` (``"BF16"``, ``"GPTQ-Int4"``, ``"Q4_K_M"``, ``"bnb.nf4-dq"`` ...). KeyError if there is none."""
    key = re.sub(r"[\s()?]+", "", name.strip().lower())
    key = _ALIASES.get(key, key)
    if key in _SCHEMES:
        return _SCHEMES[key]
    gguf_key = key.removeprefix("ud-")  # mixtures that some publishers call large are near the usual ones
    for large in ("_xxl", "_xl", "_l"):
        if gguf_key not in _GGUF_BITS and gguf_key.endswith("_k" + large):
            medium = gguf_key.removesuffix(large) + "_m"
            gguf_key = medium if medium in _GGUF_BITS else gguf_key.removesuffix(large)
    if gguf_key not in _GGUF_BITS:
        raise KeyError(name)
    return _mixture(key, gguf_key)


def names() -> tuple[str, ...]:
    """Every name that ``scheme`` knows, the plain ones first."""
    return (*_SCHEMES, *_GGUF_BITS)


def cheaper_than(bytes_per_weight: float) -> tuple[str, ...]:
    """Well-trodden schemes below ``bytes_per_weight``, the gentlest first."""
    ladder = (("fp8", 1.0), ("q8_0", 1.06), ("q6_k", 0.82), ("awq-int4", 0.52), ("q4_k_m", 0.61))
    return tuple(name for name, size in sorted(ladder, key=lambda pair: -pair[1]) if size < bytes_per_weight * 0.95)
