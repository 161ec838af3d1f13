"""Headers by range requests, from a real web server on loopback that counts what it sends."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from sizing_headers import safetensors, tiny_llama

from anycard.errors import NotFoundError, UnavailableError, UsageError
from anycard.sizing.hub import load_remote
from anycard.sizing.source import HeaderError

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


@pytest.fixture
def hub():
    files: dict[str, bytes] = {}
    sent: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = files.get(self.path)
            if content is None:
                self.send_error(401 if "secret" in self.path else 404)
                return
            asked = re.match(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            part = content[first : last + 1]
            sent.append(len(part))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", files, sent
    server.shutdown()
    server.server_close()


def put(files, name: str, content: bytes | dict) -> None:
    files[f"/org/m/resolve/main/{name}"] = content if isinstance(content, bytes) else json.dumps(content).encode()


def test_a_sharded_model_by_its_headers_alone(hub):
    endpoint, files, sent = hub
    put(files, "config.json", CONFIG)
    names = [f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)]
    put(files, "model.safetensors.index.json", {"weight_map": {f"t{at}": name for at, name in enumerate(names)}})
    for at, name in enumerate(names):
        put(files, name, safetensors({f"model.layers.{at}.w": ("F32", [1_000_000], 4_000_000)}))
    model = load_remote("org/m", endpoint)
    assert model.weights.exact and model.weights.total_bytes == 12_000_000
    assert sum(sent) < 1_000_000


def test_a_header_longer_than_the_first_window(hub):
    endpoint, files, _ = hub
    put(files, "config.json", CONFIG)
    put(
        files,
        "model.safetensors",
        safetensors({f"model.layers.{at}.w.{'x' * 80}": ("U8", [1], 1) for at in range(4000)}),
    )
    assert load_remote("org/m", endpoint).weights.total_bytes == 4000


def test_a_gguf_file(hub):
    endpoint, files, _ = hub
    put(files, "tiny.gguf", tiny_llama())
    model = load_remote("org/m/tiny.gguf", endpoint)
    assert model.file_format == "gguf" and model.shape.n_layer == 2


def test_what_is_missing_or_closed_is_named(hub):
    endpoint, _, _ = hub
    with pytest.raises(NotFoundError, match=r"config\.json"):
        load_remote("org/m", endpoint)
    with pytest.raises(NotFoundError, match="login"):
        load_remote("org/secret", endpoint)


@pytest.mark.parametrize("index", [[], {"weight_map": []}, {"weight_map": {"a": "../../etc/passwd"}}])
def test_a_hostile_index_is_named(hub, index):
    endpoint, files, _ = hub
    put(files, "config.json", CONFIG)
    put(files, "model.safetensors.index.json", json.dumps(index).encode())
    with pytest.raises(HeaderError):
        load_remote("org/m", endpoint)


@pytest.mark.parametrize("name", ["m", "org/../m", "a/b/c", "org/m?x=1", "http://x/y", ""])
def test_names_that_are_none(name):
    with pytest.raises(UsageError):
        load_remote(name, "http://127.0.0.1:9")


def test_no_network_says_what_works_without():
    with pytest.raises(UnavailableError) as caught:
        load_remote("org/m", "http://127.0.0.1:9")
    assert "offline" in caught.value.to_json()["hint"]


def test_only_web_addresses():
    with pytest.raises(UsageError):
        load_remote("org/m", "file:///etc")
