"""Checkpoints for programs that anycard runs: load, save, should_stop, progress. docs/checkpoints.md tells how to use them.

Standard library only, and nothing of the platform: a program that imports this also runs without anycard (the folder is then
``./checkpoints``).

Every checkpoint is a file of its own, ``NAME.SEQUENCE.CRC32``, written under a temporary name, flushed to the disk and renamed; the one
before it is kept. A file whose content does not agree with the CRC in its name is torn or damaged, and the one before it is used.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from pathlib import Path

TYPE_CHECKING = False  # type checkers know the name; a program need not pay for importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["folder", "load", "progress", "save", "should_stop"]

_CHUNK_BYTES = 1 << 20
_KEPT = 2  # the newest, and the one before it
_NAME_MARKS = frozenset("._-")
_NAME_MAX = 100
_PROGRESS_INTERVAL_S = 0.5

_stop_asked = False
_watching = False
_progress_written_at = float("-inf")


def folder() -> Path:
    """Where the checkpoints of this item live, made if need be: ``$ANYCARD_CHECKPOINT_DIR``, which outlives the attempt, else
    ``./checkpoints``. Raises OSError if it cannot be made."""
    path = Path(os.environ.get("ANYCARD_CHECKPOINT_DIR") or "checkpoints")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def load(default: Any = None, *, name: str = "checkpoint", reader: Callable[[Path], Any] | None = None) -> Any:
    """What was saved last under ``name``; ``default`` when nothing was, or (said on stderr) when all of it is damaged.

    ``reader`` takes a path, as ``torch.load`` does; without one the state is unpickled. Unpickling runs what the file says: load only
    what you saved yourself. Raises whatever the reader raises on a file that is whole.
    """
    saved = _saved(name)
    for path in reversed(saved):
        if _crc32(path) == path.name.rpartition(".")[2]:
            return reader(path) if reader else _unpickle(path)
        print(f"anycard: checkpoint {path} is damaged and not used", file=sys.stderr)
    if saved:
        print("anycard: no checkpoint is whole, starting from the beginning", file=sys.stderr)
    return default


def save(state: Any, *, name: str = "checkpoint", writer: Callable[[Any, Path], Any] | None = None) -> Path:
    """Saves ``state`` under ``name`` and returns the file's path. Once it returns, the checkpoint survives a crash of the machine;
    should it be cut short, the one before stays.

    One process at a time may save under a name: ranks that save each their own part use a name each.
    ``writer`` takes the state and a path and writes that file, as ``torch.save`` does; without one the state is pickled. Raises OSError
    when the disk is full, FileNotFoundError when ``writer`` wrote another file than the one it was told to.
    """
    saved = _saved(name)
    sequence = 1 + max((_sequence(path) for path in saved), default=0)
    unfinished = folder() / f".{name}.unfinished"  # one name: what a killed attempt left is written over, not piled up
    try:
        if writer:
            writer(state, unfinished)
        else:
            _pickle(state, unfinished)
        path = folder() / f"{name}.{sequence:08d}.{_crc32(unfinished)}"
        _flush(unfinished)
        unfinished.replace(path)
        _flush(folder())  # the rename itself
    finally:
        unfinished.unlink(missing_ok=True)
    for old in saved[: len(saved) + 1 - _KEPT]:
        old.unlink(missing_ok=True)
    return path


def should_stop() -> bool:
    """Whether this attempt was asked to stop (SIGTERM); save then and end. Before anycard kills, it waits the job's ``stop_grace``.

    The first call starts listening, so call it once before the work begins: until then SIGTERM ends the program at once. A handler that
    the program set itself is still called. From a thread other than the main one it can only answer, not start to listen (ValueError).
    """
    global _watching
    if not _watching:
        _listen()
        _watching = True
    return _stop_asked


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Says how far the program is: ``done`` of ``total`` (any unit). Written to ``progress.json`` in the checkpoint folder, at most twice
    a second, the last step always. Raises OSError if it cannot be written."""
    import json

    global _progress_written_at
    now = time.monotonic()
    finished = total is not None and done >= total
    if now - _progress_written_at < _PROGRESS_INTERVAL_S and not finished:
        return
    _progress_written_at = now
    said = {"done": done, "total": total, "message": message, "at": time.time()}
    unfinished = folder() / f".progress.{os.getpid()}"
    unfinished.write_text(json.dumps(said) + "\n", encoding="utf-8")
    unfinished.replace(folder() / "progress.json")


def _listen() -> None:
    import signal

    before = signal.getsignal(signal.SIGTERM)

    def note(number: int, frame: Any) -> None:
        global _stop_asked
        _stop_asked = True
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, note)


def _saved(name: str) -> list[Path]:
    """The finished checkpoints called ``name``, oldest first. ValueError for a name that is not a plain file name."""
    plain = name.isascii() and all(letter.isalnum() or letter in _NAME_MARKS for letter in name)
    if not plain or not name[:1].isalnum() or len(name) > _NAME_MAX:
        raise ValueError(f"a checkpoint's name is made of letters, digits, dots, dashes and underscores, not {name!r}")
    return sorted((path for path in folder().iterdir() if _is_checkpoint(path, name)), key=_sequence)


def _is_checkpoint(path: Path, name: str) -> bool:
    stem, _, crc = path.name.rpartition(".")
    stem, _, sequence = stem.rpartition(".")
    return stem == name and sequence.isdecimal() and len(crc) == 8 and not set(crc) - set("0123456789abcdef")


def _sequence(path: Path) -> int:
    return int(path.name.split(".")[-2])


def _pickle(state: Any, path: Path) -> None:
    import pickle

    with path.open("wb") as file:
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def _unpickle(path: Path) -> Any:
    import pickle

    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301  the program's own file, in a folder that is its user's alone


def _crc32(path: Path) -> str:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}"


def _flush(path: Path) -> None:
    """Waits until the file, or the names in the folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
