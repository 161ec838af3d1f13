"""Encoder-decoder models (T5, BART, Whisper) from their configurations. The encoder works once, the decoder for every token."""

from __future__ import annotations

from anycard.sizing.fields import Fields
from anycard.sizing.shape import CacheGroup, ModelShape


def is_encoder_decoder(read: Fields) -> bool:
    """Both stacks must be told apart; T5 calls its encoder's ``num_layers``."""
    values = read.values
    return ("encoder_layers" in values and "decoder_layers" in values) or (
        "num_decoder_layers" in values and "d_kv" in values
    )


def encoder_decoder_shape(read: Fields, name: str, *, tied: bool) -> ModelShape:
    """Raises ConfigError for missing or absurd sizes. Whisper's decoder looks at 1500 positions of sound, others at a source that is taken
    to be as long as the context."""
    hidden = read.number("d_model", "hidden_size")
    encoder = read.number("encoder_layers", "num_layers", "num_hidden_layers")
    decoder = read.number("decoder_layers", "num_decoder_layers")
    n_head = read.number("decoder_attention_heads", "num_heads", "num_attention_heads")
    head_dim = read.number("d_kv", default=0) or max(1, hidden // n_head)
    vocab = read.number("vocab_size")
    width = read.number("decoder_ffn_dim", "d_ff")
    gated = str(read.values.get("feed_forward_proj", "")).startswith("gated")
    attention, mlp = 4 * hidden * n_head * head_dim, (3 if gated else 2) * hidden * width
    written = decoder * (2 * attention + mlp)
    if _encoder_alone(read):  # the text encoders of Flux, SD 3 and Wan
        return _encoder_shape(
            name, encoder, hidden, n_head, head_dim, vocab, width, encoder * (attention + mlp), gated=gated
        )
    mels, sound = read.number("num_mel_bins", default=0), read.number("max_source_positions", default=0)
    convolutions = 3 * hidden * (mels + hidden) if mels else 0
    positions = (
        hidden * (sound + read.number("max_target_positions", "max_position_embeddings", default=0))
        if "d_kv" not in read.values
        else 0
    )
    per_token = 2 * n_head * head_dim
    heard = CacheGroup(decoder, 0, None, per_token * sound // 2)  # two bytes where a state has four
    return ModelShape(
        name=name,
        n_layer=decoder,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_head,
        head_dim=head_dim,
        vocab=vocab,
        intermediate=width,
        linear_params=encoder * (attention + mlp) + written,
        embedding_params=vocab * hidden,
        head_params=vocab * hidden,
        other_params=(2 * encoder + 3 * decoder) * hidden + convolutions + positions,
        tied=tied,
        cache=(CacheGroup(decoder, per_token), heard) if mels else (CacheGroup(decoder, 2 * per_token),),
        gated=gated,
        active_linear_params=written,
        max_context=read.number("max_target_positions", "n_positions", "max_position_embeddings", default=0) or None,
    )


def _encoder_alone(read: Fields) -> bool:
    built = read.values.get("architectures")
    return isinstance(built, list) and any(str(name).endswith("EncoderModel") for name in built)


def _encoder_shape(
    name: str, layers: int, hidden: int, n_head: int, head_dim: int, vocab: int, width: int, linear: int, *, gated: bool
) -> ModelShape:
    """It keeps no cache, and has no head: the embedding counts once."""
    return ModelShape(
        name=name,
        n_layer=layers,
        hidden=hidden,
        n_head=n_head,
        n_kv_head=n_head,
        head_dim=head_dim,
        vocab=vocab,
        intermediate=width,
        linear_params=linear,
        embedding_params=vocab * hidden,
        head_params=vocab * hidden,
        other_params=(2 * layers + 1) * hidden,
        tied=True,
        cache=(),
        gated=gated,
    )
