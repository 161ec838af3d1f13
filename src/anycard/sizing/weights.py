"""What a model's weights take: exact from a header, computed from the shape otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from anycard.sizing.quantization import Scheme
from anycard.sizing.shape import ModelShape


class Tensor(NamedTuple):
    """One tensor of a checkpoint, as its header says it. ``params`` counts weights, so packed 4-bit words count eight each."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    size_bytes: int

    @property
    def elements(self) -> int:
        count = 1
        for dim in self.dims:
            count *= dim
        return count


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes by role. ``exact``: from a header. ``largest_bytes``: the largest single tensor, which no split can share out."""

    linear_bytes: int
    embedding_bytes: int
    head_bytes: int
    other_bytes: int
    scheme: Scheme
    exact: bool
    largest_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.linear_bytes + self.embedding_bytes + self.head_bytes + self.other_bytes


_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|token_embd|embed_in|embeddings?)\.weight$"
)
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output)\.(weight|qweight|weight_packed)$")
_DIGITS = b"0123456789"
_SMALL = re.compile(r"(norm|bias|scale_inv|ln_|layernorm|gate\.weight$|vision|visual|rope|inv_freq)")


def weights_from_shape(shape: ModelShape, scheme: Scheme, *, head_untied: bool = False) -> Weights:
    """Computed from parameter counts. ``head_untied``: the program holds a tied head a second time (litgpt does)."""
    twice = head_untied or (scheme.unties and shape.tied)
    head = 0 if shape.tied and not twice else shape.head_params
    table = scheme.table_bytes
    linear = round(shape.linear_params * scheme.linear_bytes)
    largest = max(
        shape.embedding_params * table,
        (shape.intermediate * shape.hidden if shape.n_layer else shape.params) * scheme.linear_bytes,
    )
    return Weights(
        linear_bytes=linear,
        embedding_bytes=round(shape.embedding_params * table),
        head_bytes=round(head * table),
        other_bytes=round(shape.other_params * table),
        scheme=scheme,
        exact=False,
        largest_bytes=round(largest),
    )


def weights_from_tensors(tensors: Iterable[Tensor], scheme: Scheme) -> Weights:
    """Exact to the byte: the header is believed over the configuration."""
    sums = {"linear": 0, "embedding": 0, "head": 0, "other": 0}
    largest = 0
    for tensor in tensors:
        sums[role(tensor.name)] += tensor.size_bytes
        largest = max(largest, tensor.size_bytes)
    return Weights(
        linear_bytes=sums["linear"],
        embedding_bytes=sums["embedding"],
        head_bytes=sums["head"],
        other_bytes=sums["other"],
        scheme=scheme,
        exact=True,
        largest_bytes=largest,
    )


def role(name: str) -> str:
    """``"embedding"``, ``"head"``, ``"other"`` (norms, biases, routers, vision) or ``"linear"`` by the tensor's name."""
    return _role(name.encode("utf-8", "replace").translate(None, _DIGITS))  # as bytes it takes a sixth of the time


@lru_cache(maxsize=4096)
def _role(without_digits: bytes) -> str:
    """Of a name without its layer and expert numbers: a checkpoint has a hundred of them, not ninety thousand."""
    pattern = without_digits.decode()
    if _EMBEDDING.search(pattern):
        return "embedding"
    if _HEAD.search(pattern):
        return "head"
    return "other" if _SMALL.search(pattern) else "linear"


def parameter_count(tensors: Iterable[Tensor]) -> int:
    """Weights in a checkpoint: packed words are unpacked, scales and zero points are not counted."""
    total = 0
    for tensor in tensors:
        if re.search(
            r"(scales|qzeros|g_idx|scale_inv|weight_scale|absmax|quant_map|quant_state|input_scale)", tensor.name
        ):
            continue
        packed = tensor.dtype in ("I32", "U32") and re.search(r"(qweight|weight_packed)$", tensor.name)
        halves = tensor.dtype == "U8" and tensor.name.endswith(".weight")
        total += tensor.elements * (8 if packed else 2 if halves else 1)
    return total
