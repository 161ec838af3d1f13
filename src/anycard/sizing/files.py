"""The edge: files, folders and shipped tables turned into shapes and weights. The formulas never come here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

from anycard.cards.specs import rows
from anycard.errors import NotFoundError
from anycard.sizing.cardspec import CardSpec, find_card, parse_card_rows
from anycard.sizing.config import ConfigError, shape_from_config
from anycard.sizing.diffusion import Component
from anycard.sizing.gguf_header import GgufHeader, read_gguf_header
from anycard.sizing.gguf_shape import shape_from_gguf, weights_from_gguf
from anycard.sizing.headers_only import reconciled, shape_from_tensors
from anycard.sizing.names import is_path, meant_by, nearest, parse_name
from anycard.sizing.ollama import Pulled, find, folders
from anycard.sizing.quantization import Scheme, scheme
from anycard.sizing.safetensors_header import read_safetensors_header
from anycard.sizing.shape import ModelShape
from anycard.sizing.source import damaged, truncated
from anycard.sizing.weight_format import scheme_from_config
from anycard.sizing.weights import Tensor, Weights, census, weights_from_shape, weights_from_tensors

_CONFIG_MAX = 32 * 1024 * 1024
_SHARDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it was found. ``origin``: what was read (a path, or the table's source). ``file_format``: safetensors or gguf."""

    shape: ModelShape
    weights: Weights
    origin: str
    file_format: str = "safetensors"

    def quantised(self, name: str) -> Model:
        """The same model in the weight format ``name``, computed from its shape. KeyError for an unknown one."""
        chosen = scheme(name)
        return replace(self, weights=weights_from_shape(self.shape, chosen), file_format=chosen.file_format)


