"""Weights of the layers' MLPs, dense or of experts, and which of them a token passes through."""

from __future__ import annotations

from dataclasses import dataclass

from anycard.sizing.fields import ConfigError, Fields
from anycard.sizing.layers import STATE_SPACE_ONLY, Mixer
from anycard.sizing.mixing import shares_blocks

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
ACTIVE = (
    "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k", "experts_per_token", "num_selected_experts",
)  # fmt: skip
_SHARED = ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert")


@dataclass(frozen=True, slots=True)
class Mlps:
    """All layers together. ``active``: None where every weight is used by every token."""

    params: int
    active: int | None
    routers: int


def mlps(read: Fields, family: str, hidden: int, intermediate: int, kinds: tuple[Mixer, ...], *, gated: bool) -> Mlps:
    """Raises ConfigError if more experts are used than there are."""
    if family in STATE_SPACE_ONLY or shares_blocks(read):
        return Mlps(0, None, 0)
    matrices = 3 if gated else 2
    pattern = read.values.get("hybrid_override_pattern")
    alone = Mixer.NONE in kinds and isinstance(pattern, str) and len(pattern) == len(kinds)
    places = [layer for layer, kind in enumerate(kinds) if not alone or kind is Mixer.NONE]
    experts = read.number(*EXPERTS, default=0)
    dense_width = read.number("intermediate_size_mlp", default=0) or intermediate
    if experts <= 1:
        shared = read.number("shared_intermediate_size", default=0)  # Granite 4 calls its only MLP so
        return Mlps(len(places) * matrices * hidden * (shared or dense_width), None, 0)
    used = read.number(*ACTIVE, default=2)
    if used > experts:
        raise ConfigError("{used} of {experts} experts a token is not possible", used=used, experts=experts)
    width = read.number(
        "moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", "ffn_hidden_size"
    )  # fmt: skip
    one = matrices * hidden * width
    beside = matrices * hidden * _shared_width(read, family, width, hidden)
    if alone and isinstance(pattern, str):
        sparse = [layer for layer in places if pattern[layer] == "E"]
    else:
        sparse = [layer for layer in places if _is_sparse(read, layer)]
    dense = (len(places) - len(sparse)) * matrices * hidden * dense_width
    return Mlps(
        dense + len(sparse) * (experts * one + beside),
        dense + len(sparse) * (used * one + beside),
        len(sparse) * hidden * experts,
    )


def _shared_width(read: Fields, family: str, width: int, hidden: int) -> int:
    """What every token passes through beside its experts."""
    told = read.number("shared_expert_intermediate_size", "shared_intermediate_size", default=0)
    if told:
        return told
    if read.values.get("parallel_attn_mlp_res"):  # Arctic: a dense MLP as wide as the model
        return hidden
    wide = read.number("moe_shared_expert_intermediate_size", default=0) or width
    return wide * read.number(*_SHARED, default=1 if family in ("llama4", "llama4_text") else 0)


def _is_sparse(read: Fields, layer: int) -> bool:
    """Families count differently from which layer on, and every how many, there are experts."""
    told = read.values.get("mlp_layer_types")
    if isinstance(told, list) and layer < len(told):  # GLM 4.7 Flash, GLM 5
        return str(told[layer]) == "sparse"
    dense = read.values.get("mlp_only_layers")
    if isinstance(dense, list) and layer in dense:
        return False
    period = read.number("expert_layer_period", default=0)
    if period:  # Jamba
        return layer % period == read.number("expert_layer_offset", default=0)
    per_layer = read.values.get("moe_layer_freq")
    if isinstance(per_layer, list):
        return layer < len(per_layer) and bool(per_layer[layer])
    first = read.number("first_k_dense_replace", "moe_layer_start_index", default=0)
    last = read.number("moe_layer_end_index", default=10**9)
    step = max(1, read.number("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", default=1))
    return first <= layer <= last and (layer + 1) % step == 0
