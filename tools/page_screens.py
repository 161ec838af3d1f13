"""Takes the page's pictures in docs/img/ again: the real page of a daemon with stand-in cards, in Debian's Chromium.

python tools/page_screens.py        cards, a job, the queue; light and dark, two languages
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PICTURES = PROJECT / "docs" / "img"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars")  # fmt: skip
SEEN_S = 60.0  # of readings before the cards are drawn
CARDS = (
    ("NVIDIA GeForce RTX 4090", 24, 92, 21.3, 71, 402),
    ("NVIDIA GeForce RTX 4090", 24, 64, 11.8, 66, 298),
    ("NVIDIA GeForce RTX 4090", 24, 0, 0.4, 38, 24),
    ("NVIDIA GeForce RTX 4090", 24, 0, 0.4, 41, 27),
)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="anycard-page-") as folder:
        env = _environment(Path(folder))
        try:
            _call(env, "up", "-d")
            _work(env)
            _shoot(env, Path(folder) / "cards.txt")
        finally:
            _call(env, "down", "--stop")
    return 0


def _environment(folder: Path) -> dict[str, str]:
    sys.path.insert(0, str(PROJECT / "tests" / "standins"))
    import nvml_standin

    library = nvml_standin.build(folder)
    _describe(folder / "cards.txt", 0)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANYCARD_")}
    return {
        **kept, "PATH": path, "ANYCARD_HOME": str(folder / "home"), "LD_LIBRARY_PATH": str(library.parent),
        "NVML_STANDIN": str(folder / "cards.txt"),
    }  # fmt: skip


def _describe(file: Path, beat: int) -> None:
    """The cards at a moment: those that work go up and down a little, the last one falls off the bus in the end."""
    text = ""
    for at, (name, gib, busy, used, heat, watts) in enumerate(CARDS):
        wave = (beat * (7 + at) % 23) - 11 if busy else 0
        text += (
            f"[card]\nname = {name}\nbus = 00000000:{0x21 + at:02X}:00.0\nuuid = GPU-5f3c9a1e-0000-4000-8000-{at:012d}\n"
            f"memory = {gib << 30}\nmemory_used = {int(used * 2**30)}\nmemory_reserved = 0\n"
            f"utilisation = {max(0, min(100, busy + wave))}\npower_limit = 450000\n"
            f"temperature = {heat + wave // 4}\npower = {(watts + wave) * 1000}\n"
        )
        text += "".join(
            f"near = {peer} {20 if peer // 2 == at // 2 else 50}\n" for peer in range(len(CARDS)) if peer != at
        )
        if at == len(CARDS) - 1 and beat > SEEN_S / 2:
            text += "fault = lost\n"
    made = file.with_suffix(".new")
    made.write_text(text)
    made.rename(file)


def _work(env: dict[str, str]) -> None:
    _call(env, "submit", "--name", "sft", "--cpus", "0.25", "--accelerators", "any:1", "--", "sh", "-c", LOUD)
    _call(env, "submit", "--name", "eval", "--cpus", "0.25", "--accelerators", "any:1", "--", "sh", "-c", LOUD)
    _call(env, "run", "examples/digits/job.yaml", cwd=PROJECT)
    _call(env, "submit", "--name", "grid", "--accelerators", "any:2", "--", "sleep", "60")
    _call(env, "submit", "--name", "embed", "--accelerators", "any:2", "--", "sleep", "60")


LOUD = 'for n in $(seq 1 400); do echo "step $n loss $((900 - n))e-3"; sleep 1; done'


def _call(env: dict[str, str], *argv: str, cwd: Path | None = None) -> str:
    program = str(Path(sys.executable).with_name("anycard"))
    return subprocess.run([program, *argv], env=env, cwd=cwd, capture_output=True, text=True).stdout


def _shoot(env: dict[str, str], description: Path) -> None:
    from playwright.sync_api import sync_playwright

    began = time.monotonic()
    while time.monotonic() - began < SEEN_S:
        _describe(description, int(time.monotonic() - began))
        time.sleep(1)
    program = shutil.which("chromium") or "chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
        tab = context.new_page()
        link = json.loads(_call(env, "up", "-d", "--json"))["page"]
        tab.goto(link)
        tab.wait_for_url("**/cards")
        address = link.partition("/login")[0]
        done = next(job for job in json.loads(_call(env, "jobs", "--json"))["jobs"] if job["name"] == "digits")["id"]
        for name, path, look in (
            ("page-cards", "/cards", "theme/light"),
            ("page-queue", "/queue", "theme/light"),
            ("page-job", f"/jobs/{done}", "theme/light"),
            ("page-cards-dark", "/cards", "theme/dark"),
            ("page-cards.zh-CN", "/cards", "language/zh"),
        ):
            if name.endswith("zh-CN"):
                tab.goto(f"{address}/look/theme/light")
            _picture(tab, f"{address}/look/{look}?back={path}", PICTURES / f"{name}.png")
        browser.close()


def _picture(tab: Any, address: str, file: Path) -> None:
    tab.goto(address)
    tab.wait_for_timeout(2500)
    tab.screenshot(path=file)
    print(file, file.stat().st_size, "bytes")


if __name__ == "__main__":
    sys.exit(main())
