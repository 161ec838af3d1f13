"""How fast: a roofline with a few constants a class of card, each fitted on public measurements and shipped with its error.

Decode reads every active weight and the cache once a token, so memory bandwidth decides, less what kernels leave unused
(``efficiency``), plus a launch cost a layer and a hop a further card. Formats of 4 bits and less must be unpacked: where arithmetic
is scarce (Apple) or the format is costly (2 and 3 bits) that decides. Prefill and training count arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from anycard.model.text import Text
from anycard.sizing.cache import cache_bytes
from anycard.sizing.cardspec import CardSpec
from anycard.sizing.recipe import Method, Recipe
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import Weights


@dataclass(frozen=True, slots=True)
class SpeedClass:
    """``efficiency``: share of the nominal bandwidth that decode reaches; ``layer_s``, ``hop_s``: seconds a layer and a further card.

    ``unpack_ops``: FP32 operations a 4-bit weight costs; ``prefill``: share of the nominal half-precision rate; ``mfu``: the same
    in training. ``error``: mean error of decode on cards that the fit did not see (or on its own rows, where one card is all).
    """

    name: str
    efficiency: float
    layer_s: float
    hop_s: float
    prefill: float
    mfu: float
    error: float
    rows: int
    source: str
    unpack_ops: float = 0.0


_TABLE = "XiongjieDai/GPU-Benchmarks-on-LLM-Inference @aa72e0e (llama.cpp, 2024-05)"
# Fitted by least absolute log error; `error` from fits that each leave one card out. See docs/sizing.md.
CLASSES: dict[str, SpeedClass] = {
    "cuda-gddr": SpeedClass("cuda-gddr", 0.915, 103e-6, 0.21e-3, 0.70, 0.35, 0.07, 41, _TABLE),
    "cuda-ampere-hbm": SpeedClass("cuda-ampere-hbm", 0.515, 93e-6, 0.90e-3, 0.38, 0.42, 0.13, 10, _TABLE),
    "cuda-hopper-hbm": SpeedClass("cuda-hopper-hbm", 0.70, 112e-6, 0.50e-3, 0.25, 0.40, 0.06, 7, _TABLE),
    "apple": SpeedClass("apple", 0.85, 62e-6, 0.2e-3, 0.70, 0.25, 0.15, 7, _TABLE, unpack_ops=31.0),
    "rocm": SpeedClass(
        "rocm", 0.765, 100e-6, 0.3e-3, 0.45, 0.30, 0.08, 3, "ggml-org/llama.cpp issues 5835, 2059 and HIP threads"
    ),
    "vulkan": SpeedClass("vulkan", 0.80, 250e-6, 0.4e-3, 0.20, 0.0, 0.37, 2, "ggml-org/llama.cpp#5835, #2059"),
    "sycl": SpeedClass("sycl", 0.775, 99e-6, 0.3e-3, 0.60, 0.30, 0.10, 3, "intel/ipex-llm#12991"),
    "opencl": SpeedClass("opencl", 0.50, 165e-6, 0.4e-3, 0.15, 0.0, 0.30, 1, "ggml-org/llama.cpp#2059"),
    "cpu": SpeedClass(
        "cpu", 0.80, 65e-6, 0.0, 0.50, 0.10, 0.40, 1, "ggml-org/llama.cpp#2059 (4.45 tokens/s at 48 GB/s)"
    ),
}
_UNPACK_LOW_BITS = (
    40.0  # operations a weight of 2 and 3 bit formats cost (ggml-org/llama.cpp#4766: Q2_K, Q3_K_S on an RTX 3090)
)
_LOW_BITS = 3.9
# Dual-channel DDR4-3200; any other CPU's bandwidth should be measured and given.
CPU_BANDWIDTH = 51.2e9


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second with an interval, why, and how far off the class was where it could be checked."""

    tokens_per_s: float
    low: float
    high: float
    basis: Text
    error: float


def speed_class(card: CardSpec, backend: str | None = None) -> SpeedClass | None:
    """The class of ``card`` under ``backend`` (``"cuda"``, ``"rocm"``, ``"vulkan"``, ...; None: the vendor's own). None: unknown."""
    wanted = (backend or "").lower()
    for name in ("vulkan", "opencl", "sycl", "cpu"):
        if name in wanted:
            return CLASSES[name]
    if card.vendor == "cpu":
        return CLASSES["cpu"]
    if card.vendor == "apple":
        return CLASSES["apple"]
    if card.vendor == "amd":
        return CLASSES["rocm"]
    if card.vendor == "intel":
        return CLASSES["sycl"]
    if card.vendor != "nvidia":
        return None
    if "HBM" in card.memory_type or card.hopper_or_newer:
        return CLASSES["cuda-hopper-hbm" if card.hopper_or_newer else "cuda-ampere-hbm"]
    return CLASSES["cuda-gddr"]


