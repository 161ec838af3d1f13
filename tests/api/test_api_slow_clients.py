"""Clients that stall, leave or never read cost the daemon nothing that grows, and nobody else their turn."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest
from called import until
from rawhttp import ask, connect

from anycard.config import Paths
from anycard.units import MIB

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")


def daemon(cli) -> psutil.Process:
    with cli.client() as client:
        return psutil.Process(client.status()["pid"])


def descriptors(process: psutil.Process) -> int:
    return process.num_fds()


def works(cli) -> bool:
    return cli.ran("run: 'true'\n")["state"] == "succeeded"


def get(connection: socket.socket, path: str) -> None:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def test_a_log_that_is_followed_and_never_read_is_not_gathered(cli):
    job = cli.submit("run: head -c 400000000 /dev/zero | tr '\\0' 'x'; sleep 600\n")
    until(lambda: ask(cli.home, "GET", f"/v1/jobs/{job}/log?tail=0").status == 200)
    log = Path(next(iter(cli.client().all_items(job)))["log"])
    process = daemon(cli)
    readers = [connect(cli.home) for _ in range(8)]
    for reader in readers:
        get(reader, f"/v1/jobs/{job}/log?follow=1")
        assert reader.recv(100)
    until(lambda: log.stat().st_size > 400_000_000)
    before = process.memory_info().rss
    for _ in range(20):
        assert ask(cli.home, "GET", "/v1/status").status == 200
    assert works(cli)
    assert process.memory_info().rss - before < 30 * MIB
    for reader in readers:
        reader.close()
    cli("cancel", str(job))
    cli.over(job)
    log.unlink()


def test_a_watch_that_is_never_read_is_not_gathered(cli):
    job = cli.submit("run: 'true'\nanycard: {foreach: {count: 300}}\n", options={"held": True})
    process = daemon(cli)
    watchers = [connect(cli.home) for _ in range(20)]
    for watcher in watchers:
        watcher.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        get(watcher, f"/v1/jobs/{job}/watch")
        assert watcher.recv(100)
    before = process.memory_info().rss
    assert cli("release", str(job)).returncode == 0
    assert cli.over(job)["counts"]["succeeded"] == 300
    assert process.memory_info().rss - before < 40 * MIB
    for watcher in watchers:
        watcher.close()
    assert works(cli)


def test_half_requests_block_nobody(cli):
    halves = [connect(cli.home) for _ in range(50)]
    for at, half in enumerate(halves):
        start = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{" if at % 2 else b"GET /v1/jo"
        half.sendall(start)
    assert works(cli)
    for half in halves:
        half.close()


def test_clients_that_leave_in_the_middle_leave_nothing_behind(cli):
    held = cli.submit("run: 'true'\n", options={"held": True})
    works(cli)
    process = daemon(cli)
    base = until(lambda: descriptors(process))
    ways = (
        b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET /v1/jobs/{held}/watch HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"GET /v1/jobs/{held}/log?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
        b"GET /v1",
    )
    for at in range(200):
        connection = connect(cli.home)
        connection.sendall(ways[at % len(ways)])
        if at % 3 == 0 and at % len(ways) == 1:
            connection.recv(100)
        connection.close()
    until(lambda: descriptors(process) <= base + 3)
    assert works(cli)
    until(lambda: descriptors(process) <= base + 3)
    cli("cancel", str(held))


@pytest.mark.slow
def test_two_thousand_jobs_leave_no_descriptor_no_thread_and_no_process(cli):
    supervisor_socket = Paths(cli.home).supervisor_socket
    assert works(cli)
    process = daemon(cli)

    def counts() -> tuple[int, int, int]:
        supervisor = next(child for child in psutil.process_iter() if _is_supervisor(child, str(supervisor_socket)))
        return process.num_fds(), process.num_threads(), supervisor.num_fds()

    job = cli.submit("run: 'true'\nanycard: {foreach: {count: 200}}\n")
    assert cli.over(job)["state"] == "succeeded"
    base = counts()
    job = cli.submit("run: 'true'\nanycard: {foreach: {count: 2000}}\n")
    assert cli.over(job)["counts"]["succeeded"] == 2000
    until(lambda: all(now <= then + 3 for now, then in zip(counts(), base, strict=True)))
    assert not [child for child in process.children(recursive=True) if child.status() == psutil.STATUS_ZOMBIE]


def _is_supervisor(process: psutil.Process, socket_path: str) -> bool:
    try:
        return socket_path in process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False
