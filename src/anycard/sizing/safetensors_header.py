"""The header of a safetensors file: JSON behind an 8-byte length. Only the header is read, and none of it is trusted.

Format: https://huggingface.co/docs/safetensors/index#format (limits as in safetensors/src/tensor.rs: header at most 100 MB).
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, TypeGuard

from anycard.sizing.quantization import SAFETENSORS_BITS
from anycard.sizing.source import ByteSource, damaged
from anycard.sizing.weights import Tensor

_HEADER_MAX = 100_000_000
_DIMS_MAX = 16


def read_safetensors_header(source: ByteSource) -> tuple[Tensor, ...]:
    """The tensors of one file. Raises HeaderError if the header is truncated, oversized, overlapping or contradicts itself."""
    length = struct.unpack("<Q", source.read(0, 8))[0]
    if length > _HEADER_MAX:
        raise damaged(
            source.name,
            "a header of {length} bytes is claimed, the format allows {most}",
            length=length,
            most=_HEADER_MAX,
        )
    header = _parse(source, source.read(8, length))
    data_size = source.size - 8 - length
    tensors: list[Tensor] = []
    spans: list[tuple[int, int, str]] = []
    sizes: dict[tuple[Any, ...], int] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensor, start, end = _tensor(source, name, entry, data_size, sizes)
        tensors.append(tensor)
        spans.append((start, end, name))
    _check_overlap(source, spans)
    return tuple(tensors)


def _parse(source: ByteSource, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise damaged(source.name, "the header is not JSON") from error
    if not isinstance(header, dict):
        raise damaged(source.name, "the header is not a JSON object")
    return header


def _tensor(
    source: ByteSource, name: str, entry: Any, data_size: int, sizes: dict[tuple[Any, ...], int]
) -> tuple[Tensor, int, int]:
    try:
        dtype, dims = entry["dtype"], tuple(entry["shape"])
        start, end = entry["data_offsets"]
        size = sizes.get((dtype, *dims))
    except (TypeError, KeyError, ValueError):
        raise damaged(source.name, "tensor {tensor} has no usable description", tensor=name) from None
    if size is None:
        size = sizes[(dtype, *dims)] = _size(source, name, dtype, entry["shape"])
    if type(start) is not int or type(end) is not int or start < 0:
        raise damaged(source.name, "tensor {tensor} has no usable offsets", tensor=name)
    if end - start != size:
        raise damaged(source.name, "tensor {tensor}: its shape and its offsets disagree", tensor=name)
    if end > data_size:
        raise damaged(
            source.name, "tensor {tensor} ends at byte {end}, the data has {size}", tensor=name, end=end, size=data_size
        )
    return Tensor(name, dtype, dims, size), start, end


def _size(source: ByteSource, name: str, dtype: Any, dims: Any) -> int:
    """Bytes of a type and shape not seen before in this file: experts by the ten thousand share a few."""
    bits = SAFETENSORS_BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        raise damaged(source.name, "tensor {tensor} has the unknown type {dtype}", tensor=name, dtype=str(dtype)[:40])
    if not _whole_numbers(dims) or len(dims) > _DIMS_MAX:
        raise damaged(source.name, "tensor {tensor} has no usable shape", tensor=name)
    size = math.prod(dims) * bits
    if size % 8:
        raise damaged(source.name, "tensor {tensor}: its shape and its offsets disagree", tensor=name)
    return size // 8


def _whole_numbers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _check_overlap(source: ByteSource, spans: list[tuple[int, int, str]]) -> None:
    reached, holder = 0, ""
    for start, end, name in sorted(spans):
        if start < reached and end > start:
            raise damaged(source.name, "tensors {first} and {second} overlap", first=holder, second=name)
        if end > reached:
            reached, holder = end, name
