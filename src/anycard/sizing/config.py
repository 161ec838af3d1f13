"""A Hugging Face ``config.json`` as a ModelShape. Fields differ by family; what is missing is said, never guessed in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.errors import UsageError
from anycard.sizing.quantization import Scheme, scheme
from anycard.sizing.shape import CacheGroup, ModelShape, block_params

# Families whose MLP has two matrices; every other one of today is gated with three.
_TWO_MATRICES = frozenset(
    (
        "falcon",
        "RefinedWebModel",
        "RefinedWeb",
        "gpt_neox",
        "gpt2",
        "gptj",
        "gpt_bigcode",
        "gpt_neo",
        "bloom",
        "opt",
        "mpt",
    )
) | frozenset(("phi", "starcoder2", "codegen", "nemotron", "bert", "roberta", "whisper", "persimmon", "xglm", "biogpt"))
_PARALLEL = frozenset(("falcon", "RefinedWebModel", "gpt_neox", "gptj", "cohere", "cohere2", "phi"))
# Families whose configuration class ties head and embedding unless told otherwise.
_TIED = frozenset(("gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "gpt_bigcode", "bloom", "falcon")) | frozenset(
    ("RefinedWebModel", "opt", "mpt", "cohere", "cohere2", "starcoder2")
)
_FOUR_NORMS = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3", "glm4"))
_SIZE_MAX = 10**9  # no dimension of a model comes near it


class ConfigError(UsageError):
    """A model's configuration lacks what decides memory, or contradicts itself."""

    code = "bad-model-config"


def shape_from_config(config: Mapping[str, Any], name: str = "model") -> ModelShape:
    """Raises ConfigError if a needed field is missing, not a number, or contradicts another."""
    text = config.get("text_config") or config.get("llm_config") or config.get("language_config")
    inner: Mapping[str, Any] = text if isinstance(text, Mapping) else config
    read = _Fields(inner, name)
    family = str(inner.get("model_type") or config.get("model_type") or "")
    hidden = read.number("hidden_size", "n_embd", "d_model", "dim")
    n_layer = read.number("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    n_head = read.number("num_attention_heads", "n_head", "num_heads", "n_heads")
    n_kv_head = _kv_heads(read, inner, family, n_head)
    head_dim = read.number("head_dim", "attention_head_dim", default=0)
    if not head_dim:
        if hidden % n_head:
            raise ConfigError(
                "{name}: {hidden} hidden values do not divide among {heads} heads, and there is no head_dim",
                hint="the config.json contradicts itself",
                name=name,
                hidden=hidden,
                heads=n_head,
            )
        head_dim = hidden // n_head
    if n_kv_head > n_head or n_head % n_kv_head:
        raise ConfigError(
            "{name}: {heads} attention heads cannot share {kv} key-value heads", name=name, heads=n_head, kv=n_kv_head
        )
    vocab = read.number("vocab_size", "padded_vocab_size", "n_vocab")
    gated = family not in _TWO_MATRICES
    intermediate = _intermediate(read, inner, family, hidden, n_layer)
    linear, active, other = _blocks(read, inner, n_layer, hidden, n_head, n_kv_head, head_dim, intermediate, gated)
    tie = inner.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    tied = tie if isinstance(tie, bool) else family in _TIED
    return ModelShape(
        name=name,
        n_layer=n_layer,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_kv_head,
        head_dim=head_dim,
        vocab=vocab,
        intermediate=intermediate,
        linear_params=linear,
        embedding_params=vocab * hidden,
        head_params=vocab * hidden,
        other_params=other + _vision_params(config),
        tied=tied,
        cache=_cache(read, inner, family, n_layer, n_kv_head, head_dim),
        gated=gated,
        parallel_block=family in _PARALLEL,
        norms_per_layer=4 if family in _FOUR_NORMS else 2,
        eager_attention=bool(inner.get("attn_logit_softcapping")),
        n_expert=read.number(*_EXPERTS, default=0),
        n_expert_active=read.number(*_ACTIVE, default=0),
        active_linear_params=active,
        max_context=read.number(
            "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length", default=0
        )
        or None,
        known=bool(family),
    )


def scheme_from_config(config: Mapping[str, Any], default: str = "bf16") -> Scheme:
    """The weight format that ``quantization_config`` (or ``torch_dtype``) declares."""
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        method = str(quantization.get("quant_method", "")).lower()
        bits = quantization.get("bits", quantization.get("w_bit", 4))
        if method == "fp8" or "fp8" in str(quantization.get("fmt", "")).lower():
            return scheme("fp8")
        if method == "mxfp4":
            return scheme("mxfp4")
        if method == "bitsandbytes":
            if quantization.get("load_in_8bit"):
                return scheme("int8")
            return scheme("nf4-dq" if quantization.get("bnb_4bit_use_double_quant") else "nf4")
        if method in ("gptq", "awq", "compressed-tensors", "auto-round"):
            return scheme("gptq-int8" if bits == 8 else "awq-int4" if method == "awq" else "gptq-int4")
    text = config.get("text_config")
    dtype = (
        config.get("torch_dtype")
        or config.get("dtype")
        or (text.get("torch_dtype") if isinstance(text, Mapping) else None)
    )
    try:
        return scheme(str(dtype or default))
    except KeyError:
        return scheme(default)


_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "experts_per_token")


