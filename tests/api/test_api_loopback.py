"""Loopback TCP: the token is shown once, only its hash is kept, and no page of another site gets through."""

from __future__ import annotations

import hashlib
import re
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rawhttp import read_answer

from anycard.api.client import Client
from anycard.errors import ForbiddenError


@pytest.fixture
def up(fresh):
    told = fresh.json("up", "-d", "--port", "0")
    return fresh, told["url"], told["token"]


def asked(url: str, *headers: str, method: str = "GET", path: str = "/v1/status"):
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        lines = "".join(f"{header}\r\n" for header in headers)
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{lines}Content-Length: 0\r\n\r\n".encode("latin-1"))
        answer = read_answer(connection)
    assert answer is not None
    return answer


def test_only_with_the_token(up):
    _, url, token = up
    host, right = f"Host: {urlsplit(url).netloc}", f"Authorization: Bearer {token}"
    assert asked(url, host, right).status == 200
    for wrong in ([], ["Authorization: Bearer"], ["Authorization: Bearer "], [f"Authorization: Basic {token}"],
                  [f"Authorization: Bearer {token}x"], ["Authorization: Bearer \xff"], [f"X-Token: {token}"]):  # fmt: skip
        refused = asked(url, host, *wrong)
        assert refused.status == 403, wrong
        assert refused.json["error"]["code"] == "forbidden"
    for path in (
        "/v1/jobs",
        "/v1/jobs/1",
        "/v1/jobs/1/log",
        "/v1/jobs/1/items",
        "/v1/jobs/1/events",
        "/v1/jobs/1/watch",
        "/v1/cards",
    ):
        assert asked(url, host, path=path).status == 403, path
    for path in ("/v1/jobs/1/hold", "/v1/jobs/1/cancel", "/v1/jobs/1/release"):
        assert asked(url, host, method="POST", path=path).status == 403, path


@pytest.mark.parametrize(
    "foreign", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "localhost@evil.example:1"]
)
def test_not_for_a_foreign_host(up, foreign):
    _, url, token = up
    assert asked(url, f"Host: {foreign}", f"Authorization: Bearer {token}").status in (400, 403)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost.evil.example", "http://evil.example//localhost", "x"]
)
def test_not_from_a_foreign_origin(up, origin):
    _, url, token = up
    host, right = f"Host: {urlsplit(url).netloc}", f"Authorization: Bearer {token}"
    assert asked(url, host, right, f"Origin: {origin}").status == 403
    assert asked(url, host, right, f"Origin: {url}").status == 200


def test_only_a_hash_of_the_token_is_kept(up):
    cli, url, token = up
    cli("run", "--", "true")
    with Client(url=url, token="not-the-token-4711") as client, pytest.raises(ForbiddenError):
        client.status()
    kept = cli.home / "token"
    assert kept.read_text().strip() == hashlib.sha256(token.encode()).hexdigest()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for path in cli.home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert token.encode() not in data, path
            assert b"not-the-token-4711" not in data, path


def test_it_listens_on_loopback_alone(up):
    _, url, _ = up
    port = f"{urlsplit(url).port:04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    listening = [line[1] for line in lines if line[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{port}")] == [f"0100007F:{port}"]


def test_the_client_and_the_command_line_speak_over_it(up):
    cli, url, token = up
    with Client(url=url, token=token) as client:
        job = client.submit(command=["echo", "over tcp"])["jobs"][0]["id"]
        assert list(client.watch(job))[-1]["job"]["state"] == "succeeded"
        assert b"over tcp" in b"".join(client.log(job))
    env = {"ANYCARD_URL": url, "ANYCARD_TOKEN": token, "ANYCARD_HOME": ""}
    ran = cli("run", "--", "echo", "hello", env=env)
    assert (ran.returncode, ran.stdout) == (0, b"hello\n"), ran.stderr
    wrong = cli("jobs", env={**env, "ANYCARD_TOKEN": "wrong"})
    assert wrong.returncode == 2
    assert b"token" in wrong.stderr


def test_the_next_daemon_has_another_token_and_without_a_port_none_counts(up):
    cli, url, token = up
    cli("down")
    port = str(urlsplit(url).port)
    again = cli.json("up", "-d", "--port", port)
    assert re.search(rf":{port}$", again["url"])
    with Client(url=again["url"], token=token) as client, pytest.raises(ForbiddenError):
        client.status()
    with Client(url=again["url"], token=again["token"]) as client:
        assert client.status()["home"] == str(cli.home)


def test_a_taken_port_is_said(up, tmp_path):
    cli, url, _ = up
    told = cli("--home", str(tmp_path / "other"), "up", "-d", "--port", str(urlsplit(url).port))
    assert told.returncode == 125
    assert f"port {urlsplit(url).port} cannot be had".encode() in told.stderr
