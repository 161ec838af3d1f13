"""The reverse proxy of docs/access.md: a real nginx with a certificate of our own, before a real daemon."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from called import Cli, until

NAME = "cards.example.org"
TOKEN = "kTq3v0yPzQ8mJw5sXcRb7NfL2aHdUeGi"
PAGE = (Path(__file__).parents[2] / "docs" / "access.md").read_text()


def shown(file: str) -> str:
    """A file that the page shows."""
    return re.search(rf"<!-- file: {re.escape(file)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)[1]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@dataclass(frozen=True)
class Proxy:
    cli: Cli
    port: int
    certificate: Path

    def connect(self, name: str = NAME) -> http.client.HTTPSConnection:
        """A TLS connection to the proxy for ``name``, whatever that name resolves to."""
        context = ssl.create_default_context(cafile=os.fspath(self.certificate))
        context.check_hostname = name == NAME
        made = http.client.HTTPSConnection(name, self.port, context=context, timeout=60)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        made.sock = context.wrap_socket(raw, server_hostname=name)
        return made

    def ask(self, method: str, path: str, *, token: str | None = None, body: bytes | None = None, **headers: str):
        """(status, headers, body)."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        connection = self.connect()
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    nginx, openssl = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx and openssl are not installed: apt-get install nginx-light openssl")
    folder = tmp_path_factory.mktemp("proxy")
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    cli = Cli(folder / "home", {"ANYCARD_TOKEN_FILE": str(token)})
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.toml").touch(mode=0o600)
    (cli.home / "config.toml").write_text(shown("config.toml"))
    url = cli.json("up", "-d", "--port", "0")["url"]
    certificate, key = folder / "anycard.pem", folder / "anycard.key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate,
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"], check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    port = free_port()
    site = shown("anycard.nginx").replace("127.0.0.1:8470", url.removeprefix("http://"))
    site = site.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    site = site.replace("/etc/nginx/anycard", f"{folder}/anycard")
    scratch = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"user {pwd.getpwuid(os.getuid()).pw_name};\ndaemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{scratch}{site}\n}}\n"
    )
    with (folder / "nginx.log").open("wb") as log:
        running = subprocess.Popen([nginx, "-p", folder, "-c", folder / "nginx.conf"], stdout=log, stderr=log)
    made = Proxy(cli, port, certificate)

    def answers() -> bool:
        assert running.poll() is None, (folder / "nginx.log").read_text()
        try:
            return made.ask("GET", "/v1/status", token=TOKEN)[0] == 200
        except ConnectionRefusedError:
            return False

    until(answers)
    yield made
    running.terminate()
    running.wait(timeout=60)
    cli("down", "--stop")
    assert TOKEN not in (folder / "nginx.log").read_text() + (cli.home / "daemon.log").read_text()


def test_the_api_by_its_token(proxy):
    status, headers, body = proxy.ask("GET", "/v1/status", token=TOKEN)
    assert (status, json.loads(body)["home"]) == (200, str(proxy.cli.home))
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    assert proxy.ask("GET", "/metrics", token=TOKEN)[0] == 200
    for wrong in (None, "", TOKEN[:-1]):
        assert proxy.ask("GET", "/v1/status", token=wrong)[0] == 403
        assert proxy.ask("GET", "/metrics", token=wrong)[0] == 403


def test_a_page_of_another_site_gets_nowhere(proxy):
    for path in ("/v1/status", "/v1/jobs"):
        assert proxy.ask("GET", path, token=TOKEN, Origin="https://evil.example")[0] == 403
    body = urlencode({"code": "x"}).encode()
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert proxy.ask("POST", "/login", body=body, Origin="https://evil.example", **form)[0] == 403


