"""Takes the pictures in docs/img/: real screens of anycard on a pseudo-terminal, as SVG.

    python tools/screens.py        runs examples/digits in a home of its own and draws what a person sees while it runs, in two languages

The live view redraws itself: each redraw begins by erasing the lines before it, so the screen at a moment is what came after the last
erasing. Rich, which drew it, also turns it into SVG.
"""

from __future__ import annotations

import fcntl
import html
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PROJECT = Path(__file__).resolve().parents[1]
PICTURES = PROJECT / "docs" / "img"
JOB = "examples/digits/job.yaml"
COLUMNS, ROWS = 80, 24
_ERASED = re.compile(r"(?:\r|\x1b\[2K|\x1b\[1A)*\x1b\[2K(?:\r|\x1b\[2K|\x1b\[1A)*")
_NOT_COLOUR = re.compile(r"\x1b\[[?0-9;]*[A-Zac-ln-z]")
_WEB_FONT = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)  # of the template, where braces are doubled
_SEGMENT = re.compile(r'(<text [^>]*textLength=")([0-9.]+)("[^>]*>)([^<]+)</text>')
# Dark, with enough contrast on a white page and on a black one.
_COLOURS = TerminalTheme(
    (22, 27, 34),
    (220, 226, 232),
    [(22, 27, 34), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (220, 226, 232)],
    [(139, 148, 158), (255, 161, 152), (126, 231, 135), (242, 204, 96), (165, 214, 255), (226, 197, 255), (118, 227, 234), (255, 255, 255)],
)  # fmt: skip


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for language, name in (("en", "run.svg"), ("zh", "run.zh-CN.svg")):
        with tempfile.TemporaryDirectory(prefix="anycard-screens-") as home:
            env = _environment(Path(home), language)
            try:
                shot = _shot(env)
            finally:
                subprocess.run([_program(), "down", "--stop"], env=env, check=True, capture_output=True)
        (PICTURES / name).write_text(svg(shot, f"anycard run {JOB}", Path(name).stem.replace(".", "-")))
        print(PICTURES / name, (PICTURES / name).stat().st_size, "bytes")
    return 0


def _shot(env: dict[str, str]) -> str:
    """The fullest moment: something runs, something failed, most is done."""
    fullest = ""
    for frame in frames(("run", JOB), env):
        plain = _plain(frame)
        if ".csv" in plain and "31m" in frame and "/9" in plain and plain.count("data/part-") >= 3:
            fullest = frame
            if "7/9" in plain:
                break
    if not fullest:
        raise SystemExit("the batch never showed a failed item beside two running ones: run it again")
    return fullest


def frames(argv: tuple[str, ...], env: dict[str, str]) -> Iterator[str]:
    """Every state of the screen, with its colours, while ``anycard ARGV`` runs on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        os.execve(_program(), [_program(), *argv], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    seen = ""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # so Linux says that nobody is at the other end any more
            break
        if not chunk:
            break
        seen += chunk.decode(errors="replace")
        *whole, seen = _ERASED.split(seen)
        yield from (_NOT_COLOUR.sub("", frame).replace("\r\n", "\n").strip("\n") for frame in whole if frame.strip())
    os.close(terminal)
    os.waitpid(pid, 0)


def svg(screen: str, command: str, unique: str) -> str:
    """``screen`` below the line that called it, as an SVG that needs no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    console.print(Text.from_ansi(screen), no_wrap=True, crop=False)
    fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, Noto Sans Mono CJK SC, monospace"
    template = _WEB_FONT.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", fonts).replace("Fira Code", fonts)
    drawn = console.export_svg(title="anycard", theme=_COLOURS, code_format=template, unique_id=unique)
    return _SEGMENT.sub(_true_length, drawn)


def _true_length(segment: re.Match[str]) -> str:
    """Rich counts a Chinese character as one column where it says how long a piece of text is, and so squeezes it."""
    begin, length, middle, text = segment.groups()
    shown = html.unescape(text)
    return f"{begin}{float(length) * cell_len(shown) / len(shown):g}{middle}{text}</text>"


def _plain(frame: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", frame)


def _program() -> str:
    return str(Path(sys.executable).with_name("anycard"))


def _environment(home: Path, language: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "TZ") if name in os.environ}
    return {
        **kept, "PATH": path, "ANYCARD_HOME": str(home / "home"), "ANYCARD_LANG": language, "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS), "LINES": str(ROWS),
    }  # fmt: skip


if __name__ == "__main__":
    if shutil.which("anycard", path=str(Path(sys.executable).parent)) is None:
        raise SystemExit("install the package into this interpreter first: make run")
    sys.exit(main())
