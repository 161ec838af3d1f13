"""Asks the doctor about a failed attempt's log: in a process of its own, with a time limit, so that no log and no rule holds up a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anycard.doctor.cause import Cause, proven_cause
from anycard.errors import UnavailableError
from anycard.jobs import files

log = logging.getLogger("anycard.logdoctor")

Diagnosis = dict[str, Any]

# A cause stands where a program begins (its versions, its cards) or where it ends; what lies between is its work.
_HEAD_BYTES, _TAIL_BYTES = 64 * 1024, 256 * 1024
_LONG_HEAD_BYTES, _LONG_TAIL_BYTES = 1 << 20, 7 << 20  # when a person asks
_TIME_LIMIT_S = 10.0  # of one log; it takes milliseconds unless the machine is very busy
_OWN_LINES = re.compile(r"^\[anycard\] .*\n?", re.MULTILINE)
_MOST_BYTES = 16 << 20  # of an answer


class LogDoctor:
    """One process for all, started when needed; it leaves by itself when nobody asked for a minute."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()  # killed, and soon gone

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._process.pid if self._process is not None else None

    async def cause(self, stem: str) -> Cause | None:
        """What the log of the attempt with this ``stem`` proves; None also when there is none, or the doctor did not answer in time."""
        text = await asyncio.to_thread(_ends, Path(f"{stem}.log"), _HEAD_BYTES, _TAIL_BYTES)
        if not text.strip():
            return None
        diagnosis = await self.diagnosis([{"name": "log", "text": text}])
        return proven_cause(diagnosis) if diagnosis is not None else None

    async def whole(self, stem: str, marks: str = "", measured: Mapping[str, Any] | None = None) -> Diagnosis:
        """A longer look, for a person, with what anycard saw of the attempt's cards: ``marks`` are lines, ``measured`` the attempt's
        readings as ``doctor/measured.py`` takes them. UnavailableError when the doctor did not answer in time."""
        text = await asyncio.to_thread(_ends, Path(f"{stem}.log"), _LONG_HEAD_BYTES, _LONG_TAIL_BYTES)
        sources = [{"name": "log", "text": text}, *([{"name": "marks", "text": marks}] if marks else ())]
        diagnosis = await self.diagnosis(sources, measured)
        if diagnosis is None:
            raise UnavailableError("the doctor took longer than {limit} s", limit=round(_TIME_LIMIT_S))
        return diagnosis

    async def diagnosis(
        self, sources: Sequence[dict[str, Any]], measured: Mapping[str, Any] | None = None
    ) -> Diagnosis | None:
        """The document of ``anycard doctor --json`` about ``sources``; None when it could not be had."""
        request = json.dumps({"sources": list(sources), "measured": measured}).encode() + b"\n"
        async with self._turn:
            try:
                async with asyncio.timeout(_TIME_LIMIT_S):
                    answer = await self._ask(request) or await self._ask(request)  # it may have been just leaving
            except TimeoutError:
                log.warning("the doctor did not answer in %s s and was ended", _TIME_LIMIT_S)
                return None
            except (OSError, ValueError) as error:  # no process or descriptor can be had; an answer longer than any
                log.warning("the doctor could not be asked: %s", error)
                return None
        if not answer:
            log.warning("the doctor ended without an answer")
            return None
        found: Diagnosis = json.loads(answer)
        return found

    async def close(self) -> None:
        async with self._turn:
            self._end()
            await asyncio.gather(*self._ending)

    async def _ask(self, request: bytes) -> bytes:
        """Empty when the process has gone. Without a whole answer it is ended: what it would still say belongs to nobody."""
        if self._process is None or self._process.returncode is not None:
            self._process = await _started()
        process = self._process
        assert process.stdin and process.stdout
        answer = b""
        try:
            process.stdin.write(request)
            await process.stdin.drain()
            answer = await process.stdout.readline()
        except ConnectionError:
            log.debug("the doctor had just left")
        finally:
            if not answer.endswith(b"\n"):
                self._end()
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        ending = asyncio.create_task(_reaped(process))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


async def _reaped(process: Process) -> None:
    assert process.stdin and process.stdout
    process.stdin.close()
    await process.stdout.read()
    await process.wait()


async def _started() -> Process:
    return await asyncio.create_subprocess_exec(  # what it has to complain of goes into the daemon's log
        *(sys.executable, "-s", "-P", "-m", "anycard.doctor.server"),
        stdin=PIPE,
        stdout=PIPE,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        limit=_MOST_BYTES,
    )


def _ends(path: Path, head_bytes: int, tail_bytes: int) -> str:
    """The first and the last bytes of a log, without the lines that anycard itself wrote into it."""
    return _OWN_LINES.sub("", "".join(files.read_ends(path, head_bytes, tail_bytes)))
