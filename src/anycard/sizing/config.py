"""A Hugging Face ``config.json`` as a ModelShape. Fields differ by family; what is missing is said, never guessed in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anycard.sizing.architectures import KNOWN
from anycard.sizing.encoder_decoder import encoder_decoder_shape, is_encoder_decoder
from anycard.sizing.fields import LAYERS_MAX, ConfigError, Fields
from anycard.sizing.layers import RWKV, STATE_SPACE_ONLY, Mixer, mixers
from anycard.sizing.mixing import Heads, indexer_layers, indexer_params, mixer_params, mixer_state, shared_blocks_params
from anycard.sizing.mlps import ACTIVE, EXPERTS, mlps
from anycard.sizing.shape import CacheGroup, ModelShape
from anycard.sizing.vision import vision_params

__all__ = ["ConfigError", "shape_from_config"]

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
) | frozenset(
    (
        "phi",
        "starcoder2",
        "codegen",
        "nemotron",
        "nemotron_h",
        "arcee",
        "bert",
        "roberta",
        "whisper",
        "persimmon",
        "xglm",
        "biogpt",
        "clip_text_model",
        "siglip_text_model",
        "distilbert",
        "xlm-roberta",
    )
)
_PARALLEL = frozenset(("falcon", "RefinedWebModel", "gpt_neox", "gptj", "cohere", "cohere2", "phi"))
# Families whose configuration class ties head and embedding unless told otherwise.
_TIED = (
    frozenset(("gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "gpt_bigcode", "bloom", "falcon"))
    | frozenset(
        (
            "RefinedWebModel",
            "opt",
            "mpt",
            "cohere",
            "cohere2",
            "starcoder2",
            "recurrent_gemma",
            "mamba",
            "falcon_mamba",
            "lfm2",
            "bert",
            "clip_text_model",
            "siglip_text_model",
            "distilbert",
            "xlm-roberta",
        )
    )
    | frozenset(("roberta", "t5", "bart", "marian", "whisper", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text"))
)
_ENCODERS = frozenset(
    ("bert", "roberta", "xlm-roberta", "modernbert", "distilbert", "clip_text_model", "siglip_text_model")
)  # they keep no cache
# What the configuration class takes where a multimodal model's text_config leaves a field out, as the published ones of Gemma 3 and
# LLaVA do. Source: huggingface/transformers, src/transformers/models/*/configuration_*.py.
_LLAMA = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
_CLASS_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8},
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208},
}
_FOUR_NORMS = frozenset(("gemma2", "gemma3", "gemma3_text", "olmo2", "olmo3", "glm4"))


def shape_from_config(config: Mapping[str, Any], name: str = "model") -> ModelShape:
    """Raises ConfigError if a needed field is missing, not a number, or contradicts another."""
    inner = _language_model(config)
    family = str(inner.get("model_type") or config.get("model_type") or "")
    read = Fields(_flat(inner), name, None if inner is config else _CLASS_DEFAULTS.get(family))
    if "_class_name" in config and "model_type" not in config:
        raise ConfigError(
            "{name}: {part} is a part of an image model, sized by its weights' headers alone",
            hint="give the folder with model_index.json, with its weights",
            name=name,
            part=str(config["_class_name"])[:60],
        )
    if is_encoder_decoder(read):
        return encoder_decoder_shape(read, name, tied=_tied(inner, config, family))
    hidden = read.number("hidden_size", "n_embd", "d_model", "dim")
    n_layer = read.number("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if n_layer > LAYERS_MAX:
        raise ConfigError(
            "{name}: {field} is {value}, which makes no sense", name=name, field="num_hidden_layers", value=n_layer
        )
    n_head = read.number("num_attention_heads", "n_head", "num_heads", "n_heads", default=_no_heads(family))
    n_kv_head = _kv_heads(read, family, n_head)
    head_dim = read.number("head_dim", "attention_head_dim", "head_size", default=0)
    if not head_dim and read.number("kv_lora_rank", default=0):  # heads of their own width beside a latent
        head_dim = read.number("qk_nope_head_dim", default=128) + read.number("qk_rope_head_dim", default=64)
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
    gated = family not in _TWO_MATRICES and family not in RWKV
    intermediate = _intermediate(read, family, hidden)
    heads = Heads(hidden, n_head, n_kv_head, head_dim)
    kinds = mixers(read, family, n_layer)
    mixing = (
        shared_blocks_params(read, hidden, intermediate)
        + indexer_params(read, hidden) * indexer_layers(read, kinds.count(Mixer.FULL))
        + sum(mixer_params(kind, read, _heads_of(kind, read, heads)) * count for kind, count in Counter(kinds).items())
    )
    fed = mlps(read, family, hidden, intermediate, kinds, gated=gated)
    tables = n_layer * read.number("vocab_size_per_layer_input", default=0)  # Gemma 3n: an embedding a layer
    table_width = read.number("hidden_size_per_layer_input", default=0)
    return ModelShape(
        name=name,
        n_layer=n_layer,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_kv_head,
        head_dim=head_dim,
        vocab=vocab,
        intermediate=intermediate,
        linear_params=mixing
        + fed.params
        + 3 * hidden * n_layer * table_width,  # gate, projection, projection of the model
        embedding_params=vocab * hidden + tables * table_width,
        head_params=vocab * hidden,
        other_params=n_layer * 2 * hidden + hidden + fed.routers + vision_params(config, hidden),
        tied=_tied(inner, config, family),
        cache=_cache(read, kinds, heads) if family not in _ENCODERS else (),
        gated=gated,
        parallel_block=family in _PARALLEL,
        norms_per_layer=4 if family in _FOUR_NORMS else 2,
        eager_attention=bool(inner.get("attn_logit_softcapping")),
        n_expert=read.number(*EXPERTS, default=0),
        n_expert_active=read.number(*ACTIVE, default=0),
        active_linear_params=None if fed.active is None else mixing + fed.active,
        max_context=read.number(
            "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length", default=0
        )
        or None,
        spare_layers=read.number("num_nextn_predict_layers", default=0)
        + read.number("num_kv_shared_layers", default=0),
        known=family in KNOWN,
    )


def _tied(inner: Mapping[str, Any], config: Mapping[str, Any], family: str) -> bool:
    for said in (inner.get("tie_word_embeddings"), inner.get("tie_embedding"), config.get("tie_word_embeddings")):
        if isinstance(said, bool):
            return said
    return family in _TIED


def _language_model(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a multimodal configuration that writes the text; the whole where there is none."""
    for key in ("thinker_config", "text_config", "llm_config", "language_config"):
        part = config.get(key)
        if isinstance(part, Mapping) and part:
            return _language_model(part)
    return config


