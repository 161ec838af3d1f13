"""Vendors' command-line tools: run with a time limit, and what is said when one hangs, fails or is not understood.

A vendor's tool takes up to a second of processor time (npu-smi, amd-smi), and a daemon looks every few seconds: an answer is kept for
MAX_AGE_S on each host, one that only names what sysfs has shown for STATIC_AGE_S. A tool that hung is left alone for HUNG_AGE_S: each try
holds up everybody's look by TIME_LIMIT_S.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from anycard.cards.problem import Problem, VendorFault
from anycard.host.host import NOT_RECORDED, CommandResult, Host
from anycard.i18n import N_
from anycard.model.text import Text
from anycard.units import KIB, format_bytes

TIME_LIMIT_S = 2.4  # `anycard cards` answers within 3 s whatever hangs, its own start included
MAX_AGE_S = 8.0
STATIC_AGE_S = 3600.0
HUNG_AGE_S = 60.0
_SHOWN = 160  # characters of a tool's own words in a sentence
MOST_BYTES = (
    512 * KIB
)  # of an answer: 64 cards have 50 in a table, 300 in JSON; what is longer is no answer, and would take long to read
_WIDEST = 400  # characters of a table's line; honest ones have 130


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool answered. ``text`` is its standard output, also when it failed."""

    vendor: str
    tool: str
    text: str
    exit_code: int | None
    first_line: str

    @property
    def table(self) -> str:
        """``text`` for whoever looks for a table in it: no line is longer than one has."""
        return "\n".join(line[:_WIDEST] for line in self.text.splitlines())

    def not_understood(self) -> VendorFault:
        """To be raised when nothing of ``text`` could be read, though cards of this vendor may be here."""
        values: dict[str, str | int | float] = {"tool": self.tool, "line": self.first_line or "-"}
        if self.exit_code:
            return _fault(self.vendor, _FAILED, values | {"code": self.exit_code})
        return _fault(self.vendor, _UNREADABLE, values)


def ask_tool(host: Host, vendor: str, argv: Sequence[str], *, max_age_s: float = MAX_AGE_S) -> Said | None:
    """None when there is no such tool. VendorFault when it does not answer in time, may not be run or does not stop talking."""
    result = _run(host, tuple(argv), max_age_s)
    tool = argv[0]
    if result.error in ("ENOENT", NOT_RECORDED):
        return None
    if result.error is not None:
        raise _fault(vendor, _NOT_STARTED, {"tool": tool, "error": result.error})
    if result.timed_out:
        raise _fault(vendor, _HUNG, {"tool": tool, "seconds": TIME_LIMIT_S}, _HUNG_MEND)
    if result.truncated or len(result.stdout) > MOST_BYTES:
        raise _fault(vendor, _TOO_LONG, {"tool": tool, "size": format_bytes(MOST_BYTES)})
    lines = (line.strip() for line in (result.stderr.decode("utf-8", "replace") + "\n" + result.text).splitlines())
    return Said(vendor, tool, result.text, result.exit_code, next((line for line in lines if line), "")[:_SHOWN])


def _fault(vendor: str, reason: str, values: dict[str, str | int | float], mend: str | None = None) -> VendorFault:
    return VendorFault(Problem(vendor, Text(reason, values), Text(mend, values) if mend else None))


_HUNG = N_("{tool} did not answer within {seconds} s: its cards cannot be asked.")
_HUNG_MEND = N_("Run {tool} by hand; if it hangs there too, look at dmesg, and restart the machine.")
_NOT_STARTED = N_("{tool} cannot be started: {error}.")
_FAILED = N_("{tool} ended with exit code {code}: {line}")
_TOO_LONG = N_("{tool} answers with more than {size}, which is no list of cards.")
_UNREADABLE = N_("What {tool} answers is not understood: {line}")


def _run(host: Host, argv: tuple[str, ...], max_age_s: float) -> CommandResult:
    now = time.monotonic()
    with _lock:
        kept = _answers.setdefault(host, {})
        at, result = kept.get(argv, (0.0, None))
    if result is None or now - at > (HUNG_AGE_S if result.timed_out else max_age_s):
        result = host.run(argv, TIME_LIMIT_S)
        with _lock:
            kept[argv] = (time.monotonic(), result)
    return result


_answers: WeakKeyDictionary[Host, dict[tuple[str, ...], tuple[float, CommandResult]]] = WeakKeyDictionary()
_lock = threading.Lock()