class _Fields:
    """Whole numbers by any of several names; a wrong one is an error that names the field."""

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self._values = values
        self._name = name

    def number(self, *keys: str, default: int | None = None) -> int:
        for key in keys:
            value = self._values.get(key)
            if value is None:
                continue
            if isinstance(value, list) and value and all(type(item) is int for item in value):
                value = max(value)
            whole = type(value) is int or (type(value) is float and value.is_integer())
            if not whole:
                raise self._wrong(key, value)
            if not (0 if default is not None else 1) <= value <= _SIZE_MAX:
                raise self._wrong(key, value)
            return int(value)
        if default is None:
            raise ConfigError(
                "{name}: the configuration has no {field}",
                hint="give the model's folder with its config.json, or a GGUF file",
                name=self._name,
                field=keys[0],
            )
        return default

    def _wrong(self, key: str, value: object) -> ConfigError:
        return ConfigError(
            "{name}: {field} is {value}, which makes no sense", name=self._name, field=key, value=str(value)[:60]
        )


def _kv_heads(read: _Fields, config: Mapping[str, Any], family: str, n_head: int) -> int:
    found = read.number("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", default=0)
    if family in ("falcon", "RefinedWebModel", "RefinedWeb"):
        if config.get("new_decoder_architecture"):
            return found or n_head
        return 1 if config.get("multi_query", True) else n_head
    if config.get("multi_query") is True and not found:
        return 1
    return found or n_head


def _intermediate(read: _Fields, config: Mapping[str, Any], family: str, hidden: int, n_layer: int) -> int:
    size = read.number("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_dim", default=0)
    if family == "qwen":  # the first Qwen states the two halves of its gated MLP together
        return size // 2
    if size:
        return size
    if family in _TWO_MATRICES:
        return 4 * hidden
    return read.number("moe_intermediate_size", "intermediate_size")


def _blocks(
    read: _Fields,
    config: Mapping[str, Any],
    n_layer: int,
    hidden: int,
    n_head: int,
    n_kv_head: int,
    head_dim: int,
    intermediate: int,
    gated: bool,
) -> tuple[int, int | None, int]:
    """(matrices, those that one token uses or None, norms and routers) of all blocks."""
    attention, dense_mlp, _ = block_params(
        hidden=hidden, n_head=n_head, n_kv_head=n_kv_head, head_dim=head_dim, intermediate=intermediate, gated=gated
    )
    latent = read.number("kv_lora_rank", default=0)
    if latent:
        attention = _mla_params(read, hidden, n_head, latent)
    norms = n_layer * 2 * hidden + hidden
    experts = read.number(*_EXPERTS, default=0)
    if experts <= 1:
        return n_layer * (attention + dense_mlp), None, norms
    used = read.number(*_ACTIVE, default=2)
    if used > experts:
        raise ConfigError("{used} of {experts} experts a token is not possible", used=used, experts=experts)
    width = read.number("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    shared = read.number("shared_expert_intermediate_size", default=0) or width * read.number(
        "n_shared_experts", default=0
    )
    dense = read.number("first_k_dense_replace", default=0)
    step = max(1, read.number("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", default=1))
    sparse = sum(1 for layer in range(dense, n_layer) if (layer + 1) % step == 0)
    matrices = 3 if gated else 2
    one = matrices * hidden * width
    beside = matrices * hidden * shared
    linear = n_layer * attention + sparse * (experts * one + beside) + (n_layer - sparse) * dense_mlp
    active = n_layer * attention + sparse * (used * one + beside) + (n_layer - sparse) * dense_mlp
    return linear, active, norms + sparse * hidden * experts


