"""What a model's weights take: exact from a header, computed from the shape otherwise."""

from __future__ import annotations

import math
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
    r"(^|\.)(embed_tokens|embed_tokens_per_layer|per_layer_token_embd|wte|word_embeddings|tok_embeddings|token_embd|embed_in|embeddings?)\.weight$"
)
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output)\.(weight|qweight|weight_packed)$")
_DIGITS = b"0123456789"
# What stands beside quantised weights.
_BESIDE = re.compile(
    r"(scales|biases$|qzeros|g_idx|scale_inv|weight_scale|weight_shape|absmax|quant_map|quant_state|input_scale)"
)
_SMALL = re.compile(r"(norm|bias|scale_inv|ln_|layernorm|gate\.weight$|vision|visual|rope|inv_freq)")


_SUPER_BLOCK = 256  # weights in a block of the K and IQ types
_Q8_0 = 34 / 32


def weights_from_shape(shape: ModelShape, scheme: Scheme, *, head_untied: bool = False) -> Weights:
    """Computed from parameter counts. ``head_untied``: the program holds a tied head a second time (litgpt does)."""
    twice = head_untied or (scheme.unties and shape.tied)
    head = 0 if shape.tied and not twice else shape.head_params
    output = scheme.table_bytes if scheme.head_bytes is None else scheme.head_bytes
    table = output if shape.tied and not twice else scheme.table_bytes
    linear = round(shape.linear_params * scheme.linear_bytes)
    if scheme.narrow_bytes is not None and shape.hidden % _SUPER_BLOCK:
        linear = _with_narrow_rows(shape, scheme)
        output = _Q8_0
        table = output if shape.tied and not twice else scheme.narrow_bytes
    largest = max(
        shape.embedding_params * table,
        (shape.intermediate * shape.hidden if shape.n_layer else shape.params) * scheme.linear_bytes,
    )
    return Weights(
        linear_bytes=linear,
        embedding_bytes=round(shape.embedding_params * table),
        head_bytes=round(head * output),
        other_bytes=round(shape.other_params * scheme.table_bytes),
        scheme=scheme,
        exact=False,
        largest_bytes=round(largest),
    )


def _with_narrow_rows(shape: ModelShape, scheme: Scheme) -> int:
    """Down projections have rows of the MLP's width, every other matrix of the model's."""
    down = 0 if shape.intermediate % _SUPER_BLOCK else shape.n_layer * shape.hidden * shape.intermediate
    down = min(down, shape.linear_params)
    narrow = scheme.linear_bytes if scheme.narrow_bytes is None else scheme.narrow_bytes
    return round(down * scheme.linear_bytes + (shape.linear_params - down) * narrow)


def weights_from_tensors(tensors: Iterable[Tensor], scheme: Scheme) -> Weights:
    """Exact to the byte: the header is believed over the configuration."""
    return census(tensors).weights(scheme)


@dataclass(frozen=True, slots=True)
class Kind:
    """Tensors whose names differ in numbers alone: ``count`` of them, of these dimensions and ``params`` weights each."""

    pattern: str
    dims: tuple[int, ...]
    count: int
    size_bytes: int
    params: int


@dataclass(frozen=True, slots=True)
class Census:
    """A checkpoint's tensors by kind: a hundred kinds stand for ninety thousand tensors."""

    kinds: tuple[Kind, ...]

    def bytes_of(self, wanted: str) -> int:
        """Bytes of all tensors whose role is ``wanted``."""
        return sum(kind.count * kind.size_bytes for kind in self.kinds if role(kind.pattern) == wanted)

    def params_of(self, wanted: str) -> int:
        """Weights of all tensors whose role is ``wanted``."""
        return sum(kind.count * kind.params for kind in self.kinds if role(kind.pattern) == wanted)

    def weights(self, scheme: Scheme) -> Weights:
        return Weights(
            linear_bytes=self.bytes_of("linear"),
            embedding_bytes=self.bytes_of("embedding"),
            head_bytes=self.bytes_of("head"),
            other_bytes=self.bytes_of("other"),
            scheme=scheme,
            exact=True,
            largest_bytes=max((kind.size_bytes for kind in self.kinds), default=0),
        )


def census(tensors: Iterable[Tensor], word_bits: int = 4) -> Census:
    """One pass over the tensors. ``word_bits``: bits of a weight where they are packed in 32-bit words."""
    counts: dict[tuple[bytes, str, tuple[int, ...], int], int] = {}
    for name, dtype, dims, size in tensors:
        key = (name.encode("utf-8", "replace").translate(None, _DIGITS), dtype, dims, size)
        counts[key] = counts.get(key, 0) + 1
    kinds = []
    for (pattern, dtype, dims, size), count in counts.items():
        name = pattern.decode()
        kinds.append(Kind(name, dims, count, size, _params(name, dtype, math.prod(dims), word_bits)))
    return Census(tuple(kinds))


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


def parameter_count(tensors: Iterable[Tensor], word_bits: int = 4) -> int:
    """Weights in a checkpoint: packed words are unpacked (``word_bits``: bits a weight in 32-bit words), scales and zero points are not
    counted."""
    return sum(_params(tensor.name, tensor.dtype, tensor.elements, word_bits) for tensor in tensors)


def _params(name: str, dtype: str, elements: int, word_bits: int) -> int:
    if _BESIDE.search(name):
        return 0
    if dtype in ("I32", "U32") and name.endswith(("qweight", "weight_packed", ".weight")):
        return elements * 32 // word_bits
    if dtype == "U8" and name.endswith((".weight", "weight_packed", "_blocks")):
        return elements * 2  # two weights of 4 bits: bitsandbytes, NVFP4, the experts of gpt-oss
    return elements
