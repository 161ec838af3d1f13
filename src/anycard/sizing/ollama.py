"""Models that Ollama has pulled: a name to the GGUF file that holds its weights. Nothing is asked of a running Ollama.

Layout (ollama/ollama, server/modelpath.go): ``MODELS/manifests/HOST/NAMESPACE/NAME/TAG`` is a JSON manifest whose layers name blobs by
digest, ``MODELS/blobs/sha256-HEX``. The layer ``application/vnd.ollama.image.model`` is a GGUF file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycard.errors import NotFoundError
from anycard.sizing.source import damaged

_PREFIX = "ollama:"
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\-]{0,127}")
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_MANIFEST_MAX = 4 * 1024 * 1024
_WEIGHTS = "application/vnd.ollama.image.model"
_PROJECTOR = "application/vnd.ollama.image.projector"
_ADAPTER = "application/vnd.ollama.image.adapter"
# Where Ollama's own installers put the models of its service (Linux), of Debian packages, and of a user.
_SYSTEM = ("/usr/share/ollama/.ollama/models", "/var/lib/ollama/models")


@dataclass(frozen=True, slots=True)
class Pulled:
    """``weights``: the GGUF file. ``extra_bytes``: projectors and adapters that are loaded beside it."""

    name: str
    weights: Path
    extra_bytes: int


def folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where models may lie, likeliest first: OLLAMA_MODELS alone when it is set."""
    if environ.get("OLLAMA_MODELS"):
        return (Path(environ["OLLAMA_MODELS"]),)
    home = environ.get("HOME") or environ.get("USERPROFILE")
    own = (Path(home) / ".ollama" / "models",) if home else ()
    return (*own, *(Path(path) for path in _SYSTEM))


def find(reference: str, places: Iterable[Path]) -> Pulled | None:
    """The pulled model that ``reference`` means: ``ollama:NAME[:TAG]``, or a bare ``NAME:TAG``; None when there is none of that name.

    NotFoundError for an ``ollama:`` name that is not there or whose weights are missing, HeaderError for a damaged manifest.
    """
    asked = reference.startswith(_PREFIX)
    path = _manifest_path(reference.removeprefix(_PREFIX)) if asked or ":" in reference else None
    tried = list(places)
    for place in tried:
        manifest = place / "manifests" / path if path else None
        if manifest is not None and manifest.is_file():
            return _pulled(reference.removeprefix(_PREFIX), place, manifest)
    if asked:
        raise NotFoundError(
            "Ollama has not pulled {name}; looked in {places}",
            hint="ollama pull {name}, or OLLAMA_MODELS names the folder",
            name=reference.removeprefix(_PREFIX),
            places=", ".join(map(str, tried)),
        )
    return None


def _manifest_path(name: str) -> Path | None:
    """``llama3.1:8b``, ``user/model``, ``host/user/model:tag`` as a path under manifests/; None for what is no name."""
    parts = name.split("/")
    last, _, tag = parts[-1].partition(":")
    parts = [*parts[:-1], last]
    defaults = (_HOST, _NAMESPACE)
    whole = [*defaults[: 3 - len(parts)], *parts, tag or _TAG] if len(parts) <= 3 else []
    safe = whole and all(_PART.fullmatch(part.replace(":", "_")) and set(part) != {"."} for part in whole)
    return Path(*whole) if safe else None


def _pulled(name: str, place: Path, manifest: Path) -> Pulled:
    weights: Path | None = None
    extra = 0
    for layer in _layers(manifest):
        kind, digest = layer.get("mediaType"), _DIGEST.fullmatch(str(layer.get("digest")))
        if kind not in (_WEIGHTS, _PROJECTOR, _ADAPTER) or digest is None:
            continue
        blob = place / "blobs" / f"sha256-{digest[1]}"
        if not blob.is_file():
            raise NotFoundError(
                "{name}: Ollama's manifest names {file}, which is missing",
                hint="ollama pull {name}",
                name=name,
                file=blob.name,
            )
        if kind == _WEIGHTS and weights is None:
            weights = blob
        else:
            extra += blob.stat().st_size
    if weights is None:
        raise NotFoundError("{name}: Ollama's manifest names no weights", name=name)
    return Pulled(name, weights, extra)


def _layers(manifest: Path) -> list[dict[str, Any]]:
    if manifest.stat().st_size > _MANIFEST_MAX:
        raise damaged(manifest.name, "it is too large for a manifest")
    try:
        content = json.loads(manifest.read_bytes())
        layers = content["layers"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(manifest.name, "it is no manifest of Ollama's") from error
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise damaged(manifest.name, "it is no manifest of Ollama's")
    return layers