def decode_speed(
    shape: ModelShape,
    weights: Weights,
    card: CardSpec,
    *,
    cards: int = 1,
    context: int = 512,
    backend: str | None = None,
    kind: SpeedClass | None = None,
) -> Speed | None:
    """Tokens a second of one sequence with ``context`` tokens in the cache. None where the card's bandwidth or class is unknown.

    ``kind``: constants to use instead of the card's class (learnt on this host, or tried in a fit).

    Several cards hold consecutive layers (llama.cpp's default): they take turns, so they add memory, not speed.
    """
    kind = kind or speed_class(card, backend)
    bandwidth = (
        CPU_BANDWIDTH if kind is not None and kind.name == "cpu" and card.vendor != "cpu" else card.bandwidth_bytes_s
    )
    if kind is None or not bandwidth or not shape.vocab:  # without a vocabulary it writes no tokens
        return None
    active = 1.0
    if shape.active_linear_params is not None and shape.linear_params:
        active = shape.active_linear_params / shape.linear_params
    # a tied head is read whole; tables beside it (Gemma 3n has one a layer) are looked up
    head = weights.head_bytes or weights.embedding_bytes * shape.head_params // max(1, shape.embedding_params)
    read = weights.linear_bytes * active + head + weights.other_bytes
    streaming = read / (bandwidth * kind.efficiency)
    unpacking = 0.0
    bits = weights.scheme.linear_bytes * 8
    if card.fp32_flops and bits < 8:
        operations = max(kind.unpack_ops, _UNPACK_LOW_BITS if bits < _LOW_BITS else 0.0)
        unpacking = shape.active_params * operations / card.fp32_flops
    cache = cache_bytes(shape, context) / (bandwidth * kind.efficiency)
    seconds = max(streaming, unpacking) + cache + kind.layer_s * shape.n_layer + kind.hop_s * (cards - 1)
    return _speed(1 / seconds, kind)


def prefill_speed(shape: ModelShape, weights: Weights, card: CardSpec, *, backend: str | None = None) -> Speed | None:
    """Prompt tokens a second: two operations a weight and token at the share of the nominal rate that the class reaches."""
    kind = speed_class(card, backend)
    if kind is None or not card.half_flops or not kind.prefill or not shape.vocab:
        return None
    rate = card.half_flops * kind.prefill / (2 * max(1, shape.active_params))
    return _speed(rate * (0.8 if weights.scheme.linear_bytes < 1 else 1.0), kind, extra=0.25)


def training_speed(shape: ModelShape, recipe: Recipe, card: CardSpec) -> Speed | None:
    """Training tokens a second over all cards. None where the card's arithmetic rate or class is unknown.

    Operations a weight and token: 2 forward, 2 to pass the gradient on, 2 for the weight's own gradient (not for frozen weights), 2
    more to recompute under checkpointing. The share of the nominal rate is from Qwen's published seconds an iteration (A100); short
    sequences and 4-bit weights reach less.
    """
    kind = speed_class(card)
    if kind is None or not card.half_flops or not kind.mfu:
        return None
    per_weight = 4 + (2 if recipe.trains_all else 0) + (2 if recipe.checkpointing else 0)
    tokens = recipe.sequence * recipe.batch
    share = kind.mfu * tokens / (tokens + 150)
    if recipe.method is Method.QLORA:
        share *= tokens / (tokens + 600)  # each micro-batch unpacks the weights again
    if recipe.cards > 1:
        share *= 0.75
    rate = card.half_flops * recipe.cards * share / (per_weight * max(1, shape.active_params))
    return _speed(rate, kind, extra=0.3)


def training_scale(card: CardSpec) -> float | None:
    """A figure whose ratio between two cards is their ratio of training speed; None where the card's figures are unknown.

    Arithmetic rate to the power 1/3 times bandwidth to the power 2/3: fitted on Lambda's PyTorch throughputs (360 rows, ten models,
    eleven cards; exponents 0.33 and 0.63), mean error 21 %, 24 % on cards that the fit did not see. The arithmetic rate alone misses by
    half: hardly any training is bound by it alone.
    """
    if not card.half_flops or not card.bandwidth_bytes_s:
        return None
    return float((card.half_flops / 1e12) ** (1 / 3) * (card.bandwidth_bytes_s / 1e9) ** (2 / 3))


def _speed(rate: float, kind: SpeedClass, extra: float = 0.0) -> Speed:
    spread = min(0.9, 2 * kind.error + extra)
    basis = Text(
        "class {name}, fitted on {rows} rows of {source}, mean error {error} %",
        {"name": kind.name, "rows": kind.rows, "source": kind.source, "error": round(kind.error * 100)},
    )
    return Speed(rate, rate * (1 - spread), rate * (1 + spread), basis, kind.error)
