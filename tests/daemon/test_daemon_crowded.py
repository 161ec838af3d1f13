"""Whoever is on the machine may connect to the page's port: that must take from nobody's jobs."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from called import ANYCARD, Cli

LIMIT = 512  # of open files; a login session has 1024
CALLERS = 700


@pytest.fixture
def cli(tmp_path: Path):
    """A home whose daemon was started from a shell with a small limit of open files."""
    made = Cli(tmp_path / "home")
    subprocess.run(
        ["sh", "-c", f'ulimit -S -n {LIMIT}; exec "$@"', "sh", *ANYCARD, "up", "-d"],
        env=made.environ, cwd=tmp_path, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    yield made
    made("down", "--stop")


def _told(connection: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return connection.recv(9)
    return b""


def test_many_silent_callers_keep_no_job_from_its_end(cli):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < CALLERS + 100:
        pytest.skip(f"this test opens {CALLERS} connections: ulimit -n {CALLERS + 100}")
    page = urlsplit(cli.json("up", "-d")["page"])
    with contextlib.ExitStack() as callers:
        for _ in range(CALLERS):
            with contextlib.suppress(ConnectionError):
                callers.enter_context(socket.create_connection((page.hostname, page.port), timeout=60))
        done = cli("run", "--", "sh", "-c", "ulimit -S -n; exit 3")
        assert done.returncode == 3, done.stderr
        assert done.stdout.split()[0] == b"%d" % LIMIT  # the daemon may have more; programs get what they always had
        assert len(os.listdir(f"/proc/{cli.json('status')['pid']}/fd")) < CALLERS
    assert "Too many open files" not in (cli.home / "daemon.log").read_text()


def test_a_stranger_is_not_listened_to_for_long(cli):
    page = urlsplit(cli.json("up", "-d")["page"])
    for path in ("/v1/jobs", "/v1/prune", "/doctor/evidence", "/login"):
        with socket.create_connection((page.hostname, page.port), timeout=60) as stranger:
            head = f"POST {path} HTTP/1.1\r\nHost: {page.netloc}\r\nOrigin: http://{page.netloc}\r\n"
            kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10000000\r\n\r\n"
            stranger.sendall((head + kind).encode() + b"a" * 100_000)
            assert _told(stranger) == b"HTTP/1.1 ", path  # without the other 9,900,000 bytes
