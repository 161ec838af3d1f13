"""Vision towers from their sizes. With the weights' headers at hand none of this is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.sizing.fields import SIZE_MAX

_GATED = frozenset(("qwen2_5_vl", "pixtral", "glm4v", "glm4v_moe"))


def vision_params(config: Mapping[str, Any], hidden: int) -> int:
    """Transformer blocks, patches and what leads to the language model's ``hidden`` values; 0 if there is none or it does not say."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0
    width = _first(vision, "embed_dim", "hidden_size")  # Qwen2-VL's hidden_size is what it gives out
    n_layer = _first(vision, "num_hidden_layers", "depth")
    if not width or not n_layer or n_layer >= 10_000:
        return 0
    n_layer += _first(vision, "num_global_layers")  # Llama 3.2 Vision
    family = str(vision.get("model_type") or config.get("model_type") or "")
    gated = family.removesuffix("_vision") in _GATED or str(config.get("model_type")) in ("qwen2_5_vl", "mistral3")
    inner = _first(vision, "intermediate_size") or width * (_first(vision, "mlp_ratio") or 4)
    blocks = n_layer * (4 * width * width + (3 if gated else 2) * width * inner)
    return blocks + _patches(vision, width) + _projector(vision, width, hidden)


def _patches(vision: Mapping[str, Any], width: int) -> int:
    patch = _first(vision, "patch_size")
    if not patch:
        return 0
    side = _first(vision, "image_size") // patch
    table = _first(vision, "num_position_embeddings") or side * side
    return width * (patch * patch * 3 * (_first(vision, "temporal_patch_size") or 1) + table)


def _projector(vision: Mapping[str, Any], width: int, hidden: int) -> int:
    """Qwen merges patches into one token in two steps, at each place where features leave the tower; others have two matrices."""
    merge = _first(vision, "spatial_merge_size")
    if merge:
        wide = width * merge * merge
        taps = vision.get("deepstack_visual_indexes")
        return (wide * wide + wide * hidden) * (1 + (len(taps) if isinstance(taps, list) else 0))
    out = _first(vision, "vision_output_dim") or width
    return out * hidden + (hidden * hidden if not _first(vision, "vision_output_dim") else 0)


def _first(values: Mapping[str, Any], *keys: str) -> int:
    """The first that is a size; 0 if none is."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and 0 < value < SIZE_MAX:
            return value
    return 0
