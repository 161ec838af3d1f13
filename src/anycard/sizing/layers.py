"""What each layer of a model is, from its configuration: families write the order of attention and state-space layers in many ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from anycard.sizing.fields import Fields


class Mixer(StrEnum):
    """How a layer lets tokens see each other. ``BOTH``: attention and a state-space mixer side by side (Falcon-H1). ``SHARED``: attention
    that reads another layer's cache (Gemma 3n). ``CROSS``: attention to an image. ``NONE``: an MLP alone (Nemotron-H)."""

    FULL = "full"
    SLIDING = "sliding"
    SHARED = "shared"
    CROSS = "cross"
    BOTH = "both"
    MAMBA = "mamba"
    MAMBA2 = "mamba2"
    DELTA = "delta"  # gated delta rule: Qwen3-Next, Kimi Linear
    LIGHTNING = "lightning"  # MiniMax
    RECURRENT = "recurrent"  # RG-LRU: RecurrentGemma
    CONV = "conv"  # LFM2
    RWKV = "rwkv"
    NONE = "none"


RWKV = frozenset(("rwkv", "rwkv5", "rwkv6", "rwkv7"))
STATE_SPACE_ONLY = frozenset(("mamba", "mamba2", "falcon_mamba"))
_ATTENTION = frozenset(("full_attention", "attention", "global_attention", "full", "global"))
_PATTERN = {"M": Mixer.MAMBA2, "*": Mixer.FULL, "-": Mixer.NONE, "E": Mixer.NONE}  # Nemotron-H
_SLIDING_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}


def mixers(read: Fields, family: str, n_layer: int) -> tuple[Mixer, ...]:
    """One a layer, ``n_layer`` of them."""
    found = _spelt(read, n_layer) or _placed(read, n_layer) or _windowed(read, family, n_layer)
    if family in STATE_SPACE_ONLY:
        found = [_state_space(read)] * n_layer
    if family in RWKV:
        found = [Mixer.RWKV] * n_layer
    if family == "falcon_h1":
        found = [Mixer.BOTH] * n_layer
    borrowed = min(n_layer, read.number("num_kv_shared_layers", default=0))
    if borrowed:
        found = [*found[: n_layer - borrowed], *(Mixer.SHARED for _ in range(borrowed))]
    for layer in _whole_numbers(read.values.get("cross_attention_layers")):
        if 0 <= layer < n_layer:
            found[layer] = Mixer.CROSS
    return tuple(found)


def _spelt(read: Fields, n_layer: int) -> list[Mixer]:
    """A word or a letter for each layer."""
    pattern = read.values.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) == n_layer and set(pattern) <= set(_PATTERN):
        return [_PATTERN[letter] for letter in pattern]
    for key in ("layer_types", "layers_block_type", "hybrid_layer_types"):
        kinds = read.values.get(key)
        if isinstance(kinds, list) and len(kinds) == n_layer:
            return [_of_word(str(kind), read) for kind in kinds]
    block = read.values.get("block_types")  # repeated until the layers are full (RecurrentGemma)
    if isinstance(block, list) and block:
        windowed = read.number("attention_window_size", default=0)
        words = [_of_word(str(block[layer % len(block)]), read) for layer in range(n_layer)]
        return [Mixer.SLIDING if windowed and word is Mixer.FULL else word for word in words]
    kinds = read.values.get("attn_type_list")
    if isinstance(kinds, list) and len(kinds) == n_layer:
        return [Mixer.FULL if kind == 1 else Mixer.LIGHTNING for kind in kinds]
    return []


def _of_word(word: str, read: Fields) -> Mixer:
    if "sliding" in word or "chunked" in word or word == "local_attention":
        return Mixer.SLIDING
    if word in _ATTENTION:
        return Mixer.FULL
    if word in ("hybrid", "parallel_hybrid"):
        return Mixer.BOTH if read.number("mamba_n_heads", "mamba_d_state", default=0) else Mixer.FULL
    if word == "conv":
        return Mixer.CONV
    if word == "recurrent":
        return Mixer.RECURRENT
    if word in ("mamba", "mamba2"):
        return _state_space(read)
    if word == "linear_attention" and not read.number("linear_num_value_heads", default=0):
        return Mixer.LIGHTNING
    if word in ("moe", "mlp", "no_op"):
        return Mixer.NONE
    linear = any(part in word for part in ("linear", "delta", "kda", "gdn"))
    return Mixer.DELTA if linear else Mixer.FULL  # a word that nobody knows: the most that it could keep


def _placed(read: Fields, n_layer: int) -> list[Mixer]:
    """The attention layers by their places or their period; the rest is the family's own."""
    every = read.number("full_attention_interval", default=0)
    if every:
        return [Mixer.FULL if (layer + 1) % every == 0 else Mixer.DELTA for layer in range(n_layer)]
    period = read.number("attn_layer_period", default=0)
    if period:
        offset = read.number("attn_layer_offset", default=0)
        return [Mixer.FULL if layer % period == offset else _state_space(read) for layer in range(n_layer)]
    linear = read.values.get("linear_attn_config")
    if isinstance(linear, Mapping):  # counted from 1
        full = _whole_numbers(linear.get("full_attn_layers"))
        return [Mixer.FULL if layer + 1 in full else Mixer.DELTA for layer in range(n_layer)]
    for key, other in (("attn_layer_indices", None), ("full_attn_idxs", Mixer.CONV), ("hybrid_layer_ids", None)):
        places = _whole_numbers(read.values.get(key))
        if places:
            rest = other or _state_space(read)
            return [Mixer.FULL if layer in places else rest for layer in range(n_layer)]
    if read.number("attention_chunk_size", default=0):  # Llama 4: layers without rotary positions see everything
        ropes = read.values.get("no_rope_layers")
        if isinstance(ropes, list) and len(ropes) == n_layer:
            return [Mixer.SLIDING if rope else Mixer.FULL for rope in ropes]
        every = read.number("no_rope_layer_interval", default=4) or 4
        return [Mixer.FULL if (layer + 1) % every == 0 else Mixer.SLIDING for layer in range(n_layer)]
    return []


def _windowed(read: Fields, family: str, n_layer: int) -> list[Mixer]:
    """Attention in every layer, which slides in all of them, some or none."""
    window = read.number("sliding_window", "attention_window_size", default=0)
    if not window or read.values.get("use_sliding_window") is False:
        return [Mixer.FULL] * n_layer
    pattern = read.values.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # "LLLG": three local layers, one global (EXAONE 4)
        return [Mixer.SLIDING if pattern[layer % len(pattern)] in "lL" else Mixer.FULL for layer in range(n_layer)]
    every = read.number("sliding_window_pattern", "_sliding_window_pattern", default=0)
    every = every or _SLIDING_EVERY.get(family, 0)
    if every:
        return [Mixer.FULL if (layer + 1) % every == 0 else Mixer.SLIDING for layer in range(n_layer)]
    if family in ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl"):
        full = min(n_layer, read.number("max_window_layers", default=n_layer))
        return [Mixer.FULL if layer < full else Mixer.SLIDING for layer in range(n_layer)]
    return [Mixer.SLIDING] * n_layer  # Mistral 7B v0.1, Phi-3


def _state_space(read: Fields) -> Mixer:
    """Mamba 2 has heads, Mamba has none."""
    if read.number("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", default=0):
        return Mixer.MAMBA2
    pure = str(read.values.get("model_type")) in ("mamba2", "zamba2")
    return Mixer.MAMBA2 if pure else Mixer.MAMBA


def _whole_numbers(value: object) -> Sequence[int]:
    return [item for item in value if type(item) is int] if isinstance(value, list) else ()
