"""What an engine is: it starts, stops and reports attempts, and knows no job.

Every engine keeps the same promises, so that a job moves between them unchanged:
- ``start`` is idempotent by attempt id: asked twice, the program runs once;
- an attempt's files share a stem: ``STEM.log`` (written by the program's own file descriptors), ``STEM.output/`` and ``STEM.record``
  (its claim and how it ended); one folder holds those of a whole job, for where making files is slow a folder of its own costs more than a
  process;
- a report is repeated until it is forgotten, so nobody's crash loses a result;
- "cannot see it" is the phase UNSEEN, never ENDED.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant
from anycard.model.text import Text


@dataclass(frozen=True, slots=True)
class Deadline:
    """Stop the attempt for ``why`` once it has run ``after_s`` seconds. Kept by the engine, so it holds while the daemon is away."""

    after_s: float
    why: EndReason


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """One try, complete: nothing of it is looked up later.

    ``env`` is the whole environment. ``cpus`` and ``memory_bytes`` are limits to enforce where the machine allows it (None: none).
    ``uid`` None: run as the daemon's own user. ``log_header`` is written to the log before the program starts.
    ``checkpoint``: a folder, of all tries of an item, that is made when it is not there; None: none, or somebody else made it.
    """

    id: int
    stem: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    cpus: float | None = None
    memory_bytes: int | None = None
    stop_grace_s: float = 30.0
    deadlines: tuple[Deadline, ...] = ()
    uid: int | None = None
    gid: int | None = None
    umask: int = 0o022
    log_header: str = ""
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """What the daemon remembers of an attempt it must find again after a restart."""

    id: int
    stem: str
    spec: AttemptSpec | None = None  # given when it may never have been started; the engine then starts it


class Phase(StrEnum):
    RUNNING = "running"
    ENDED = "ended"
    UNSEEN = "unseen"  # the engine cannot say; try again later


@dataclass(frozen=True, slots=True)
class Usage:
    """What the attempt's whole process tree used so far."""

    cpu_s: float | None = None
    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """``exit_code`` is the program's own (128 + n after signal n). ``lost``: ended, yet nobody saw how. ``stopped_for``: why the engine
    was told, or decided by a deadline or limit, to stop it. ``start_failure``: the program could not be started, and why.
    ``limits`` says how limits were held: "cgroup", "watched" or "none". ``rebooted``: lost because the machine started anew.
    ``out_of_memory``: the kernel or the watch ended at least one of its processes for memory. ``disk_full``: the start failed for want
    of space. ``left_behind``: processes that outlived the main program and were ended."""

    id: int
    phase: Phase
    at: Instant
    pid: int | None = None
    exit_code: int | None = None
    lost: bool = False
    stopped_for: EndReason | None = None
    out_of_memory: bool = False
    start_failure: Text | None = None
    rebooted: bool = False
    disk_full: bool = False
    left_behind: int = 0
    limits: str = "none"
    usage: Usage = field(default_factory=Usage)


class Engine(Protocol):
    """``local``, ``slurm``, ``kubernetes``, ``cloud``."""

    name: str

    async def open(self, attempts: Sequence[OpenAttempt]) -> None:
        """Connects, and finds the attempts again that were open when the daemon last lived; each is reported on."""

    async def start(self, specs: Sequence[AttemptSpec]) -> None:
        """Starts each; failures to start come as reports, not exceptions."""

    async def stop(self, attempt_id: int, why: EndReason, grace_s: float) -> None:
        """Stop signal, ``grace_s`` seconds, then kill; with every descendant. Asked again, the shorter grace counts."""

    def reports(self) -> AsyncIterator[AttemptStatus]:
        """RUNNING once started and with fresh usage every few seconds, ENDED once; repeated after ``open`` until forgotten."""

    async def forget(self, attempt_ids: Sequence[int]) -> None:
        """The end was recorded; the engine may drop what it remembers."""

    def trouble(self) -> Text | None:
        """Why it can start and stop nothing now, and what to do; None when it can, or nobody knows."""

    async def close(self) -> None:
        """Disconnects. Attempts go on."""
