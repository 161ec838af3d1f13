"""What went wrong with one attempt or one client, in supervisor.log: a line each, and never so many that they fill the disk."""

from __future__ import annotations

import sys
import time

_MOST_LINES = 20  # in one window; whoever can cause a mishap can cause it again and again
_WINDOW_S = 60.0


class Mishaps:
    """``note`` writes the kind of the error and where it came up, never its text: that may hold parts of an environment."""

    def __init__(self) -> None:
        self._since = 0.0
        self._lines = 0
        self._unsaid = 0

    def note(self, what: str, error: BaseException) -> None:
        now = time.monotonic()
        if now - self._since >= _WINDOW_S:
            if self._unsaid:
                print(f"{self._unsaid} more mishaps were not written down", file=sys.stderr, flush=True)
            self._since, self._lines, self._unsaid = now, 0, 0
        if self._lines >= _MOST_LINES:
            self._unsaid += 1
            return
        self._lines += 1
        print(f"{what}: {type(error).__name__} at {_where(error)}", file=sys.stderr, flush=True)


def _where(error: BaseException) -> str:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return "an unknown place"
    return f"{step.tb_frame.f_code.co_name}:{step.tb_lineno}"
