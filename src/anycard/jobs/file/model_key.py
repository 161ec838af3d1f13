"""``anycard.model``: which model the job runs, so that it can be sized before it waits for a card."""

from __future__ import annotations

from anycard.jobs.file.faults import Faults, nearest
from anycard.jobs.file.nodes import Node, Scalar
from anycard.jobs.file.readers import Section, read_choice, read_flag, read_mapping, read_text, read_whole
from anycard.jobs.spec import ModelAsk
from anycard.sizing.quantization import CACHE_BYTES, names, scheme

KEYS = ("name", "task", "context", "batch", "quant", "server", "cache", "rank", "checkpointing", "too_large")
TASKS = ("infer", "lora", "qlora", "full", "train")
SERVERS = ("transformers", "llama.cpp", "vllm", "ollama")
MAX_CONTEXT = 100_000_000
MAX_BATCH = 1_000_000
MAX_RANK = 65_536


def read_model(node: Node, faults: Faults) -> ModelAsk | None:
    """A name or path alone, or a mapping with ``name``. None, with a fault, for anything else."""
    path = "anycard.model"
    if isinstance(node, Scalar):
        if node.text.strip():
            return ModelAsk(name=node.text)
        faults.add(node.place, "{key} wants a model: a folder, a .gguf file, or a name", key=path)
        return None
    mapping = read_mapping(node, path, faults)
    if mapping is None:
        return None
    section = Section(mapping, path, faults, KEYS)
    get, called = section.get, section.name
    name = read_text(found, called("name"), faults) if (found := get("name")) else None
    if not name:
        faults.add(mapping.place, "{key} wants a model: a folder, a .gguf file, or a name", key=called("name"))
    given = {
        "task": read_choice(found, called("task"), faults, TASKS) if (found := get("task")) else None,
        "context": _whole(section, "context", MAX_CONTEXT, faults),
        "batch": _whole(section, "batch", MAX_BATCH, faults),
        "quant": _quant(found, called("quant"), faults) if (found := get("quant")) else None,
        "server": read_choice(found, called("server"), faults, SERVERS) if (found := get("server")) else None,
        "cache": read_choice(found, called("cache"), faults, tuple(CACHE_BYTES)) if (found := get("cache")) else None,
        "rank": _whole(section, "rank", MAX_RANK, faults),
        "checkpointing": read_flag(found, called("checkpointing"), faults) if (found := get("checkpointing")) else None,
        "too_large": read_choice(found, called("too_large"), faults, ("refuse", "warn"))
        if (found := get("too_large"))
        else None,
    }
    return ModelAsk.model_validate(
        {"name": name or "?", **{key: value for key, value in given.items() if value is not None}}
    )


def _whole(section: Section, key: str, most: int, faults: Faults) -> int | None:
    node = section.get(key)
    return read_whole(node, section.name(key), faults, least=1, most=most) if node else None


def _quant(node: Node, key: str, faults: Faults) -> str | None:
    text = read_text(node, key, faults)
    if text is None:
        return None
    try:
        return scheme(text).name
    except KeyError:
        faults.add(
            node.place,
            "{key}: no weight format is called {value}",
            key=key,
            value=text,
            nearest=nearest(text.lower(), names()),
        )
        return None
