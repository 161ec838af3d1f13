"""`python -m benchmarks.page [--json] [--streams N] [--seconds S]`: what the page costs the one who looks, and the daemon that serves it.

Eight stand-in NVIDIA cards (tests/standins/nvml). ``first_paint_s`` is Chromium's own first-contentful-paint of the cards' page, from the
begin of the navigation, in a fresh profile each time.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anycard.web
from benchmarks.measure import cpu_s, finish, median, say, timed
from benchmarks.own_daemon import OwnDaemon, own_daemon, own_home
from benchmarks.telemetry import standin

ASSETS = Path(anycard.web.__file__).parent / "assets"
_LOADS = 7
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync")  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true")
    options.add_argument("--streams", type=int, default=100)
    options.add_argument("--seconds", type=float, default=30.0)
    told = options.parse_args()
    result: dict[str, Any] = {"assets_kb": sum(file.stat().st_size for file in ASSETS.iterdir()) / 1024}
    with tempfile.TemporaryDirectory(prefix="anycard-bench-nvml-") as folder, own_home() as home:
        os.environ.update(standin(Path(folder)))
        with own_daemon(home) as daemon:
            daemon.client.submit(command=["true"])
            cookie = _log_in(daemon)
            say(f"{told.seconds:.0f} s with nobody looking")
            result["idle_cpu_share"] = _cpu_share(daemon, told.seconds)
            say(f"{told.seconds:.0f} s with {told.streams} pages open")
            result |= _streams(daemon, cookie, told.streams, told.seconds)
            result["first_paint_s"] = _first_paint(daemon)
    finish(result, as_json=told.json)


def _log_in(daemon: OwnDaemon) -> str:
    link = urlsplit(daemon.client.page_link()["url"])
    answer = _ask(link.netloc, f"{link.path}?{link.query}", "")
    return next(line for line in answer.split("\r\n") if line.lower().startswith("set-cookie:"))[12:].partition(";")[0]


def _ask(netloc: str, path: str, cookie: str) -> str:
    with _connected(netloc, path, cookie, "close") as connection:
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer.decode("latin-1")


def _connected(netloc: str, path: str, cookie: str, how: str) -> socket.socket:
    host, _, port = netloc.partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {netloc}\r\nCookie: {cookie}\r\nConnection: {how}\r\n\r\n".encode()
    )
    return connection


def _cpu_share(daemon: OwnDaemon, seconds: float) -> float:
    before, began = cpu_s(daemon.process.pid), timed()
    time.sleep(seconds)
    return (cpu_s(daemon.process.pid) - before) / (timed() - began)


def _streams(daemon: OwnDaemon, cookie: str, count: int, seconds: float) -> dict[str, Any]:
    """CPU of the daemon while ``count`` pages follow the cards and read whatever comes."""
    netloc = urlsplit(daemon.client.page_link()["address"]).netloc
    opened = [_connected(netloc, "/page/stream?topics=cards,queue", cookie, "keep-alive") for _ in range(count)]
    time.sleep(2)
    before, began, ticks = cpu_s(daemon.process.pid), timed(), 0
    while timed() < began + seconds:
        ready, _, _ = select.select(opened, [], [], 0.5)
        ticks += sum(connection.recv(1 << 20).count(b"event: cards") for connection in ready)
    wall = timed() - began
    share = (cpu_s(daemon.process.pid) - before) / wall
    for connection in opened:
        connection.close()
    return {"streams": count, "streams_cpu_share": share, "ticks_a_page_a_second": ticks / count / wall}


def _first_paint(daemon: OwnDaemon) -> float | None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        say("no first paint: apt-get install chromium")
        return None
    from playwright.sync_api import sync_playwright

    paints = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        for _ in range(_LOADS):
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(daemon.client.page_link()["url"])
            tab.wait_for_url("**/cards")
            context.clear_cookies(name="anycard_language")
            tab.goto("about:blank")
            tab.goto(daemon.client.page_link()["address"] + "/cards")
            tab.wait_for_timeout(1500)
            paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            if paint is not None:
                paints.append(paint / 1000)
            context.close()
        browser.close()
    return median(paints) if paints else None


if __name__ == "__main__":
    main()
