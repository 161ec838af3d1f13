"""Header readers: right on honest files, a clear error on damaged and hostile ones, never anything else."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizing_headers import gguf, safetensors, text, tiny_llama, value

from anycard.sizing.gguf_header import LongArray, read_gguf_header
from anycard.sizing.gguf_shape import shape_from_gguf, weights_from_gguf
from anycard.sizing.safetensors_header import read_safetensors_header
from anycard.sizing.source import HeaderError, MemorySource

GOOD = safetensors({"a.weight": ("BF16", [4, 8], 64), "b": ("F32", [], 4)}, metadata={"format": "pt"})


def test_safetensors_tensors_and_sizes():
    tensors = read_safetensors_header(MemorySource(GOOD))
    assert [(tensor.name, tensor.dtype, tensor.dims, tensor.size_bytes) for tensor in tensors] == [
        ("a.weight", "BF16", (4, 8), 64),
        ("b", "F32", (), 4),
    ]


def raw_safetensors(header: object, data: int = 64) -> bytes:
    raw = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(raw)) + raw + b"\0" * data


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "asks for bytes"),
        (b"\x01\x02", "asks for bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "is claimed"),
        (struct.pack("<Q", 99_999_999) + b"{}", "asks for bytes"),
        (raw_safetensors(b"{not json"), "not JSON"),
        (raw_safetensors(b"[" * 100_000), "not JSON"),
        (raw_safetensors([1, 2]), "not a JSON object"),
        (raw_safetensors({"t": 5}), "no usable description"),
        (raw_safetensors({"t": {"dtype": "Q9", "shape": [1], "data_offsets": [0, 4]}}), "unknown type"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}), "no usable shape"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}), "no usable shape"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [1] * 99, "data_offsets": [0, 4]}}), "no usable shape"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}), "no usable description"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}), "no usable offsets"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]}}), "no usable offsets"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": 5, "data_offsets": [0, 4]}}), "no usable description"),
        (raw_safetensors({"t": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}), "no usable description"),
        (raw_safetensors({"t": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}), "disagree"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}), "disagree"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 4]}}), "disagree"),
        (raw_safetensors({"t": {"dtype": "F32", "shape": [20], "data_offsets": [0, 80]}}), "ends at byte"),
        (
            raw_safetensors(
                {
                    "t": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
                    "u": {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]},
                }
            ),
            "overlap",
        ),
    ],
)
def test_bad_safetensors_headers_are_named(content, says):
    with pytest.raises(HeaderError, match=says):
        read_safetensors_header(MemorySource(content, "m.safetensors"))


@given(st.binary(max_size=200))
def test_random_bytes_are_never_more_than_a_header_error(content):
    for reader in (read_safetensors_header, read_gguf_header):
        try:
            reader(MemorySource(content))
        except HeaderError:
            pass


@settings(max_examples=300)
@given(st.data())
def test_one_changed_byte_is_never_more_than_a_header_error(data):
    good = data.draw(st.sampled_from([GOOD, SMALL_GGUF]))
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    reader = read_safetensors_header if good is GOOD else read_gguf_header
    try:
        reader(MemorySource(changed))
    except HeaderError:
        pass


@given(st.integers(0, 2**20))
def test_a_file_cut_anywhere_is_a_header_error(cut):
    for good, reader in ((GOOD, read_safetensors_header), (SMALL_GGUF, read_gguf_header)):
        with pytest.raises(HeaderError):
            reader(MemorySource(good[: cut % len(good)]))


SMALL_GGUF = gguf(
    {"general.architecture": "llama", "x.f": 1.5, "x.list": [1, 2, 3], "x.names": ["a", "bc"]},
    [("token_embd.weight", [32, 4], 8, 136), ("blk.0.w", [256, 2], 12, 288)],
)


def test_gguf_values_and_quantised_sizes():
    header = read_gguf_header(MemorySource(SMALL_GGUF))
    assert header.architecture == "llama"
    assert header.metadata["x.f"] == 1.5
    assert header.metadata["x.list"] == (1, 2, 3)
    assert header.metadata["x.names"] == ("a", "bc")
    assert [(tensor.dtype, tensor.size_bytes) for tensor in header.tensors] == [("Q8_0", 136), ("Q4_K", 288)]


def test_gguf_long_arrays_are_walked_not_kept():
    header = read_gguf_header(MemorySource(tiny_llama()))
    assert header.metadata["tokenizer.ggml.tokens"] == LongArray(2000)


def test_gguf_shape_and_weights():
    header = read_gguf_header(MemorySource(tiny_llama()))
    shape = shape_from_gguf(header, "tiny")
    assert (shape.n_layer, shape.hidden, shape.vocab, shape.n_kv_head) == (2, 64, 2000, 2)
    assert shape.cache[0].elements_per_token == 2 * 2 * 16
    assert not shape.tied and shape.gated
    assert weights_from_gguf(header).total_bytes == 2 * 256000 + 2 * (8192 * 2 + 4096 * 2 + 16384 * 3 + 256)


def nested(depth: int) -> bytes:
    body = struct.pack("<IQ", 4, 1) + struct.pack("<I", 7)
    for _ in range(depth):
        body = struct.pack("<IQ", 9, 1) + body
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 9) + body


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"GGML" + b"\0" * 60, "does not begin with GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "more than it can hold"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "more than it can hold"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62) + b"x" * 40, "asks for bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77) + b"x" * 40, "unknown type 77"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**61) + b"x" * 40,
            "asks for bytes",
        ),
        (nested(1000), "nested"),
        (gguf({}, [("t", [32], 99, 64)]), "unknown type 99"),
        (gguf({}, [("t", [33], 8, 64)]), "impossible shape"),
        (gguf({}, [("t", [2**40, 2**40], 0, 64)]), "impossible shape"),
        (gguf({}, [("t", [1] * 9, 0, 4)]), "9 dimensions"),
        (gguf({}, [("t", [64], 0, 256)], data_bytes=0), "ends at byte"),
        (gguf({"general.alignment": 0}, []), "alignment"),
    ],
)
def test_bad_gguf_headers_are_named(content, says):
    with pytest.raises(HeaderError, match=says):
        read_gguf_header(MemorySource(content, "m.gguf"))


def test_gguf_overlap_is_named():
    good = gguf({}, [("first", [64], 0, 256), ("second", [64], 0, 256)])
    at = good.index(b"second") + 6 + 4 + 8 + 4  # its offset field
    with pytest.raises(HeaderError, match="first and second overlap"):
        read_gguf_header(MemorySource(good[:at] + struct.pack("<Q", 0) + good[at + 8 :]))


@pytest.mark.parametrize("key", ["llama.block_count", "llama.embedding_length", "llama.attention.head_count"])
@pytest.mark.parametrize("bad", [0, "many", 2**31, 1.5])
def test_gguf_with_absurd_sizes_is_named(key, bad):
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
    }
    header = read_gguf_header(MemorySource(gguf({**metadata, key: bad}, [])))
    with pytest.raises(HeaderError, match=key):
        shape_from_gguf(header, "m")


def test_values_helper_covers_bool():
    assert value(True)[:4] == struct.pack("<I", 7)


def _groups(arch, **keys):
    base = {
        "block_count": 8,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 16,
    }
    said = {**base, **{key.replace("__", "."): content for key, content in keys.items()}}
    metadata = {"general.architecture": arch, **{f"{arch}.{key}": content for key, content in said.items()}}
    shape = shape_from_gguf(read_gguf_header(MemorySource(gguf(metadata, []))), "m")
    return {(group.layers, group.elements_per_token, group.window, group.state_elements) for group in shape.cache}


SSM = {"ssm__inner_size": 128, "ssm__state_size": 16, "ssm__conv_kernel": 4, "ssm__group_count": 1}
STATE = 128 * 16 + 3 * (128 + 2 * 16)


@pytest.mark.parametrize(
    ("arch", "keys", "groups"),
    [
        ("gemma2", {"attention__sliding_window": 100}, {(4, 64, 100, 0), (4, 64, None, 0)}),
        ("phi3", {"attention__sliding_window": 100}, {(8, 64, None, 0)}),  # llama.cpp keeps all of it
        ("llama4", {}, {(6, 64, 8192, 0), (2, 64, None, 0)}),
        ("new", {"attention__sliding_window": 9, "attention__sliding_window_pattern": 8}, {(7, 64, 9, 0), (1, 64, None, 0)}),
        ("gemma4", {"attention__sliding_window": 9, "attention__sliding_window_pattern": [1, 0], "attention__key_length_swa": 8,
                    "attention__value_length_swa": 8}, {(4, 32, 9, 0), (4, 64, None, 0)}),
        ("gemma3n", {"attention__sliding_window": 9, "attention__shared_kv_layers": 3}, {(4, 64, 9, 0), (1, 64, None, 0)}),
        ("jamba", {**SSM, "attention__head_count_kv": [0, 0, 0, 2, 0, 0, 0, 2]}, {(6, 0, None, STATE), (2, 64, None, 0)}),
        ("qwen3next", SSM, {(6, 0, None, STATE), (2, 64, None, 0)}),
        ("mamba", {**SSM, "attention__head_count": 0}, {(8, 0, None, STATE)}),
        ("falcon-h1", SSM, {(8, 64, None, STATE)}),
        ("lfm2", {"shortconv__l_cache": 3, "attention__head_count_kv": [0, 0, 2, 0, 0, 2, 0, 2]}, {(5, 0, None, 128), (3, 64, None, 0)}),
        ("deepseek2", {"attention__kv_lora_rank": 512, "rope__dimension_count": 64}, {(8, 576, None, 0)}),
    ],
)  # fmt: skip
def test_what_llama_cpp_keeps_of_each_layer(arch, keys, groups):
    assert _groups(arch, **keys) == groups
