"""Models that Ollama has pulled, found by name in a folder laid out as Ollama lays it out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizing_headers import tiny_llama

from anycard.errors import NotFoundError
from anycard.sizing.files import load_model
from anycard.sizing.ollama import find, folders
from anycard.sizing.source import HeaderError

WEIGHTS = "application/vnd.ollama.image.model"


def pull(models: Path, place: str, layers: list[tuple[str, bytes]]) -> Path:
    """Writes a manifest at ``place`` (HOST/NAMESPACE/NAME/TAG) and its blobs."""
    listed = []
    for kind, content in layers:
        digest = hashlib.sha256(content).hexdigest()
        blob = models / "blobs" / f"sha256-{digest}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        listed.append({"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)})
    manifest = models / "manifests" / place
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": listed}))
    return manifest


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    pull(
        folder,
        "registry.ollama.ai/library/tiny/2l",
        [(WEIGHTS, tiny_llama()), ("application/vnd.ollama.image.template", b"{{ .Prompt }}")],
    )
    pull(folder, "hf.co/someone/tiny/latest", [(WEIGHTS, tiny_llama())])
    return folder


def test_a_pulled_model_is_its_gguf(models: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(tiny_llama())
    found = load_model("tiny:2l", environ={"OLLAMA_MODELS": str(models)})
    assert found.weights == load_model(str(plain)).weights
    assert (found.shape.name, found.file_format, found.shape.n_layer) == ("tiny:2l", "gguf", 2)


def test_names_with_prefix_host_and_default_tag(models: Path) -> None:
    environ = {"OLLAMA_MODELS": str(models)}
    assert load_model("ollama:tiny:2l", environ=environ).weights.exact
    assert load_model("ollama:hf.co/someone/tiny", environ=environ).shape.n_layer == 2


def test_a_projector_counts_as_weights(models: Path) -> None:
    projector = b"P" * 4096
    pull(
        models,
        "registry.ollama.ai/library/seer/latest",
        [(WEIGHTS, tiny_llama()), ("application/vnd.ollama.image.projector", projector)],
    )
    environ = {"OLLAMA_MODELS": str(models)}
    bare, whole = (load_model(name, environ=environ).weights for name in ("tiny:2l", "ollama:seer"))
    assert whole.total_bytes == bare.total_bytes + len(projector)


def test_where_models_lie() -> None:
    assert folders({"OLLAMA_MODELS": "/m", "HOME": "/h"}) == (Path("/m"),)
    assert folders({"HOME": "/h"})[0] == Path("/h/.ollama/models")
    assert Path("/usr/share/ollama/.ollama/models") in folders({})


def test_what_is_not_there(models: Path) -> None:
    assert find("tiny:8b", [models]) is None
    assert find("Qwen3-8B", [models]) is None  # a bare name is one of our own table
    with pytest.raises(NotFoundError, match="has not pulled tiny:8b"):
        find("ollama:tiny:8b", [models])
    with pytest.raises(NotFoundError, match="no model is called tiny:8b"):
        load_model("tiny:8b", environ={"OLLAMA_MODELS": str(models)})


def test_damaged_manifests(models: Path) -> None:
    manifest = models / "manifests/registry.ollama.ai/library/bad/latest"
    manifest.parent.mkdir(parents=True)
    for text in ("", "{", "[]", '{"layers": 1}', '{"layers": [1]}', "[" * 100_000):
        manifest.write_text(text)
        with pytest.raises(HeaderError):
            find("ollama:bad", [models])
    manifest.write_text('{"layers": []}')
    with pytest.raises(NotFoundError, match="names no weights"):
        find("ollama:bad", [models])
    manifest.write_text(json.dumps({"layers": [{"mediaType": WEIGHTS, "digest": "sha256:" + "0" * 64}]}))
    with pytest.raises(NotFoundError, match="which is missing"):
        find("ollama:bad", [models])
    manifest.write_text(json.dumps({"layers": [{"mediaType": WEIGHTS, "digest": "sha256:../../../../etc/passwd"}]}))
    with pytest.raises(NotFoundError, match="names no weights"):
        find("ollama:bad", [models])


@given(st.text(max_size=40))
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    """Whatever the name, what is looked at lies under manifests/."""
    looked: list[Path] = []

    class Place(type(Path())):  # type: ignore[misc]
        def __truediv__(self, other: object) -> Path:
            joined = Path(self) / str(other)
            looked.append(joined)
            return Place(joined)

        def is_file(self) -> bool:
            return False

    if "\0" in name:
        return
    assert find(name if ":" in name else f"{name}:x", [Place("/models")]) is None or not looked
    for path in looked:
        assert ".." not in path.parts
        assert path.parts[:3] == ("/", "models", "manifests")
