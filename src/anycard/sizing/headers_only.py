"""A shape from tensor names and sizes alone, when there is no configuration or none that we understand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anycard.sizing.shape import CacheGroup, ModelShape
from anycard.sizing.weights import Census, Tensor, census, role

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
    counted = census(tensors)
    counts = {name: counted.params_of(name) for name in ("linear", "embedding", "head", "other")}
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


# Not of the language model's own layers: towers, attention to images, layers that predict tokens ahead.
_BESIDE = re.compile(r"vision|visual|audio|encoder|image|cross_attn|mtp|nextn|eagle")
_KEYS, _VALUES = re.compile(r"(k_proj|attn_k)\.weight$"), re.compile(r"(v_proj|attn_v)\.weight$")
_ROUTED = re.compile(r"(?<!shared_)experts[._]")


def reconciled(shape: ModelShape, counted: Census) -> ModelShape:
    """``shape`` as its configuration says, with what the tensors say instead where they tell: weights by role, whether the head is
    stored, experts, and the cache where key and value matrices are of another number or width (``known`` False then)."""
    linear, table = counted.params_of("linear"), counted.params_of("embedding")
    if not linear or not table:
        return shape  # a part of a model
    head = counted.params_of("head")
    active = shape.active_linear_params
    routed = sum(kind.count * kind.params for kind in counted.kinds if _ROUTED.search(kind.pattern))
    if active is not None and shape.n_expert and 0 < routed <= linear:
        active = linear - routed + routed * shape.n_expert_active // shape.n_expert
    elif active is not None:
        active = active * linear // max(1, shape.linear_params)
    changed = replace(
        shape,
        linear_params=linear,
        embedding_params=table,
        head_params=head or shape.head_params,
        other_params=counted.params_of("other"),
        tied=not head,
        active_linear_params=active,
    )
    kept = _kept(counted)
    if kept is None:
        return changed
    if _agree(shape, kept):
        return replace(changed, known=True)  # whatever its name: the tensors say the same
    states = tuple(group for group in shape.cache if not group.elements_per_token)
    return replace(changed, cache=(*(CacheGroup(n, width) for n, width in kept), *states), known=False)


def _agree(shape: ModelShape, kept: list[tuple[int, int]]) -> bool:
    """Whether the cache that the configuration means is that of the matrices in ``kept``. Other attention than the usual (a latent) has
    other matrices, which are not compared."""
    usual = 2 * shape.n_kv_head * shape.head_dim
    groups = [group for group in shape.cache if group.elements_per_token]
    if not groups or any(group.elements_per_token != usual for group in groups):
        return True
    layers = sum(group.layers for group in groups)
    stored = sum(count for count, _ in kept)
    return all(width == usual for _, width in kept) and layers <= stored <= layers + shape.spare_layers


def _kept(counted: Census) -> list[tuple[int, int]] | None:
    """(layers, elements a token) by the key and value matrices of the language model; None where they cannot be told apart."""
    keys = [kind for kind in counted.kinds if _of_language(kind.pattern, _KEYS) and len(kind.dims) == 2]
    values = [kind for kind in counted.kinds if _of_language(kind.pattern, _VALUES) and len(kind.dims) == 2]
    counts = [kind.count for kind in keys]
    if not keys or counts != [kind.count for kind in values]:
        return None
    if any(kind.params != kind.dims[0] * kind.dims[1] for kind in (*keys, *values)):
        return None  # packed: the dimensions are not the matrix's
    return [(key.count, key.dims[0] + value.dims[0]) for key, value in zip(keys, values, strict=True)]


def _of_language(pattern: str, wanted: re.Pattern[str]) -> bool:
    return bool(wanted.search(pattern)) and not _BESIDE.search(pattern)
