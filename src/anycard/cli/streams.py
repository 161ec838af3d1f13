"""Standard streams that say when they fail: what stdout does not take is told apart from every other fault of the system."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UnwrittenError(Exception):
    """Our stdout takes no more: its reader left (`anycard jobs | head`), or its disk is full. No OSError: Typer would end a broken pipe
    with exit code 1, which means something else here."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror)
        self.cause = cause


class _Stdout(io.FileIO):
    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise UnwrittenError(error) from error


class _Stderr(io.FileIO):
    """What it does not take is lost: there is nobody left to tell, and neither the answer nor the exit code depends on it."""

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except OSError:
            return memoryview(content).nbytes


def prepare() -> None:
    """Opens what the caller closed (`anycard jobs >&-`): nobody wants to read it, so it goes nowhere, and no socket of ours takes its
    number. What cannot be encoded is replaced. From here on a failing stdout raises UnwrittenError, and a failing stderr is passed over."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _nowhere(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Stdout(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Stderr(2, "w", closefd=False), sys.stderr)
    sys.stderr.reconfigure(line_buffering=True)


def forget() -> None:
    """What stdout did not take goes nowhere, too: Python would complain when it flushes it at exit."""
    _nowhere(1)


def _text(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    encoding = before.encoding if before is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="replace", line_buffering=os.isatty(raw.fileno())
    )


def _nowhere(number: int) -> None:
    descriptor = os.open(os.devnull, os.O_RDWR)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
