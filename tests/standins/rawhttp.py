"""Requests to the daemon's socket as bytes, so that also what no honest client sends can be sent."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycard.config import Paths


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def connect(home: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(Paths(home).socket))
    return connection


def read_answer(connection: socket.socket) -> Answered | None:
    """One whole answer with a length; None when the daemon closed without a word."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return Answered(int(first.split()[1]), headers, body)


def ask(home: Path, method: str, path: str, body: Any = None, headers: str = "") -> Answered:
    """One request as bytes, so that also what no client would send can be sent."""
    payload = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
    with connect(home) as connection:
        connection.sendall(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode("latin-1") + payload)
        answer = read_answer(connection)
    assert answer is not None
    return answer
