"""What other estimators would say of the same rows, re-derived from their public formulas.

hf-mem: alvarobartt/hf-mem src/hf_mem/safetensors/kv_cache.py: weights by dtype, cache of the full context, FP8 caches for FP8 models,
nothing else. accelerate: huggingface/accelerate src/accelerate/commands/estimate.py and its docs ("add up to 20 %"): weights x 1.2 to
run, 4 x weights (mixed precision: 4 x the FP32 size for Adam) to train. llmfit: AlexsJones/llmfit llmfit-core/src/models.rs
(estimate_memory_gb) and fit.rs (estimate_tps, efficiency 0.55).
"""

from __future__ import annotations

from anycard.sizing.cache import cache_bytes
from anycard.sizing.quantization import scheme
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import weights_from_shape
from anycard.units import MIB

_LLMFIT_BYTES = {
    "f32": 4.0,
    "fp32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 1.05,
    "q6_k": 0.80,
    "q5_k_m": 0.68,
    "q4_k_m": 0.58,
    "q4_0": 0.58,
    "q3_k_m": 0.48,
    "q2_k": 0.37,
    "awq-int4": 0.5,
    "gptq-int4": 0.5,
    "gptq-int8": 1.0,
    "fp8": 1.0,
}
_LLMFIT_DEFAULT = 0.58
_LLMFIT_EFFICIENCY = 0.55
_GB_IN_MIB = 1e9 / MIB


def hf_mem_mib(shape: ModelShape, quant: str, context: int, batch: int) -> float:
    chosen = scheme(quant)
    weights = weights_from_shape(shape, chosen)
    element = 1.0 if chosen.name == "fp8" else 2.0
    return (weights.total_bytes + cache_bytes(shape, context, batch, element_bytes=element)) / MIB


def accelerate_mib(shape: ModelShape, quant: str) -> float:
    """Its dtypes are float32, float16, int8 and int4, all weights alike."""
    width = scheme(quant).linear_bytes
    plain = 4.0 if width > 3 else 2.0 if width > 1.5 else 1.0 if width > 0.9 else 0.5
    return shape.params * plain * 1.2 / MIB


def accelerate_training_mib(shape: ModelShape, quant: str) -> float:
    """Adam: four times the model; it knows no LoRA and no activations."""
    width = 4.0 if "mixed" in quant else 2.0
    return shape.params * width * 4 / MIB


def llmfit_mib(shape: ModelShape, quant: str, context: int) -> float:
    billions = shape.params / 1e9
    each = _LLMFIT_BYTES.get(quant.lower(), _LLMFIT_DEFAULT)
    return (billions * each + 0.000008 * billions * context + 0.5) * _GB_IN_MIB


def llmfit_tokens_per_s(shape: ModelShape, quant: str, bandwidth_bytes_s: float) -> float:
    billions = (shape.active_params if shape.n_expert else shape.params) / 1e9
    each = _LLMFIT_BYTES.get(quant.lower(), _LLMFIT_DEFAULT)
    return bandwidth_bytes_s / 1e9 / (billions * each) * _LLMFIT_EFFICIENCY
