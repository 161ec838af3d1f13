"""What llama.cpp keeps of each layer of a GGUF: tokens, tokens of a window, or a state.

Source: ggml-org/llama.cpp, src/models/*.cpp (which layers slide), src/llama-hparams.cpp (sizes of the states). Architectures that are not
named here see the whole context, whatever window their header mentions: llama.cpp does not use it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from anycard.sizing.gguf_header import GgufHeader
from anycard.sizing.shape import CacheGroup
from anycard.sizing.source import damaged

# Every so many layers one sees everything, where the header has no attention.sliding_window_pattern.
_EVERY = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "cohere2": 4, "gpt-oss": 2, "llama4": 4, "exaone4": 4, "olmo2": 4, "plamo3": 8, "afmoe": 4,
}  # fmt: skip
_WINDOW = {"llama4": 8192}  # chunks, not in the header
_LAYERS_WITH_CACHE = {"gemma3n": 20}
ATTENTIONLESS = frozenset(("mamba", "mamba2"))
_BOTH = frozenset(("falcon-h1",))
_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}


def cache_groups(read: Keys, n_kv_heads: tuple[int, ...], key: int, value: int) -> tuple[CacheGroup, ...]:
    """Layers that keep the same, together. ``n_kv_heads``: one a layer, 0 where there is no attention."""
    n_layer = len(n_kv_heads)
    latent = read.number("attention.kv_lora_rank", 0)
    window = read.number("attention.sliding_window", _WINDOW.get(read.arch, 0)) or None
    slides = _slides(read, n_layer) if window else (False,) * n_layer
    windowed = read.number("attention.key_length_swa", key) + read.number("attention.value_length_swa", value)
    first = _LAYERS_WITH_CACHE.get(read.arch, n_layer)
    kept = max(0, n_layer - read.number("attention.shared_kv_layers", max(0, n_layer - first)))
    state = _state(read)
    found: Counter[tuple[int, int | None, int]] = Counter()
    for layer, heads in enumerate(n_kv_heads):
        recurrent = state and _is_recurrent(read, layer, heads)
        if recurrent and read.arch not in _BOTH:
            found[0, None, state] += 1
        elif layer < kept and heads:
            tokens = (
                latent + read.number("rope.dimension_count", 64)
                if latent
                else heads * (windowed if slides[layer] else key + value)
            )
            found[tokens, window if slides[layer] else None, state if recurrent else 0] += 1
    return tuple(CacheGroup(count, tokens, limit, fixed) for (tokens, limit, fixed), count in found.items())


def _slides(read: Keys, n_layer: int) -> tuple[bool, ...]:
    """Of each layer: a list in the header, a period there, or the architecture's own."""
    pattern = read.raw("attention.sliding_window_pattern")
    if isinstance(pattern, tuple) and pattern:
        return tuple(bool(pattern[layer % len(pattern)]) for layer in range(n_layer))
    every = pattern if type(pattern) is int and pattern > 0 else _EVERY.get(read.arch, 1)
    return tuple(layer % every < every - 1 for layer in range(n_layer))


def _is_recurrent(read: Keys, layer: int, heads: int) -> bool:
    if read.arch in ATTENTIONLESS | _BOTH or not heads:
        return True
    every = read.number("full_attention_interval", _INTERVAL.get(read.arch, 0))
    return bool(every) and (layer + 1) % every != 0


def _state(read: Keys) -> int:
    """Elements of 4 bytes that a recurrent layer keeps of a sequence: the convolution's last inputs and the state."""
    short = read.number("shortconv.l_cache", 0)
    if short:
        return read.number("embedding_length") * (short - 1)
    inner, state = read.number("ssm.inner_size", 0), read.number("ssm.state_size", 0)
    kernel = read.number("ssm.conv_kernel", 0)
    return inner * state + max(0, kernel - 1) * (inner + 2 * read.number("ssm.group_count", 0) * state)


class Keys:
    """The architecture's keys of a header; one that makes no sense is an error that names it."""

    def __init__(self, header: GgufHeader, arch: str, name: str) -> None:
        self._metadata = header.metadata
        self.arch = arch
        self._name = name

    def raw(self, key: str) -> Any:
        return self._metadata.get(f"{self.arch}.{key}")

    def number(self, key: str, default: int | None = None) -> int:
        value = self._metadata.get(f"{self.arch}.{key}", default)
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            value = max(value)  # one a layer
        if type(value) is not int or not (0 if default is not None else 1) <= value <= 10**9:
            raise damaged(self._name, "{key} is {value}", key=f"{self.arch}.{key}", value=str(value)[:40])
        return value

    def per_layer(self, key: str, n_layer: int, default: int) -> tuple[int, ...]:
        value: Any = self._metadata.get(f"{self.arch}.{key}", default)
        if n_layer > 100_000:
            raise damaged(self._name, "{layers} layers are claimed", layers=n_layer)
        if type(value) is int and 0 <= value <= 10**6:
            return (value,) * n_layer
        if (
            isinstance(value, tuple)
            and len(value) == n_layer
            and all(type(item) is int and 0 <= item <= 10**6 for item in value)
        ):
            return value
        raise damaged(self._name, "{key} is {value}", key=f"{self.arch}.{key}", value=str(value)[:40])
