"""The same job over several cards: what the fullest card holds."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from anycard.model.text import Text
from anycard.sizing.estimate import Estimate, Part
from anycard.sizing.inference import Server, Serving, estimate_inference
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import Weights
from anycard.units import GIB


class Split(StrEnum):
    """``layers``: consecutive layers a card (pipeline, llama.cpp's default). ``tensor``: every matrix cut (vLLM). ``data``: copies."""

    LAYERS = "layers"
    TENSOR = "tensor"
    DATA = "data"


_SHARED = frozenset(("weights", "kv_cache", "rotary_tables", "cache_growth", "unpacked_weights"))


def split_of(server: Server) -> Split:
    """How each server spreads a model by default."""
    return Split.TENSOR if server is Server.VLLM else Split.LAYERS


def estimate_split(
    shape: ModelShape, weights: Weights, serving: Serving, cards: int, split: Split | None = None
) -> Estimate:
    """Memory of the fullest of ``cards`` cards. A tensor split cannot cut the cache finer than the key-value heads."""
    how = split or split_of(serving.server)
    if how is Split.LAYERS and serving.server is Server.LLAMA_CPP and cards > 1:
        serving = replace(serving, pipeline_copies=4)
    whole = estimate_inference(shape, weights, serving)
    if cards <= 1 or how is Split.DATA:
        return replace(whole, cards=cards)
    if how is Split.LAYERS:
        # the head counts as a layer; the card with one more layer than the others decides
        blocks = shape.n_layer + 1
        share = cache_share = -(-blocks // cards) / blocks
    else:
        share = 1 / cards
        cache_share = 1 / min(cards, shape.n_kv_head)
    parts = tuple(_share(part, share, cache_share) for part in whole.parts)
    total = sum(part.size_bytes for part in parts)
    below, above = whole.total_bytes - whole.low_bytes, whole.high_bytes - whole.total_bytes
    estimate = replace(
        whole,
        parts=parts,
        low_bytes=max(0, total - _margin(below, total / whole.total_bytes)),
        high_bytes=total + _margin(above, total / whole.total_bytes),
        cards=cards,
    )
    if how is Split.TENSOR and cards > shape.n_kv_head:
        estimate = estimate.with_warning(
            Text(
                "{cards} cards share {heads} key-value heads: each head's cache is kept more than once",
                {"cards": cards, "heads": shape.n_kv_head},
            )
        )
    return estimate


def _margin(whole: int, ratio: float) -> int:
    """Doubt about weights and cache is shared out with them; what every card makes for itself is not: up to a GiB stays."""
    return max(round(whole * ratio), min(whole, GIB))


def _share(part: Part, share: float, cache_share: float) -> Part:
    if part.name not in _SHARED:
        return part
    return replace(part, size_bytes=round(part.size_bytes * (cache_share if part.name == "kv_cache" else share)))
