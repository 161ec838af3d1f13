"""Folders and files as people have them: sharded, half downloaded, damaged; headers are read, weights never."""

from __future__ import annotations

import json
import struct

import pytest
from sizing_headers import gguf, safetensors, tiny_llama

from anycard.errors import AnycardError, NotFoundError
from anycard.sizing.files import FileSource, card_by_name, load_model
from anycard.sizing.safetensors_header import read_safetensors_header
from anycard.sizing.source import HeaderError
from anycard.sizing.speed import decode_speed

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def layer(number: int) -> dict[str, tuple[str, list[int], int]]:
    return {
        f"model.layers.{number}.self_attn.q_proj.weight": ("BF16", [64, 64], 8192),
        f"model.layers.{number}.mlp.up_proj.weight": ("BF16", [128, 64], 16384),
    }


def test_a_header_is_believed_over_its_config(tmp_path):
    # tied, says the config, yet the file stores the head
    tensors = {
        "model.embed_tokens.weight": ("BF16", [1000, 64], 128000),
        "lm_head.weight": ("BF16", [1000, 64], 128000),
        **layer(0),
    }
    (tmp_path / "model.safetensors").write_bytes(safetensors(tensors))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    model = load_model(str(tmp_path))
    assert model.weights.exact
    assert model.weights.total_bytes == 2 * 128000 + 8192 + 16384
    assert model.weights.head_bytes == 128000


def test_a_config_alone_is_computed(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    model = load_model(str(tmp_path))
    assert not model.weights.exact
    assert model.weights.total_bytes == model.shape.params * 2


def test_shards_of_a_terabyte_are_read_by_their_headers(tmp_path):
    """Sparse files: a terabyte that takes no room. Reading the weights would take minutes and fail this test's time limit."""
    shards, each = 64, 16 * 2**30
    weight_map = {}
    for number in range(shards):
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        tensor = f"model.layers.{number}.mlp.up_proj.weight"
        header = json.dumps({tensor: {"dtype": "BF16", "shape": [each // 2], "data_offsets": [0, each]}}).encode()
        with (tmp_path / name).open("wb") as stream:
            stream.write(struct.pack("<Q", len(header)) + header)
            stream.truncate(8 + len(header) + each)
        weight_map[tensor] = name
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert load_model(str(tmp_path)).weights.total_bytes == shards * each == 2**40


def test_only_the_header_is_read(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({"t": ("BF16", [500_000], 1_000_000)}))
    with path.open("rb") as stream:
        source = FileSource(path, stream)
        seen = []
        source_read = source.read
        source.read = lambda offset, length: (seen.append(length), source_read(offset, length))[1]  # type: ignore[method-assign]
        read_safetensors_header(source)
    assert sum(seen) < 500


def test_a_consolidated_copy_beside_the_shards_is_not_counted(tmp_path):
    (tmp_path / "model-00001-of-00001.safetensors").write_bytes(safetensors(layer(0)))
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors({"other.name": ("BF16", [64, 64], 8192)}))
    index = {"weight_map": dict.fromkeys(layer(0), "model-00001-of-00001.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert load_model(str(tmp_path)).weights.total_bytes == 8192 + 16384


def test_a_missing_shard_is_named(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(safetensors(layer(0)))
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(NotFoundError, match=r"b\.safetensors"):
        load_model(str(tmp_path))


def test_a_gguf_file(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama())
    model = load_model(str(path))
    assert model.file_format == "gguf" and model.weights.exact and model.shape.n_layer == 2


def test_a_gguf_with_a_missing_part_is_named(tmp_path):
    path = tmp_path / "big-00001-of-00002.gguf"
    path.write_bytes(tiny_llama())
    with pytest.raises(NotFoundError, match=r"big-00002-of-00002\.gguf"):
        load_model(str(path))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": ' * 5000, "\x00\xff"])
def test_a_damaged_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(HeaderError, match=r"config\.json"):
        load_model(str(tmp_path))


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="holds no"):
        load_model(str(tmp_path))


def test_an_unknown_weight_format_is_named():
    with pytest.raises(NotFoundError, match="q99"):
        load_model("Qwen3-8B", "q99")


@pytest.mark.parametrize("name", ["/nowhere/model", "no-such-model", "", "a/b/c"])
def test_what_does_not_exist_is_an_error_for_people(name):
    with pytest.raises(AnycardError):
        load_model(name or "nothing")


def test_our_gguf_reader_agrees_with_the_official_one(tmp_path):
    gguf = pytest.importorskip("gguf", reason="the official reader is an oracle: pip install gguf")
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_llama())
    theirs = {tensor.name: int(tensor.n_bytes) for tensor in gguf.GGUFReader(path).tensors}
    with path.open("rb") as stream:
        from anycard.sizing.gguf_header import read_gguf_header

        ours = {tensor.name: tensor.size_bytes for tensor in read_gguf_header(FileSource(path, stream)).tensors}
    assert ours == theirs


def test_a_gguf_that_is_no_language_model_is_sized_from_its_tensors(tmp_path):
    tensors = [(f"double_blocks.{n}.img_attn.qkv.weight", [64, 192], 1, 24576) for n in range(3)]
    (tmp_path / "flux.gguf").write_bytes(gguf({"general.architecture": "flux"}, tensors))
    model = load_model(str(tmp_path / "flux.gguf"))
    assert not model.shape.known and model.weights.exact
    assert model.weights.total_bytes == 3 * 24576 and model.shape.params == 3 * 64 * 192
    assert decode_speed(model.shape, model.weights, card_by_name("RTX 4090")) is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("old.bin", b"ggjt" + bytes(60), "neither a GGUF nor a safetensors"),
        ("pickle.pt", b"PK\x03\x04" + bytes(60), "neither a GGUF nor a safetensors"),
        ("big.gguf", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        ("first.gguf", b"GGUF" + struct.pack("<III", 1, 0, 0), "version 1"),
        ("bare.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "no tensors"),
        ("bare.safetensors", struct.pack("<Q", 2) + b"{}", "no tensors"),
        ("huge.safetensors", struct.pack("<Q", 2 << 30) + b"{", "header of 2147483648 bytes"),
    ],
)
def test_files_of_other_kinds_are_named_for_what_they_are(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HeaderError, match=said):
        load_model(str(tmp_path / name))