def test_another_name_gets_no_answer(proxy):
    connection = proxy.connect("evil.example")
    connection.request("GET", "/v1/status", headers={"Authorization": f"Bearer {TOKEN}"})
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        connection.getresponse()
    connection.close()
    connection = proxy.connect()  # the right name in the handshake and a wrong one in the request
    connection.request("GET", "/", headers={"Host": "evil.example"})
    try:
        assert connection.getresponse().status in (400, 403, 421)
    except (http.client.RemoteDisconnected, ConnectionResetError):
        pass
    connection.close()


def test_log_in_to_the_page(proxy):
    status, _, _ = proxy.ask("GET", "/jobs")
    assert status == 401
    link = proxy.cli.json("up", "-d")["page"]
    path = "/" + link.split("/", 3)[3]
    status, headers, body = proxy.ask("GET", path)
    cookies = headers.get_all("Set-Cookie") or []
    if not any("anycard_" in cookie for cookie in cookies):  # a page that asks for a press of a button first
        asked = re.search(rb'name="code" value="([^"]+)"', body)
        code = asked[1].decode() if asked else path.partition("code=")[2]
        status, headers, body = proxy.ask(
            "POST", "/login", body=urlencode({"code": code}).encode(), Origin=f"https://{NAME}:{proxy.port}",
            Content_Type="application/x-www-form-urlencoded",
        )  # fmt: skip
        cookies = headers.get_all("Set-Cookie") or []
    session = "; ".join(cookie.partition(";")[0] for cookie in cookies)
    assert session, (status, body)
    assert all("HttpOnly" in cookie for cookie in cookies if "anycard_" in cookie and "language" not in cookie)
    assert proxy.ask("GET", "/jobs", Cookie=session)[0] == 200
    assert proxy.ask("GET", "/v1/jobs", Cookie=session)[0] == 403  # the API takes no cookie


def test_a_followed_log_comes_as_it_is_written(proxy):
    go = proxy.cli.folder / "go"
    job = proxy.cli.submit(f"run: |\n  echo first\n  while [ ! -e {go} ]; do sleep 0.1; done\n  echo second\n")
    connection = proxy.connect()
    connection.request("GET", f"/v1/jobs/{job}/log?follow=1", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    seen = b""
    while b"first\n" not in seen:
        seen += answer.read1(65536)
    assert b"second" not in seen  # the job waits for us: what was read came through while it runs
    go.touch()
    seen += answer.read()
    assert b"second\n" in seen
    connection.close()


def test_a_large_body(proxy):
    big = json.dumps({"command": ["true"], "cwd": "/", "submit_key": "large-0000", "env": {"X": "y" * 2**21}}).encode()
    json_type = {"Content_Type": "application/json"}
    assert proxy.ask("POST", "/v1/jobs", token=TOKEN, body=big, **json_type)[0] == 201
    connection = proxy.connect()
    connection.putrequest("POST", "/v1/jobs")
    connection.putheader("Content-Length", str(41 * 2**20))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_the_command_line_over_tls(proxy):
    """By the name localhost, which the certificate does not have: refused; and with the right name and its authority: served."""
    url = f"https://127.0.0.1:{proxy.port}"
    env = {"ANYCARD_URL": url, "ANYCARD_TOKEN": TOKEN, "ANYCARD_HOME": "", "SSL_CERT_FILE": str(proxy.certificate)}
    refused = proxy.cli("jobs", env=env)
    assert refused.returncode == 125
    assert b"certificate" in refused.stderr.lower()
    hosts = proxy.cli.folder / "sitecustomize.py"  # names resolve here as a name server would have it
    hosts.write_text(
        "import socket\nasked = socket.getaddrinfo\n"
        f"socket.getaddrinfo = lambda host, *more, **named: asked('127.0.0.1' if host == '{NAME}' else host, *more, **named)\n"
    )
    env |= {"ANYCARD_URL": f"https://{NAME}:{proxy.port}", "PYTHONPATH": str(proxy.cli.folder)}
    ran = proxy.cli("run", "--", "echo", "over tls", env=env)
    assert (ran.returncode, ran.stdout) == (0, b"over tls\n"), ran.stderr
