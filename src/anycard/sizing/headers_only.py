"""A shape from tensor names and sizes alone, when there is no configuration or none that we understand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anycard.sizing.shape import CacheGroup, ModelShape
from anycard.sizing.weights import Tensor, parameter_count, role

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer|blk)\.(\d+)\.")


def shape_from_tensors(tensors: Sequence[Tensor], name: str) -> ModelShape:
    """Weights are exact; the cache is exact where key and value matrices can be told by name, else an honest guess (``known`` False).

    A guess takes the cache of full multi-head attention, the most that such a model could keep.
    """
    layers = {int(match[1]) for tensor in tensors if (match := _LAYER.search(tensor.name))}
    n_layer = len(layers)
    tables = [tensor for tensor in tensors if role(tensor.name) == "embedding" and len(tensor.dims) == 2]
    table = max(tables, key=lambda tensor: tensor.size_bytes, default=None)
    vocab, hidden = (max(table.dims), min(table.dims)) if table else (0, 0)
    counts = dict.fromkeys(("linear", "embedding", "head", "other"), 0)
    for tensor in tensors:
        counts[role(tensor.name)] += parameter_count((tensor,))
    keys = [
        tensor
        for tensor in tensors
        if re.search(r"(k_proj|attn_k|key)\.weight$", tensor.name) and len(tensor.dims) == 2
    ]
    values = [
        tensor
        for tensor in tensors
        if re.search(r"(v_proj|attn_v|value)\.weight$", tensor.name) and len(tensor.dims) == 2
    ]
    told = bool(keys) and len(keys) == len(values) == n_layer
    per_token = (keys[0].dims[0] + values[0].dims[0]) if told else 2 * hidden
    gates = [
        tensor
        for tensor in tensors
        if re.search(r"(gate_proj|ffn_gate|w1)\.weight$", tensor.name) and len(tensor.dims) == 2
    ]
    widths = [
        max(tensor.dims)
        for tensor in tensors
        if re.search(r"(mlp|ffn|feed_forward)", tensor.name) and len(tensor.dims) == 2
    ]
    shape = ModelShape(
        name=name,
        n_layer=n_layer,
        hidden=hidden,
        n_head=max(1, hidden // 128),
        n_kv_head=max(1, per_token // 256),
        head_dim=128,
        vocab=vocab,
        intermediate=max(widths, default=4 * hidden),
        linear_params=counts["linear"],
        embedding_params=counts["embedding"],
        head_params=counts["head"] or counts["embedding"],
        other_params=counts["other"],
        tied=not counts["head"],
        cache=(CacheGroup(n_layer, per_token),) if n_layer else (),
        gated=bool(gates),
    )
    return replace(shape, known=told)
