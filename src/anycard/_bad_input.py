"""``anycard.bad_input``: a program says that its input is at fault, so that nobody tries again with the same."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_CODE = 65  # EX_DATAERR of sysexits.h


def bad_input(message: str) -> NoReturn:
    """Prints ``message`` to stderr and ends the program with exit code 65: the attempt ends with the reason ``bad-input``, which is never
    retried. Raises SystemExit, so that ``finally`` blocks run; from a thread other than the main one it ends that thread only."""
    print(f"bad input: {message}", file=sys.stderr, flush=True)
    raise SystemExit(EXIT_CODE)
