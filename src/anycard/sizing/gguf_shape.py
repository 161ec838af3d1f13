"""A ModelShape from a GGUF header's metadata and tensors."""

from __future__ import annotations

from anycard.sizing.gguf_cache import ATTENTIONLESS, Keys, cache_groups
from anycard.sizing.gguf_header import GgufHeader, LongArray
from anycard.sizing.quantization import Scheme
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import Weights, role, weights_from_tensors


def shape_from_gguf(header: GgufHeader, name: str) -> ModelShape:
    """Raises HeaderError if a needed key is missing or absurd. Parameters are counted from the tensors."""
    arch = header.architecture
    read = Keys(header, arch, name)
    hidden = read.number("embedding_length")
    n_layer = read.number("block_count")
    n_head = 1 if arch in ATTENTIONLESS else read.number("attention.head_count")
    n_kv_heads = read.per_layer("attention.head_count_kv", n_layer, n_head)
    key = read.number("attention.key_length", hidden // n_head)
    value = read.number("attention.value_length", key)
    counts = {"linear": 0, "embedding": 0, "head": 0, "other": 0}
    gated, table = False, 0
    for tensor in header.tensors:
        counts[role(tensor.name)] += tensor.elements
        table = tensor.elements if tensor.name == "token_embd.weight" else table
        gated = gated or "ffn_gate" in tensor.name
    vocab = table // hidden or _vocabulary(header)
    expert_count = read.number("expert_count", 0)
    expert_used = read.number("expert_used_count", 0)
    experts = sum(tensor.elements for tensor in header.tensors if "_exps" in tensor.name)
    active = counts["linear"] - experts + experts * expert_used // expert_count if expert_count else None
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
        head_params=counts["head"] or table,
        other_params=counts["other"],
        tied=not counts["head"],
        cache=cache_groups(read, n_kv_heads, key, value),
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


def _vocabulary(header: GgufHeader) -> int:
    tokens = header.metadata.get("tokenizer.ggml.tokens", ())
    return tokens.length if isinstance(tokens, LongArray) else len(tokens) if isinstance(tokens, tuple) else 0
