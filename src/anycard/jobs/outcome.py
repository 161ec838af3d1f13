"""How an attempt ended, by the closed list: from the engine's report, the stop that was asked for, and the end of the log. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from anycard.doctor.cause import Cause
from anycard.engines.protocol import AttemptStatus
from anycard.model.end_reason import EndReason
from anycard.model.text import Param, Text

BAD_INPUT_EXIT_CODE = 65  # EX_DATAERR of sysexits.h: the program says that its input is bad

_CARD_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|HIP out of memory|NPU out of memory|XPU out of memory"
    r"|MPS backend out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory"
    r"|ggml_\w+: failed to allocate|cublas\w*_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
_HOST_OUT_OF_MEMORY = re.compile(
    r"^MemoryError\b|std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator: (?:can't|not enough)|numpy\.\w*ArrayMemoryError"
    r"|JavaScript heap out of memory|java\.lang\.OutOfMemoryError",
    re.MULTILINE,
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full", re.IGNORECASE)
_CARD_LOST = re.compile(
    r"GPU is lost|fallen off the bus|CUDA error: device (?:is )?lost|hipErrorDeviceLost|NPU.{0,40}heartbeat (?:is )?lost",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``detail`` is the reason in words, for the item, the log's last line and the failed list. ``cause``: what the doctor says was behind
    it, where the program's log proves it."""

    reason: EndReason
    detail: Text | None
    cause: str | None = None


def classify(
    status: AttemptStatus,
    *,
    stop_reason: EndReason | None,
    log_tail: str,
    disk_is_full: bool,
    cards_lost: tuple[str, ...],
    is_setup: bool,
    this_boot: bool,
    cause: Cause | None = None,
) -> Outcome:
    """The one reason. What anycard did itself leads; then what the kernel and the driver proved; then what the program printed.

    ``log_tail`` is the end of the log as text, looked at only when the program failed; ``cause`` what the doctor found proven in the log.
    ``this_boot`` False: the machine restarted since.
    """
    if status.start_failure is not None:
        reason = EndReason.DISK_FULL if status.disk_full else EndReason.START_FAILED
        return Outcome(reason, status.start_failure)
    code = status.exit_code
    if (
        code == 0 and status.stopped_for is None
    ):  # stopped ones often save and leave with 0: that is not the end of their work
        return Outcome(EndReason.SUCCEEDED, None)
    if cards_lost:
        return Outcome(
            EndReason.CARD_LOST, Text("card {cards} was lost while it ran", {"cards": ", ".join(cards_lost)})
        )
    if status.out_of_memory:
        return Outcome(EndReason.OUT_OF_MEMORY, Text("took more host memory than it was given and was ended"))
    stopped_for = status.stopped_for or stop_reason
    if stopped_for is not None:
        return Outcome(stopped_for, _STOPPED.get(stopped_for))
    if status.lost:
        if status.rebooted or not this_boot:
            return Outcome(EndReason.HOST_LOST, Text("the machine restarted while it ran"))
        return Outcome(EndReason.OUTCOME_UNKNOWN, Text("its process is gone and nobody saw how it ended"))
    if is_setup:
        return _named(
            Outcome(EndReason.SETUP_FAILED, Text("setup ended with code {code}", {"code": _shown(code)})), cause
        )
    if code == BAD_INPUT_EXIT_CODE:
        return Outcome(EndReason.BAD_INPUT, _bad_input(log_tail))
    by_log = _from_log(log_tail, disk_is_full) or _from_cause(cause)
    return _named(by_log or Outcome(EndReason.PROGRAM_ERROR, _program_error(code, log_tail)), cause)


def asks_the_log(status: AttemptStatus, stop_reason: EndReason | None) -> bool:
    """Whether the attempt failed by itself, so that only its log can say why."""
    failed = status.exit_code not in (None, 0, BAD_INPUT_EXIT_CODE)
    return failed and not status.out_of_memory and (status.stopped_for or stop_reason) is None


_STOPPED = {
    EndReason.TIME_LIMIT: Text("ran longer than its time limit"),
    EndReason.MAX_RELEASED: Text("the job held its cards and CPUs as long as `release: max` allows"),
    EndReason.IDLE_RELEASED: Text("did nothing for as long as `release: idle` allows"),
    EndReason.CANCELLED: Text("cancelled"),
    EndReason.PREEMPTED: Text("made room for another job"),
    EndReason.DISK_FULL: Text("the disk is full"),
}


def _from_log(tail: str, disk_is_full: bool) -> Outcome | None:
    match = _CARD_LOST.search(tail)
    if match:
        return Outcome(EndReason.CARD_LOST, Text("the program lost its card: {line}", {"line": _line(tail, match)}))
    match = _CARD_OUT_OF_MEMORY.search(tail)
    if match:
        return Outcome(EndReason.OUT_OF_MEMORY, Text("out of card memory: {line}", {"line": _line(tail, match)}))
    match = _HOST_OUT_OF_MEMORY.search(tail)
    if match:
        return Outcome(EndReason.OUT_OF_MEMORY, Text("out of host memory: {line}", {"line": _line(tail, match)}))
    match = _DISK_FULL.search(tail)
    if match and disk_is_full:
        return Outcome(EndReason.DISK_FULL, Text("the disk is full: {line}", {"line": _line(tail, match)}))
    return None


def _from_cause(cause: Cause | None) -> Outcome | None:
    """Where the rules know the program's words and the few above do not."""
    if cause is None or cause.ends_as is None:
        return None
    if cause.ends_as is EndReason.CARD_LOST:
        return Outcome(EndReason.CARD_LOST, Text("the program lost its card: {line}", {"line": _short(cause.line)}))
    return Outcome(cause.ends_as, Text("out of memory: {line}", {"line": _short(cause.line)}))


def _named(outcome: Outcome, cause: Cause | None) -> Outcome:
    """With the cause, for programs; a program error also in words, since its last line seldom says why."""
    if cause is None or outcome.detail is None:
        return outcome
    detail = outcome.detail
    if outcome.reason is EndReason.PROGRAM_ERROR and "code" in detail.params:
        told: dict[str, Param] = {"code": detail.params["code"], "why": cause.says, "why_msgid": cause.says}
        detail = Text("exit code {code}: {why}", told)
    return Outcome(outcome.reason, Text(detail.msgid, {**detail.params, "cause": cause.slug}), cause.slug)


def _program_error(code: int | None, tail: str) -> Text:
    last = _last_line(tail)
    if code is not None and 128 < code < 128 + 65:
        try:
            name = signal.Signals(code - 128).name
        except ValueError:
            name = str(code - 128)
        return Text("ended by signal {signal}", {"signal": name})
    if last:
        return Text("exit code {code}: {line}", {"code": _shown(code), "line": last})
    return Text("exit code {code}", {"code": _shown(code)})


def _bad_input(tail: str) -> Text:
    last = _last_line(tail)
    last = last.removeprefix("bad input: ")  # anycard.bad_input says it too
    return Text("bad input: {line}", {"line": last}) if last else Text("bad input (the program said so)")


def _shown(code: int | None) -> str:
    return "?" if code is None else str(code)


def _line(tail: str, match: re.Match[str]) -> str:
    start = tail.rfind("\n", 0, match.start()) + 1
    end = tail.find("\n", match.end())
    return _short(tail[start : end if end >= 0 else len(tail)])


def _last_line(tail: str) -> str:
    for line in reversed(tail.splitlines()):
        if line.strip():
            return _short(line)
    return ""


def _short(line: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in line).strip()
    return clean if len(clean) <= 200 else clean[:197] + "..."