def _flat(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what DBRX and MPT keep apart for attention and MLPs."""
    parts = [part for key in ("attn_config", "ffn_config") if isinstance(part := config.get(key), Mapping)]
    return {key: value for part in (*parts, config) for key, value in part.items()} if parts else config


def _no_heads(family: str) -> int | None:
    return 1 if family in STATE_SPACE_ONLY or family in RWKV else None


def _kv_heads(read: Fields, family: str, n_head: int) -> int:
    if family in STATE_SPACE_ONLY or family in RWKV:
        return n_head
    found = read.number(
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num", default=0
    )
    if family in ("falcon", "RefinedWebModel", "RefinedWeb"):
        if read.values.get("new_decoder_architecture"):
            return found or n_head
        return 1 if read.values.get("multi_query", True) else n_head
    if read.values.get("multi_query") is True and not found:
        return 1
    return found or n_head


def _intermediate(read: Fields, family: str, hidden: int) -> int:
    size = read.number(
        "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_dim", "block_ff_dim", default=0
    )
    if family in ("qwen", "recurrent_gemma"):  # they state the two halves of their gated MLP together
        return size // 2
    if read.values.get("block_auto_adjust_ff_dim"):  # LFM2: two thirds, up to a round number
        step = read.number("block_multiple_of", default=256) or 256
        return -(-(2 * size // 3) // step) * step
    if size:
        return size
    if family in RWKV and family != "rwkv7":  # three and a half times, a multiple of 32
        return hidden * 7 // 2 // 32 * 32
    if family in _TWO_MATRICES or family == "rwkv7":
        return 4 * hidden
    if family in STATE_SPACE_ONLY:
        return hidden * read.number("expand", default=2)
    return read.number("intermediate_size", "moe_intermediate_size")


def _heads_of(kind: Mixer, read: Fields, heads: Heads) -> Heads:
    """Layers that see everything may have heads of their own (Gemma 4)."""
    if kind is not Mixer.FULL:
        return heads
    return replace(
        heads,
        n_kv_head=read.number("num_global_key_value_heads", default=0) or heads.n_kv_head,
        head_dim=read.number("global_head_dim", default=0) or heads.head_dim,
    )


def _cache(read: Fields, kinds: tuple[Mixer, ...], heads: Heads) -> tuple[CacheGroup, ...]:
    latent = read.number("kv_lora_rank", default=0)
    window = read.number("sliding_window", "attention_chunk_size", "attention_window_size", default=0) or None
    groups: list[CacheGroup] = []
    for kind, count in Counter(kinds).items():
        own = _heads_of(kind, read, heads)
        per_token = latent + read.number("qk_rope_head_dim", default=64) if latent else 2 * own.n_kv_head * own.head_dim
        if kind in (Mixer.FULL, Mixer.BOTH):
            groups.append(CacheGroup(count, per_token, None, mixer_state(kind, read, own)))
            if indexed := indexer_layers(read, count):
                groups.append(CacheGroup(indexed, read.number("index_head_dim", default=128)))
        elif kind is Mixer.SLIDING:
            groups.append(CacheGroup(count, per_token, window))
        elif kind is Mixer.CROSS:  # keys and values of an image of four tiles, two bytes where states have four
            groups.append(CacheGroup(count, 0, None, per_token * _IMAGE_TOKENS // 2))
        elif state := mixer_state(kind, read, own):
            groups.append(CacheGroup(count, 0, None, state))
    return tuple(sorted(groups, key=lambda group: (group.elements_per_token == 0, group.window is not None)))


# Llama 3.2 Vision: four tiles of 40 x 40 patches and a class token (mllama, image_size 560, patch_size 14)
_IMAGE_TOKENS = 4 * 1601
