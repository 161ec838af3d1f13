"""A ModelShape from a GGUF header's metadata and tensors."""

from __future__ import annotations

from typing import Any

from anycard.sizing.gguf_header import GgufHeader, LongArray
from anycard.sizing.quantization import Scheme
from anycard.sizing.shape import CacheGroup, ModelShape
from anycard.sizing.source import damaged
from anycard.sizing.weights import Weights, role, weights_from_tensors


def shape_from_gguf(header: GgufHeader, name: str) -> ModelShape:
    """Raises HeaderError if a needed key is missing or absurd. Parameters are counted from the tensors."""
    arch = header.architecture
    read = _Keys(header, arch, name)
    hidden = read.number("embedding_length")
    n_layer = read.number("block_count")
    n_head = read.number("attention.head_count")
    n_kv_heads = read.per_layer("attention.head_count_kv", n_layer, n_head)
    key = read.number("attention.key_length", hidden // n_head)
    value = read.number("attention.value_length", key)
    latent = read.number("attention.kv_lora_rank", 0)
    counts = {"linear": 0, "embedding": 0, "head": 0, "other": 0}
    gated = False
    for tensor in header.tensors:
        counts[role(tensor.name)] += tensor.elements
        gated = gated or "ffn_gate" in tensor.name
    vocab = counts["embedding"] // hidden or _vocabulary(header)
    expert_count = read.number("expert_count", 0)
    expert_used = read.number("expert_used_count", 0)
    experts = sum(tensor.elements for tensor in header.tensors if "_exps" in tensor.name)
    active = counts["linear"] - experts + experts * expert_used // expert_count if expert_count else None
    window = read.number("attention.sliding_window", 0) or None
    return ModelShape(
        name=name,
        n_layer=n_layer,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=max(n_kv_heads) or n_head,
        head_dim=key,
        vocab=vocab,
        intermediate=read.number("feed_forward_length", read.number("expert_feed_forward_length", 4 * hidden)),
        linear_params=counts["linear"],
        embedding_params=counts["embedding"],
        head_params=counts["head"] or counts["embedding"],
        other_params=counts["other"],
        tied=not counts["head"],
        cache=_cache(arch, n_kv_heads, key, value, latent, read.number("rope.dimension_count", 64), window),
        gated=gated,
        parallel_block=arch in ("falcon", "gptneox", "stablelm", "command-r", "cohere2", "phi2"),
        n_expert=expert_count,
        n_expert_active=expert_used,
        active_linear_params=active,
        max_context=read.number("context_length", 0) or None,
    )


def weights_from_gguf(header: GgufHeader) -> Weights:
    """Exact bytes of every tensor; the scheme is the average over the file."""
    elements = sum(tensor.elements for tensor in header.tensors)
    size = sum(tensor.size_bytes for tensor in header.tensors)
    average = size / elements if elements else 2.0
    return weights_from_tensors(header.tensors, Scheme("gguf", average, average, file_format="gguf"))


def _cache(
    arch: str, n_kv_heads: tuple[int, ...], key: int, value: int, latent: int, rotary: int, window: int | None
) -> tuple[CacheGroup, ...]:
    if latent:
        return (CacheGroup(len(n_kv_heads), latent + rotary),)
    pattern = {"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt-oss": 2, "llama4": 4}.get(arch, 1 if window else 0)
    groups: dict[tuple[int, int | None], int] = {}
    for layer, heads in enumerate(n_kv_heads):
        slides = window is not None and (pattern == 1 or (layer + 1) % pattern != 0)
        place = (heads * (key + value), window if slides else None)
        groups[place] = groups.get(place, 0) + 1
    return tuple(CacheGroup(count, elements, limit) for (elements, limit), count in groups.items())


def _vocabulary(header: GgufHeader) -> int:
    tokens = header.metadata.get("tokenizer.ggml.tokens", ())
    return tokens.length if isinstance(tokens, LongArray) else len(tokens) if isinstance(tokens, tuple) else 0


class _Keys:
    def __init__(self, header: GgufHeader, arch: str, name: str) -> None:
        self._metadata = header.metadata
        self._arch = arch
        self._name = name

    def number(self, key: str, default: int | None = None) -> int:
        value = self._metadata.get(f"{self._arch}.{key}", default)
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            value = max(value)
        if type(value) is not int or not (0 if default is not None else 1) <= value <= 10**9:
            raise damaged(self._name, "{key} is {value}", key=f"{self._arch}.{key}", value=str(value)[:40])
        return value

    def per_layer(self, key: str, n_layer: int, default: int) -> tuple[int, ...]:
        value: Any = self._metadata.get(f"{self._arch}.{key}", default)
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
        raise damaged(self._name, "{key} is {value}", key=f"{self._arch}.{key}", value=str(value)[:40])
