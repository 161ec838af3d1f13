"""A receiver of webhooks: a real HTTP server on loopback that answers as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Post:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """``answers`` are used up in order, then ``status`` and ``body`` hold. ``drips``: its answer has no end."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    answers: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    status: int = 200
    body: bytes = b"ok"
    drips: str = ""  # "head" or "body": where the answer has no end
    raw: bytes = b""  # the whole answer, as it is
    over: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)  # methods other than POST


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.posts.append(Post(self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            if receiver.drips:
                self._drip()
                return
            if receiver.raw:
                self.wfile.write(receiver.raw)
                return
            default = (receiver.status, receiver.body, {})
            status, answer, headers = receiver.answers.pop(0) if receiver.answers else default
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            receiver.asked.append("GET")
            self.send_response(200)
            self.end_headers()

        def _drip(self) -> None:
            try:
                if receiver.drips == "body":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
                while not receiver.over.wait(0.05):
                    self.wfile.write(b".")
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            return

    return Handler


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(made)) as server:
        server.daemon_threads = True
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        made.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def wait() -> Callable[[Callable[[], Any]], Any]:
    def until(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.02)
        raise AssertionError("it never came")

    return until
