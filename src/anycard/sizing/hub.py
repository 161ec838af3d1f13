"""Headers of a model on a hub, by range requests: a few hundred kilobytes of a terabyte. Only when asked (`--fetch`).

Speaks what huggingface.co and its mirrors do: ``ENDPOINT/ORG/NAME/resolve/REVISION/FILE`` with HTTP ranges. HF_ENDPOINT names another.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from anycard.errors import NotFoundError, UnavailableError, UsageError
from anycard.sizing.files import Model, model_from_parts, model_of_gguf
from anycard.sizing.gguf_header import read_gguf_header
from anycard.sizing.safetensors_header import read_safetensors_header
from anycard.sizing.source import damaged, truncated
from anycard.sizing.weights import Tensor

ENDPOINT = "https://huggingface.co"
_REFERENCE = re.compile(r"^[\w.-]+/[\w.-]+(/[\w./-]+\.gguf)?$")
_TIMEOUT_S = 20.0
_WINDOW = 256 * 1024
_CONFIG_MAX = 32 * 1024 * 1024
_AT_ONCE = 8
_SHARDS_MAX = 10_000


class RangeSource:
    """A file on a web server as a ByteSource. Its first window is fetched at once: most headers fit."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._window, self.size = _get(url, name, 0, _WINDOW)

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise truncated(self.name, offset, length, self.size)
        if offset + length <= len(self._window):
            return self._window[offset : offset + length]
        content, _ = _get(self._url, self.name, offset, length)
        if len(content) != length:
            raise truncated(self.name, offset, length, self.size)
        return content


def load_remote(reference: str, endpoint: str = ENDPOINT, revision: str = "main") -> Model:
    """``ORG/NAME``, or ``ORG/NAME/FILE.gguf``. Raises NotFoundError, UnavailableError (no network), HeaderError or ConfigError."""
    if not _REFERENCE.match(reference) or ".." in reference:
        raise UsageError("{name} is no model on a hub", hint="write ORG/NAME or ORG/NAME/FILE.gguf", name=reference)
    if not endpoint.startswith(("https://", "http://")):
        raise UsageError("{endpoint} is no web address", endpoint=endpoint)
    org, name, *file = reference.split("/", 2)
    base = f"{endpoint.rstrip('/')}/{quote(org)}/{quote(name)}/resolve/{quote(revision)}/"
    if file:
        header = read_gguf_header(RangeSource(base + quote(file[0]), file[0].rsplit("/", 1)[-1]))
        return model_of_gguf(header, name, base + file[0])
    config = _json(base, "config.json")
    index = _json(base, "model.safetensors.index.json", missing_ok=True)
    shards = sorted({str(shard) for shard in index["weight_map"].values()}) if index else ["model.safetensors"]
    if len(shards) > _SHARDS_MAX or any("/" in shard or not shard.endswith(".safetensors") for shard in shards):
        raise damaged("model.safetensors.index.json", "it names files that are no shards")
    with ThreadPoolExecutor(min(_AT_ONCE, len(shards))) as pool:
        read = list(pool.map(lambda shard: read_safetensors_header(RangeSource(base + quote(shard), shard)), shards))
    tensors: tuple[Tensor, ...] = tuple(tensor for part in read for tensor in part)
    return model_from_parts(config, tensors, name, base)


def _json(base: str, file: str, *, missing_ok: bool = False) -> Mapping[str, Any]:
    try:
        content, size = _get(base + file, file, 0, _CONFIG_MAX)
    except NotFoundError:
        if missing_ok:
            return {}
        raise
    try:
        value = json.loads(content) if size <= _CONFIG_MAX else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or (file.endswith("index.json") and not isinstance(value.get("weight_map"), dict)):
        raise damaged(file, "it is not the JSON that it should be")
    return value


def _get(url: str, name: str, offset: int, length: int) -> tuple[bytes, int]:
    """(bytes from ``offset``, at most ``length``; the file's whole size)."""
    headers = {"Range": f"bytes={offset}-{offset + length - 1}", "User-Agent": "anycard"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  the scheme was checked
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310  the scheme was checked
            whole = re.search(r"/(\d+)$", answer.headers.get("Content-Range", ""))
            if answer.status == 200 and offset:
                raise UnavailableError("{name}: the server does not answer ranges", name=name)
            content = answer.read(length)
            size = int(whole[1]) if whole else int(answer.headers.get("Content-Length") or len(content))
            return content, size
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise NotFoundError(
                "{name}: the hub asks for a login",
                hint="download the model with your own account and give its folder",
                name=name,
            ) from None
        if error.code == 404:
            raise NotFoundError("the hub has no {url}", url=url) from None
        raise UnavailableError("{name}: the hub answers {code}", name=name, code=error.code) from None
    except (urllib.error.URLError, HTTPException, TimeoutError, OSError) as error:
        raise UnavailableError(
            "the hub cannot be reached: {reason}",
            hint="anycard fit works offline with a folder, a .gguf file or a name that --models lists",
            reason=str(getattr(error, "reason", error))[:200],
        ) from None
