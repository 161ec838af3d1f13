"""Weights and lasting state of one layer's mixer. Sources: the families' modelling files in huggingface/transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anycard.sizing.fields import Fields
from anycard.sizing.layers import Mixer


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention as most layers have it."""

    hidden: int
    n_head: int
    n_kv_head: int
    head_dim: int


def mixer_params(mixer: Mixer, read: Fields, heads: Heads) -> int:
    """Matrices of one layer's mixer."""
    if mixer in (Mixer.FULL, Mixer.SLIDING, Mixer.CROSS):
        return _attention(read, heads)
    if mixer is Mixer.SHARED:
        return 2 * heads.hidden * heads.n_head * heads.head_dim
    if mixer is Mixer.BOTH:
        if shares_blocks(
            read
        ):  # its attention and MLP are counted once for all layers; a matrix and adapters are its own
            adapted = read.number("adapter_rank", default=0) * (
                heads.hidden + 2 * read.number("intermediate_size", default=0)
            )
            return _mamba2(read, heads.hidden) + heads.hidden**2 + adapted
        return _attention(read, heads) + _mamba2(read, heads.hidden)
    if mixer is Mixer.MAMBA:
        return _mamba(read, heads.hidden)
    if mixer is Mixer.MAMBA2:
        return _mamba2(read, heads.hidden)
    if mixer is Mixer.DELTA:
        return _delta(read, heads)
    if mixer is Mixer.LIGHTNING:  # queries, keys, values, an output gate, the output
        return 5 * heads.hidden * heads.n_head * heads.head_dim
    if mixer is Mixer.RECURRENT:
        width = read.number("lru_width", default=heads.hidden)
        return 3 * heads.hidden * width + 2 * width * max(1, width // heads.n_head)
    if mixer is Mixer.CONV:
        return 4 * heads.hidden * heads.hidden
    if mixer is Mixer.RWKV:
        return _rwkv(read, heads.hidden)
    return 0


def mixer_state(mixer: Mixer, read: Fields, heads: Heads) -> int:
    """Elements that one sequence keeps whatever its length; 0 for attention."""
    if mixer is Mixer.MAMBA:
        inner, state, _ = _mamba_sizes(read, heads.hidden)
        return inner * (state + read.number("mamba_d_conv", "conv_kernel", default=4))
    if mixer in (Mixer.MAMBA2, Mixer.BOTH):
        inner, state, groups = _mamba2_sizes(read, heads.hidden)
        return inner * state + (inner + 2 * groups * state) * read.number("mamba_d_conv", "conv_kernel", default=4)
    if mixer is Mixer.DELTA:
        keys, values, kept, kernel = _delta_sizes(read, heads)
        return kept + (2 * keys + values) * kernel
    if mixer is Mixer.LIGHTNING:
        return heads.n_head * heads.head_dim**2
    if mixer is Mixer.RECURRENT:
        return read.number("lru_width", default=heads.hidden) * (1 + read.number("conv1d_width", default=4))
    if mixer is Mixer.CONV:
        return heads.hidden * read.number("conv_L_cache", default=3)
    if mixer is Mixer.RWKV:  # a matrix a head, and the last token's input to each half
        size = read.number("head_dim", "head_size", default=0)
        return heads.hidden * (size or (5 if read.values.get("model_type") == "rwkv" else 64)) + 2 * heads.hidden
    return 0


def shares_blocks(read: Fields) -> bool:
    """Zamba 2: a few transformer blocks over twice the width, taken in turn by many layers."""
    return read.values.get("model_type") == "zamba2"


def shared_blocks_params(read: Fields, hidden: int, intermediate: int) -> int:
    """Weights of the blocks that several layers share; 0 where each layer has its own."""
    if not shares_blocks(read):
        return 0
    wide = read.number("attention_hidden_size", default=2 * hidden)
    attention = wide * (3 * wide + hidden)
    return read.number("num_mem_blocks", default=1) * (attention + 3 * hidden * intermediate)


def indexer_layers(read: Fields, attention_layers: int) -> int:
    """Layers whose sparse attention (DeepSeek V3.2, GLM 5) ranks tokens by keys of its own, which it caches; 0 for other models."""
    if not read.number("index_head_dim", default=0):
        return 0
    kinds = read.values.get("indexer_types")
    return min(kinds.count("full"), attention_layers) if isinstance(kinds, list) else attention_layers


def indexer_params(read: Fields, hidden: int) -> int:
    """Its queries from the low-rank ones, one key, and a weight a head."""
    n_head, size = read.number("index_n_heads", default=0), read.number("index_head_dim", default=0)
    return (read.number("q_lora_rank", default=0) or hidden) * n_head * size + hidden * (size + n_head)


def _rwkv(read: Fields, hidden: int) -> int:
    """Time mixing; low ranks in version 7, the gate of the channel mixing before it (fla and RWKV's own modelling files)."""
    version = str(read.values.get("model_type"))
    if version == "rwkv7":
        ranks = sum(
            read.number(*names, default=default)
            for names, default in (
                (("decay_low_rank_dim", "decay_lora_rank"), 64),
                (("a_low_rank_dim", "in_context_learning_lora_rank"), 64),
                (("v_low_rank_dim", "value_lora_rank"), 32),
                (("gate_low_rank_dim", "gate_lora_rank"), 128),
            )
        )
        return 4 * hidden * hidden + 2 * hidden * ranks
    ranks = (5 * 32 + 64) * (2 if hidden >= 4096 else 1) if version == "rwkv6" else 0  # five mixes and the decay
    return (5 if version == "rwkv" else 6) * hidden * hidden + 2 * hidden * ranks


def _attention(read: Fields, heads: Heads) -> int:
    latent = read.number("kv_lora_rank", default=0)
    if latent:
        return _latent(read, heads.hidden, heads.n_head, latent)
    gate = 1 if read.values.get("attn_output_gate") or read.values.get("model_type") == "qwen3_next" else 0
    return heads.hidden * heads.head_dim * ((2 + gate) * heads.n_head + 2 * heads.n_kv_head)


def _latent(read: Fields, hidden: int, n_head: int, latent: int) -> int:
    """Multi-head latent attention (DeepSeek V2, V3): down and up projections of queries, keys and values."""
    rotary = read.number("qk_rope_head_dim", default=64)
    plain = read.number("qk_nope_head_dim", default=128)
    value = read.number("v_head_dim", default=128)
    query_rank = read.number("q_lora_rank", default=0)
    query = n_head * (plain + rotary)
    queries = hidden * query_rank + query_rank * query if query_rank else hidden * query
    return queries + hidden * (latent + rotary) + latent * n_head * (plain + value) + n_head * value * hidden


def _mamba_sizes(read: Fields, hidden: int) -> tuple[int, int, int]:
    """(inner width, state, rank of the time step)."""
    pure = read.values.get("model_type") in ("mamba", "falcon_mamba")
    expanded = hidden * read.number("mamba_expand", "expand", default=2)
    inner = read.number("intermediate_size", default=expanded) if pure else expanded
    rank = read.values.get("mamba_dt_rank", read.values.get("time_step_rank"))
    rank = rank if type(rank) is int and 0 < rank <= hidden else -(-hidden // 16)
    return inner, read.number("mamba_d_state", "ssm_state_size", "state_size", default=16), rank


def _mamba(read: Fields, hidden: int) -> int:
    inner, state, rank = _mamba_sizes(read, hidden)
    kernel = read.number("mamba_d_conv", "conv_kernel", default=4)
    return hidden * 3 * inner + inner * (kernel + 3 + rank + 2 * state + rank + state)


def _mamba2_sizes(read: Fields, hidden: int) -> tuple[int, int, int]:
    """(inner width, state, groups)."""
    n_head = read.number("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads", default=0)
    width = read.number("mamba_d_head", "mamba_head_dim", "mamba_headdim", default=0)
    if not width and read.values.get("model_type") == "mamba2":
        width = read.number("head_dim", default=64)
    if shares_blocks(read):  # what it calls n_mamba_heads is no number of heads of its layers
        n_head = 0
    inner = n_head * width or hidden * read.number("mamba_expand", "expand", default=2)
    inner = read.number("mamba_d_ssm", default=0) or inner
    state = read.number("mamba_d_state", "ssm_state_size", "state_size", default=128)
    return inner, state, read.number("mamba_n_groups", "mamba_ngroups", "n_groups", default=1)


def _mamba2(read: Fields, hidden: int) -> int:
    inner, state, groups = _mamba2_sizes(read, hidden)
    n_head = read.number("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads", default=inner // 64)
    mixed = inner + 2 * groups * state
    kernel = read.number("mamba_d_conv", "conv_kernel", default=4)
    return hidden * (inner + mixed + n_head) + mixed * (kernel + 1) + 3 * n_head + inner + inner * hidden


def _delta_sizes(read: Fields, heads: Heads) -> tuple[int, int, int, int]:
    """(width of keys, of values, elements of the state, kernel of the convolution)."""
    kimi = read.values.get("linear_attn_config")
    if isinstance(kimi, Mapping):
        own = Fields(kimi, "linear_attn_config")
        n_head, size = own.number("num_heads", default=heads.n_head), own.number("head_dim", default=128)
        return n_head * size, n_head * size, n_head * size * size, own.number("short_conv_kernel_size", default=4)
    n_key = read.number("linear_num_key_heads", default=0)
    n_value = read.number("linear_num_value_heads", default=0) or heads.n_head
    key_size = read.number("linear_key_head_dim", default=128)
    value_size = read.number("linear_value_head_dim", default=128)
    kernel = read.number("linear_conv_kernel_dim", default=0)
    return (n_key or n_value) * key_size, n_value * value_size, n_value * key_size * value_size, kernel


def _delta(read: Fields, heads: Heads) -> int:
    keys, values, _, kernel = _delta_sizes(read, heads)
    if isinstance(read.values.get("linear_attn_config"), Mapping):
        size = values // heads.n_head  # decay and gate pass through a head's width each
        low_rank = 2 * (heads.hidden * size + size * values)
        return heads.hidden * (2 * keys + 2 * values + heads.n_head) + low_rank + (2 * keys + values) * kernel
    gates = 2 * read.number("linear_num_value_heads", default=heads.n_head)
    return heads.hidden * (2 * keys + 3 * values + gates) + (2 * keys + values) * kernel