def _mla_params(read: _Fields, hidden: int, n_head: int, latent: int) -> int:
    """Multi-head latent attention (DeepSeek V2, V3): down and up projections of queries, keys and values."""
    rotary = read.number("qk_rope_head_dim", default=64)
    plain = read.number("qk_nope_head_dim", default=128)
    value = read.number("v_head_dim", default=128)
    query_rank = read.number("q_lora_rank", default=0)
    query = n_head * (plain + rotary)
    queries = hidden * query_rank + query_rank * query if query_rank else hidden * query
    return queries + hidden * (latent + rotary) + latent * n_head * (plain + value) + n_head * value * hidden


def _cache(
    read: _Fields, config: Mapping[str, Any], family: str, n_layer: int, n_kv_head: int, head_dim: int
) -> tuple[CacheGroup, ...]:
    latent = read.number("kv_lora_rank", default=0)
    per_token = latent + read.number("qk_rope_head_dim", default=64) if latent else 2 * n_kv_head * head_dim
    window = read.number("sliding_window", "attention_window_size", default=0) or None
    kinds = config.get("layer_types") or config.get("layers_block_type") or config.get("hybrid_layer_types")
    if isinstance(kinds, list) and len(kinds) == n_layer:
        return _cache_by_kind([str(kind) for kind in kinds], read, per_token, window)
    if window is None or config.get("use_sliding_window") is False:
        return (CacheGroup(n_layer, per_token),)
    full = _full_layers(read, config, family, n_layer)
    groups = (CacheGroup(full, per_token), CacheGroup(n_layer - full, per_token, window))
    return tuple(group for group in groups if group.layers)


def _full_layers(read: _Fields, config: Mapping[str, Any], family: str, n_layer: int) -> int:
    """Layers that see the whole context in a model that slides in the rest."""
    pattern = read.number("sliding_window_pattern", "_sliding_window_pattern", default=0)
    if not pattern:
        pattern = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}.get(family, 0)
    if pattern:
        return n_layer // pattern
    if family in ("qwen2", "qwen2_moe", "qwen3"):
        return min(n_layer, read.number("max_window_layers", default=n_layer))
    return 0  # Mistral 7B v0.1, Phi-3: every layer slides


def _cache_by_kind(kinds: list[str], read: _Fields, per_token: int, window: int | None) -> tuple[CacheGroup, ...]:
    sliding = sum("sliding" in kind or "chunked" in kind or kind == "local_attention" for kind in kinds)
    full = sum(kind in ("full_attention", "attention", "global_attention", "hybrid") for kind in kinds)
    rest = len(kinds) - sliding - full
    state = 0
    if rest:
        heads = read.number("linear_num_value_heads", "mamba_num_heads", "mamba_n_heads", default=0)
        keys = read.number("linear_key_head_dim", "ssm_state_size", "mamba_d_state", default=128)
        values = read.number("linear_value_head_dim", "mamba_head_dim", "mamba_d_head", default=128)
        state = (
            heads * keys * values
            if heads
            else keys * read.number("mamba_expand", default=2) * read.number("hidden_size")
        )
    groups = (
        CacheGroup(full, per_token),
        CacheGroup(sliding, per_token, window),
        CacheGroup(rest, 0, None, state),
    )
    return tuple(group for group in groups if group.layers)


def _vision_params(config: Mapping[str, Any]) -> int:
    """A vision tower from its sizes: 12 h^2 a layer for a ViT; 0 if there is none or it does not say."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0
    hidden = vision.get("hidden_size") or vision.get("embed_dim")
    layers = vision.get("num_hidden_layers") or vision.get("depth")
    if type(hidden) is not int or type(layers) is not int or not 0 < hidden < _SIZE_MAX or not 0 < layers < 10_000:
        return 0
    inner = vision.get("intermediate_size")
    mlp = 2 * hidden * (inner if type(inner) is int and 0 < inner < _SIZE_MAX else 4 * hidden)
    return layers * (4 * hidden * hidden + mlp)