class FileSource:
    """A local file as a ByteSource; ranges are read, the file is never loaded."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.name = path.name
        self.size = path.stat().st_size
        self._stream = stream

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise truncated(self.name, offset, length, self.size)
        self._stream.seek(offset)
        content = self._stream.read(length)
        if len(content) != length:
            raise truncated(self.name, offset, length, self.size)
        return content


def load_model(reference: str, quant: str | None = None, *, environ: Mapping[str, str] | None = None) -> Model:
    """A folder, a .gguf or .safetensors file, a model that Ollama has pulled (``ollama:NAME``), or a name in the shipped table; ``quant``
    sets the weight format of a name. ``environ``: whose HOME and OLLAMA_MODELS count (None: no model of Ollama's is looked for).

    Raises NotFoundError, HeaderError or ConfigError.
    """
    path = Path(reference).expanduser()
    if path.is_dir():
        model = _from_folder(path)
    elif path.is_file():
        model = _from_file(path)
    else:
        pulled = find(reference, folders(environ)) if environ is not None else None
        model = _from_table(reference) if pulled is None else _from_ollama(pulled)
    return in_format(model, quant)


def named_model(name: str, quant: str | None = None) -> Model:
    """A name in the shipped table alone: no file is looked at. Raises NotFoundError."""
    return in_format(_from_table(name), quant)


def _from_ollama(pulled: Pulled) -> Model:
    """Its GGUF, called as Ollama calls it; projectors and adapters count as further weights."""
    model = _from_file(pulled.weights)
    weights = replace(model.weights, other_bytes=model.weights.other_bytes + pulled.extra_bytes)
    return replace(model, shape=replace(model.shape, name=pulled.name), weights=weights)


def in_format(model: Model, quant: str | None) -> Model:
    """``model`` in another weight format; None: as it is. Raises NotFoundError for a format that nobody knows."""
    if quant is None:
        return model
    try:
        return model.quantised(quant)
    except KeyError:
        raise NotFoundError(
            "no weight format is called {quant}",
            hint="bf16, fp8, awq-int4, gptq-int4, nf4, q4_k_m, q8_0 ...",
            quant=quant,
        ) from None


def known_models() -> tuple[str, ...]:
    """Names in the shipped table."""
    return (*_table()["models"], *_table()["same_shape"])


def is_diffusion(reference: str) -> bool:
    """Whether ``reference`` is a folder of components with a model_index.json (diffusers), or the name of an image model in the table."""
    path = Path(reference).expanduser()
    return (path / "model_index.json").is_file() or (not path.exists() and _image_row(reference) is not None)


def _image_row(name: str) -> str | None:
    table = _table()
    asked = parse_name(name)
    if is_path(name) or (asked.quant or "bf16") not in ("bf16", "fp16", "f16"):
        return None  # its components are known at 16 bits alone
    also: dict[str, str] = table["images_also_called"]
    return meant_by(asked, table["images"]) or also.get(meant_by(asked, also) or "")


def load_diffusion(reference: str) -> tuple[Component, ...]:
    """The components of a diffusers folder, weights from their headers; of a name in the table, at 16 bits as published. Raises
    HeaderError or NotFoundError."""
    folder = Path(reference).expanduser()
    row = None if folder.exists() else _image_row(reference)
    if row is not None:
        return tuple(Component(name, size, largest) for name, (size, largest) in _table()["images"][row].items())
    index = _read_json(folder / "model_index.json")
    found: list[Component] = []
    for name in (name for name, kind in index.items() if isinstance(kind, list) and re.fullmatch(r"[A-Za-z]\w*", name)):
        files = sorted(path for path in (folder / name).glob("*.safetensors") if path.is_file())
        plain = [path for path in files if ".fp16." not in path.name and ".bf16." not in path.name]
        sizes: list[int] = []
        for path in plain or files:
            with path.open("rb") as stream:
                sizes += [tensor.size_bytes for tensor in read_safetensors_header(FileSource(path, stream))]
        if sizes:
            found.append(Component(name, sum(sizes), max(sizes)))
    if not found:
        raise NotFoundError("{folder} names components, but holds none of their weights", folder=str(folder))
    return tuple(found)


def _from_file(path: Path) -> Model:
    with path.open("rb") as stream:
        source = FileSource(path, stream)
        start = source.read(0, min(4, source.size))
        if start == b"GGUF":
            header = read_gguf_header(source)
            for shard in _gguf_shards(path):
                with shard.open("rb") as more:
                    tensors = read_gguf_header(FileSource(shard, more)).tensors
                header = replace(header, tensors=(*header.tensors, *tensors))
            return model_of_gguf(header, path.stem, str(path))
        if source.size > 8 and source.read(8, 1) != b"{":
            raise damaged(source.name, "it is neither a GGUF nor a safetensors file")
        tensors = read_safetensors_header(source)
    config = _config_of(path.parent)
    return model_from_parts(config, tensors, path.stem, str(path))


def model_of_gguf(header: GgufHeader, name: str, origin: str) -> Model:
    """Without the keys that every language model has (an image model, a projector, a format of its own): from its tensors, and that is
    said. Raises HeaderError for keys that make no sense."""
    keys = ("block_count", "embedding_length", "attention.head_count")
    if not header.tensors:
        raise damaged(name, "it holds no tensors")
    if any(f"{header.architecture}.{key}" not in header.metadata for key in keys):
        turned = tuple(
            tensor._replace(dims=tensor.dims[::-1]) for tensor in header.tensors
        )  # GGUF counts dimensions from the inside
        shape = shape_from_tensors(turned, name)
    else:
        shape = shape_from_gguf(header, name)
    return Model(shape, weights_from_gguf(header), origin, "gguf")


def _gguf_shards(path: Path) -> list[Path]:
    """The other parts of a split GGUF (``-00001-of-00003.gguf``); empty unless ``path`` is its first part."""
    match = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if not match or int(match[2]) > _SHARDS_MAX:
        return []
    parts = [path.with_name(f"{match[1]}-{number:05d}-of-{match[2]}.gguf") for number in range(2, int(match[2]) + 1)]
    for part in parts:
        if not part.is_file():
            raise NotFoundError("{file} is missing beside {first}", file=part.name, first=path.name)
    return parts


def _from_folder(folder: Path) -> Model:
    shards = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if not shards:
        ggufs = sorted(path for path in folder.glob("*.gguf") if path.is_file())
        if ggufs:
            return _from_file(ggufs[0])
    config = _config_of(folder)
    if not shards and config is None:
        raise NotFoundError(
            "{folder} holds no .safetensors, .gguf or config.json",
            hint="give a model's folder or file, or a name: anycard fit --models lists them",
            folder=str(folder),
        )
    wanted = _indexed(folder)
    tensors: dict[str, Tensor] = {}
    for shard in shards[:_SHARDS_MAX]:
        if wanted and shard.name not in wanted:
            continue  # a consolidated copy beside the shards would count every weight twice
        with shard.open("rb") as stream:
            for tensor in read_safetensors_header(FileSource(shard, stream)):
                tensors.setdefault(tensor.name, tensor)
    missing = sorted(wanted - {shard.name for shard in shards})
    if missing:
        raise NotFoundError(
            "{folder}: {count} shards are missing, {first} first",
            hint="the download is not complete",
            folder=str(folder),
            count=len(missing),
            first=missing[0],
        )
    return model_from_parts(config, tuple(tensors.values()), folder.resolve().name, str(folder))


def _indexed(folder: Path) -> set[str]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return set()
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise damaged(index.name, "it has no weight_map")
    return {str(name) for name in weight_map.values()}


def model_from_parts(config: Mapping[str, Any] | None, tensors: tuple[Tensor, ...], name: str, origin: str) -> Model:
    """From what was read of a model; ``tensors`` empty: computed from the configuration. Raises ConfigError without either."""
    if config is None and not tensors:
        raise damaged(name, "it holds no tensors")
    if config is None:
        shape = shape_from_tensors(tensors, name)
        return Model(shape, weights_from_tensors(tensors, scheme("bf16")), origin)
    weight_scheme: Scheme = scheme_from_config(config)
    if not tensors:
        shape = shape_from_config(config, name)
        return Model(shape, weights_from_shape(shape, weight_scheme), origin)
    bits = round(weight_scheme.linear_bytes * 8 - 0.2)  # less scales and zero points
    counted = census(tensors, bits if 0 < bits <= 8 else 4)
    try:
        shape = reconciled(shape_from_config(config, name), counted)
    except ConfigError:
        shape = shape_from_tensors(tensors, name)
    return Model(shape, counted.weights(weight_scheme), origin)


def _config_of(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "config.json"
    return _read_json(path) if path.is_file() else None


def _read_json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _CONFIG_MAX:
        raise damaged(path.name, "it is too large for a configuration")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path.name, "it is not JSON") from error
    if not isinstance(content, dict):
        raise damaged(path.name, "it is not a JSON object")
    return content


def _from_table(name: str) -> Model:
    """The row that ``name`` means, in the weight format that it says (``Qwen2.5-7B-Instruct-AWQ``)."""
    if is_path(name):
        raise NotFoundError(
            "there is no file or folder {name}", hint="anycard fit --models lists names that work", name=name
        )
    table = _table()
    also: dict[str, str] = table["also_called"]
    asked = parse_name(name)
    row = meant_by(asked, known_models()) or also.get(meant_by(asked, also) or "")
    if row is None:
        near = nearest(asked, (*known_models(), *table["images"]))
        raise NotFoundError(
            "no model is called {name}, here or in the table",
            hint="nearest are: {nearest}. A folder with config.json or a .gguf file works for any model"
            if near
            else "anycard fit --models lists those that are; a folder with config.json or a .gguf file works for any model",
            name=name[:120],
            nearest=", ".join(near),
        )
    config = table["models"][table["same_shape"].get(row, row)]
    shape = shape_from_config(config, row)
    model = Model(shape, weights_from_shape(shape, scheme_from_config(config)), "table: " + str(table["source"]))
    return model if asked.quant is None else model.quantised(asked.quant)


@cache
def _table() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(resources.files("anycard.sizing").joinpath("data/models.json").read_bytes())
    return content


@cache
def card_specs() -> tuple[CardSpec, ...]:
    """The shipped table of cards, with a source a row."""
    return parse_card_rows(rows())


@lru_cache(maxsize=512)
def card_by_name(name: str) -> CardSpec:
    """The card that ``name`` means. Raises NotFoundError with the nearest names."""
    spec = find_card(name, card_specs())
    if spec is not None:
        return spec
    import difflib

    models = list(dict.fromkeys(spec.model for spec in card_specs()))
    plain = {re.sub(r"^(geforce|radeon|tesla|apple) ", "", model.lower()): model for model in models}
    near = [plain[name] for name in difflib.get_close_matches(name.lower(), list(plain), n=3, cutoff=0.3)]
    raise NotFoundError(
        "no card is called {name} in the table",
        hint="near it: {near}",
        name=name,
        near=", ".join(near) or ", ".join(models[:3]),
    )
