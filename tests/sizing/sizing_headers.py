"""Builds small GGUF and safetensors files byte by byte, so that tests can bend any of their fields."""

from __future__ import annotations

import json
import struct


def safetensors(
    tensors: dict[str, tuple[str, list[int], int]], *, metadata: dict | None = None, data: bool = True
) -> bytes:
    """``tensors``: name -> (dtype, shape, bytes), laid out one after another."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + (b"\0" * at if data else b"")


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(content: object) -> bytes:
    """A GGUF value with its type: int -> uint32, str, float -> float32, list of str or int -> array."""
    if isinstance(content, bool):
        return struct.pack("<I?", 7, content)
    if isinstance(content, int):
        return struct.pack("<II", 4, content)
    if isinstance(content, float):
        return struct.pack("<If", 6, content)
    if isinstance(content, str):
        return struct.pack("<I", 8) + text(content)
    assert isinstance(content, list)
    if content and isinstance(content[0], str):
        return struct.pack("<IIQ", 9, 8, len(content)) + b"".join(map(text, content))
    return struct.pack("<IIQ", 9, 4, len(content)) + b"".join(struct.pack("<I", item) for item in content)


def gguf(
    metadata: dict[str, object], tensors: list[tuple[str, list[int], int, int]], *, data_bytes: int | None = None
) -> bytes:
    """``tensors``: (name, dims, type id, bytes), laid out one after another, padded to 32."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, content in metadata.items():
        out += text(key) + value(content)
    at = 0
    for name, dims, type_id, size in tensors:
        out += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", dim) for dim in dims)
        out += struct.pack("<IQ", type_id, at)
        at += -(-size // 32) * 32
    out += b"\0" * (-len(out) % 32)
    return out + b"\0" * (at if data_bytes is None else data_bytes)


def tiny_llama() -> bytes:
    """A two-layer model with grouped queries: hidden 64, 4 heads, 2 key-value heads of 16, F16."""
    layers = []
    for layer in range(2):
        layers += [
            (f"blk.{layer}.attn_q.weight", [64, 64], 1, 8192),
            (f"blk.{layer}.attn_k.weight", [64, 32], 1, 4096),
            (f"blk.{layer}.attn_v.weight", [64, 32], 1, 4096),
            (f"blk.{layer}.attn_output.weight", [64, 64], 1, 8192),
            (f"blk.{layer}.ffn_gate.weight", [64, 128], 1, 16384),
            (f"blk.{layer}.ffn_up.weight", [64, 128], 1, 16384),
            (f"blk.{layer}.ffn_down.weight", [128, 64], 1, 16384),
            (f"blk.{layer}.attn_norm.weight", [64], 0, 256),
        ]
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 128,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 2048,
        "tokenizer.ggml.tokens": [f"t{number}" for number in range(2000)],
    }
    return gguf(
        metadata, [("token_embd.weight", [64, 2000], 1, 256000), *layers, ("output.weight", [64, 2000], 1, 256000)]
    )
