"""The header of a GGUF file: counted key-value pairs, then tensor descriptions. Read without numpy, and none of it is trusted.

Format: ggml-org/ggml, docs/gguf.md. Every count and length is checked against the file's size before anything is read by it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from anycard.sizing.quantization import GGML_TYPES
from anycard.sizing.source import ByteSource, damaged, truncated
from anycard.sizing.weights import Tensor

_KEYS_MAX = 65_536
_TENSORS_MAX = 1_000_000
_STRING_MAX = 64 * 1024 * 1024
_DEPTH_MAX = 4
_KEEP_ITEMS = 1024  # longer arrays (vocabularies) are walked, not kept: their length is
_WINDOW = 1024 * 1024
_SCALARS: dict[int, str] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class LongArray:
    """An array of which only the length is kept."""

    length: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """``metadata`` by key; ``tensors`` in file order."""

    version: int
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        value = self.metadata.get("general.architecture", "")
        return value if isinstance(value, str) else ""


def read_gguf_header(source: ByteSource) -> GgufHeader:
    """Metadata and tensors of one GGUF file. Raises HeaderError for anything truncated, oversized, overlapping or unknown."""
    cursor = _Cursor(source)
    if cursor.take(4) != b"GGUF":
        raise damaged(source.name, "it does not begin with GGUF")
    version = cursor.number("<I")
    if version and version & 0xFFFF == 0:
        raise damaged(source.name, "its numbers are big-endian, which are not read")
    if version not in (2, 3):
        raise damaged(source.name, "GGUF version {version} is not known (2 and 3 are)", version=version)
    tensor_count, key_count = cursor.number("<Q"), cursor.number("<Q")
    # a tensor's description takes at least 24 bytes, a pair at least 13
    if tensor_count > min(_TENSORS_MAX, source.size // 24) or key_count > min(_KEYS_MAX, source.size // 13):
        raise damaged(
            source.name,
            "{tensors} tensors and {keys} keys are claimed, more than it can hold",
            tensors=tensor_count,
            keys=key_count,
        )
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("<I"), 0)
    described = [_describe(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise damaged(source.name, "alignment {alignment} makes no sense", alignment=str(alignment)[:40])
    data_start = -(-cursor.offset // alignment) * alignment
    _check_spans(source, described, max(0, source.size - data_start))
    return GgufHeader(version, metadata, tuple(tensor for tensor, _ in described))


def _describe(cursor: _Cursor) -> tuple[Tensor, int]:
    name = cursor.text()
    dim_count = cursor.number("<I")
    if dim_count > 8:
        raise damaged(cursor.source.name, "tensor {tensor} has {dims} dimensions", tensor=name[:80], dims=dim_count)
    dims = tuple(cursor.number("<Q") for _ in range(dim_count))
    type_id, offset = cursor.number("<I"), cursor.number("<Q")
    known = GGML_TYPES.get(type_id)
    if known is None:
        raise damaged(cursor.source.name, "tensor {tensor} has the unknown type {type}", tensor=name[:80], type=type_id)
    type_name, block, block_bytes = known
    elements = math.prod(dims)
    if elements > 2**62 or (dims and dims[0] % block):
        raise damaged(cursor.source.name, "tensor {tensor} has an impossible shape", tensor=name[:80])
    return Tensor(name, type_name, dims, elements // block * block_bytes), offset


def _check_spans(source: ByteSource, described: list[tuple[Tensor, int]], data_size: int) -> None:
    reached, holder = 0, ""
    for tensor, offset in sorted(described, key=lambda pair: pair[1]):
        end = offset + tensor.size_bytes
        if end > data_size:
            raise damaged(
                source.name,
                "tensor {tensor} ends at byte {end}, the data has {size}",
                tensor=tensor.name[:80],
                end=end,
                size=data_size,
            )
        if offset < reached and tensor.size_bytes:
            raise damaged(
                source.name, "tensors {first} and {second} overlap", first=holder[:80], second=tensor.name[:80]
            )
        if end > reached:
            reached, holder = end, tensor.name


class _Cursor:
    """Reads forward through windows of the source, so that a vocabulary of 250,000 strings costs few reads."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.offset = 0
        self._window = b""
        self._start = 0

    def take(self, length: int) -> bytes:
        begin = self._locate(length)
        self.offset += length
        return self._window[begin : begin + length]

    def number(self, layout: str) -> Any:
        size = struct.calcsize(layout)
        begin = self._locate(size)
        self.offset += size
        return struct.unpack_from(layout, self._window, begin)[0]

    def text(self) -> str:
        return self._string_bytes().decode("utf-8", "replace")

    def value(self, kind: int, depth: int) -> Any:
        layout = _SCALARS.get(kind)
        if layout is not None:
            return self.number(layout)
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(depth)
        raise damaged(self.source.name, "a value has the unknown type {type}", type=kind)

    def _array(self, depth: int) -> Any:
        if depth >= _DEPTH_MAX:
            raise damaged(self.source.name, "arrays are nested more than {most} deep", most=_DEPTH_MAX)
        kind, length = self.number("<I"), self.number("<Q")
        layout = _SCALARS.get(kind)
        item_min = struct.calcsize(layout) if layout else 8 if kind == _STRING else 12
        if length > (self.source.size - self.offset) // item_min:
            raise truncated(self.source.name, self.offset, length * item_min, self.source.size)
        if length <= _KEEP_ITEMS:
            return tuple(self.value(kind, depth + 1) for _ in range(length))
        if layout:
            self.offset += length * item_min
        else:
            for _ in range(length):
                if kind == _STRING:
                    self._skip_string()
                else:
                    self.value(kind, depth + 1)
        return LongArray(length)

    def _string_bytes(self) -> bytes:
        return self.take(self._string_length())

    def _skip_string(self) -> None:
        length = self._string_length()  # moves the offset itself
        self.offset += length

    def _string_length(self) -> int:
        length: int = self.number("<Q")
        if length > _STRING_MAX or length > self.source.size - self.offset:
            raise truncated(self.source.name, self.offset, length, self.source.size)
        return length

    def _locate(self, length: int) -> int:
        """Where ``length`` bytes at the offset begin in the window, which is moved if they are not in it."""
        begin = self.offset - self._start
        if begin < 0 or begin + length > len(self._window):
            if self.offset + length > self.source.size:
                raise truncated(self.source.name, self.offset, length, self.source.size)
            self._window = self.source.read(self.offset, min(max(length, _WINDOW), self.source.size - self.offset))
            self._start, begin = self.offset, 0
        return begin
