"""The local engine: the daemon's end of the supervisor's socket.

The supervisor may die or be upgraded at any time. Then it is started again and asked about every attempt that has not ended; specs whose
start was never confirmed go along, and the attempt's claim sees to it that none runs twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anycard.config import Paths
from anycard.engines.local import wire
from anycard.engines.local.launch import home_key, launch
from anycard.engines.protocol import AttemptSpec, AttemptStatus, OpenAttempt, Phase
from anycard.errors import UnavailableError
from anycard.host.clock import boot_id, now
from anycard.i18n import N_
from anycard.model.end_reason import EndReason
from anycard.model.text import Text

PROTOCOL = 1  # the supervisor's of the same name; one that speaks another is replaced
_READ_BYTES = 1 << 18
_FORGET_S = 0.2
_READY_TIMEOUT_S = 10.0  # an interpreter that starts on a very busy machine
_ANSWER_S = 2.0  # for a hello, which takes it a fraction of a millisecond
_DRAIN_S = 1.0  # for what was sent to be taken; what was not stays in line
_SHORT_LIFE_S = 0.5
_SHORT_LIFE_WAIT_S = 0.2
_LONGEST_WAIT_S = 30.0  # between tries while the supervisor cannot be started
_STOPPED = N_("the supervisor, which runs the attempts, is stopped (process {pid}): kill -CONT {pid} wakes it")


@dataclass(slots=True)
class _Known:
    """An attempt not forgotten. ``spec`` until its start is confirmed."""

    stem: str
    spec: AttemptSpec | None
    ended: bool = False
    stop: tuple[EndReason, float] | None = None  # asked for, end not seen yet


class LocalEngine:
    """``idle_exit_s``: how long a supervisor without clients and attempts stays."""

    name = "local"

    def __init__(self, paths: Paths, *, idle_exit_s: float = 60.0) -> None:
        self._paths = paths
        self._idle_exit_s = idle_exit_s
        self._known: dict[int, _Known] = {}
        self._forgotten: list[int] = []  # not told to the supervisor yet
        self._reports: asyncio.Queue[AttemptStatus | None] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._launched: subprocess.Popen[bytes] | None = None
        self.supervisor_pid: int | None = None

    async def open(self, attempts: Sequence[OpenAttempt]) -> None:
        """Connects, starting the supervisor if it is not there. UnavailableError when that fails. Called again, it begins anew."""
        await self._end_keeper()
        if self._keeper is not None:  # opened again: the daemon begins anew from its store
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for attempt in attempts:
            self._known[attempt.id] = _Known(attempt.stem, attempt.spec)
        reader = await self._connect()
        self._keeper = asyncio.create_task(self._keep(reader))

    async def start(self, specs: Sequence[AttemptSpec]) -> None:
        for spec in specs:
            self._known[spec.id] = _Known(spec.stem, spec)
        starts = b"".join(wire.line({"do": "start", "spec": wire.spec_to_json(spec)}) for spec in specs)
        self._send(self._forget_line() + starts)
        await self._drained()

    async def stop(self, attempt_id: int, why: EndReason, grace_s: float) -> None:
        known = self._known.get(attempt_id)
        if known is None or known.ended:
            return
        known.stop = (why, grace_s) if known.stop is None else (known.stop[0], min(grace_s, known.stop[1]))
        self._send(_stop_line(attempt_id, why, grace_s))
        await self._drained()

    async def reports(self) -> AsyncIterator[AttemptStatus]:
        """Until ``close``."""
        while True:
            status = await self._reports.get()
            if status is None:
                return
            yield status

    async def forget(self, attempt_ids: Sequence[int]) -> None:
        for attempt_id in attempt_ids:
            self._known.pop(attempt_id, None)
        if attempt_ids and not self._forgotten:
            asyncio.get_running_loop().call_later(_FORGET_S, lambda: self._send(self._forget_line()))
        self._forgotten += attempt_ids

    def trouble(self) -> Text | None:
        pid = self.supervisor_pid
        if self._writer is None or pid is None or not _is_stopped(pid):
            return None
        return Text(_STOPPED, {"pid": pid})

    async def close(self) -> None:
        await self._end_keeper()
        self._send(self._forget_line())
        await self._drained()
        await self._disconnect()
        self._reports.put_nowait(None)

    def _forget_line(self) -> bytes:
        """What is to be forgotten rides along with the next order, or goes by itself a moment later: it is never urgent."""
        forgotten, self._forgotten = self._forgotten, []
        return wire.line({"do": "forget", "ids": forgotten}) if forgotten else b""

    # --- the connection

    async def _end_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None

    def _send(self, data: bytes) -> None:
        """Without a connection nothing is lost: the next one begins with everything in ``_known``."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def _drained(self) -> None:
        """Waits until it is sent, so that it does not pile up here; not for a supervisor that takes nothing."""
        if self._writer is not None:
            try:
                async with asyncio.timeout(_DRAIN_S):
                    await self._writer.drain()
            except (ConnectionError, TimeoutError):  # the keeper sees it too, and connects anew; or `trouble` says why
                return

    async def _keep(self, reader: asyncio.StreamReader) -> None:
        """Reads reports; when the supervisor is gone, brings it back."""
        wait_s = 0.0
        while True:
            since = asyncio.get_running_loop().time()
            await self._read(reader)
            if asyncio.get_running_loop().time() - since < _SHORT_LIFE_S:
                await asyncio.sleep(_SHORT_LIFE_WAIT_S)  # one that cannot stay up is not started in a tight loop
            while True:
                await asyncio.sleep(wait_s)
                try:
                    reader = await self._connect()
                except (UnavailableError, OSError):
                    if not wait_s:
                        self._report_unseen()
                    wait_s = min(_LONGEST_WAIT_S, max(1.0, 2 * wait_s))
                else:
                    wait_s = 0.0
                    break

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while True:
            try:
                data = await reader.read(_READ_BYTES)
            except ConnectionError:
                return
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(wire.status_from_json(json.loads(line), boot_id()))

    def _take(self, status: AttemptStatus) -> None:
        known = self._known.get(status.id)
        if known is not None and status.phase is not Phase.UNSEEN:
            known.spec = None
            known.ended = status.phase is Phase.ENDED
        self._reports.put_nowait(status)

    def _report_unseen(self) -> None:
        for attempt_id, known in self._known.items():
            if not known.ended:
                self._reports.put_nowait(AttemptStatus(attempt_id, Phase.UNSEEN, now()))

    async def _connect(self) -> asyncio.StreamReader:
        """A supervisor that speaks our protocol, told of all that is open. UnavailableError when none comes up."""
        await self._disconnect()
        deadline = asyncio.get_running_loop().time() + _READY_TIMEOUT_S
        wait_s = 0.005
        while asyncio.get_running_loop().time() < deadline:
            reader = await self._hello()
            if reader is not None:
                self._open_known()
                return reader
            # One that leaves just now still holds the lock, and a launched one ends when it finds another: so, again.
            if self._launched is None or self._launched.poll() is not None:
                try:
                    self._launched = launch(self._paths, self._idle_exit_s)
                except OSError as error:
                    raise self._unavailable(str(error)) from error
            await asyncio.sleep(wait_s)
            wait_s = min(0.1, 2 * wait_s)
        raise self._unavailable("it does not answer")

    def _unavailable(self, why: str) -> UnavailableError:
        return UnavailableError(
            "the supervisor, which runs the attempts, cannot be started: {why}",
            hint="look into {log}",
            why=why,
            log=self._paths.home / "supervisor.log",
        )

    async def _hello(self) -> asyncio.StreamReader | None:
        path = self._paths.supervisor_socket
        try:
            reader, writer = await asyncio.open_unix_connection(os.fspath(path))
        except (FileNotFoundError, ConnectionError):
            return None
        if not _is_ours(writer.get_extra_info("socket")):
            writer.close()
            raise self._unavailable(f"{path} belongs to someone else")
        pid = _peer_pid(writer.get_extra_info("socket"))
        if _is_stopped(pid):
            writer.close()
            raise UnavailableError(_STOPPED, pid=pid)
        try:
            writer.write(wire.line({"do": "hello"}))
            async with asyncio.timeout(_ANSWER_S):
                answer = json.loads(await reader.readline() or "null")
            ours = home_key(self._paths)
            if answer is not None and answer["hello"].get("home", ours) != ours:
                path.unlink(missing_ok=True)  # that of a home which was here before, whose attempts it goes on with
                writer.close()
                return None
            if answer is not None and answer["hello"]["protocol"] == PROTOCOL:
                self._writer = writer
                self.supervisor_pid = answer["hello"]["pid"]
                return reader
            writer.write(wire.line({"do": "leave"}))  # another version's; attempts go on without it and are found again
            await reader.read()
        except (ConnectionError, TimeoutError):
            pass
        writer.close()
        return None

    def _open_known(self) -> None:
        attempts = [
            wire.open_to_json(OpenAttempt(attempt_id, known.stem, known.spec))
            for attempt_id, known in self._known.items()
            if not known.ended
        ]
        self._send(wire.line({"do": "open", "attempts": attempts}))
        for attempt_id, known in self._known.items():
            if known.stop is not None and not known.ended:
                self._send(_stop_line(attempt_id, *known.stop))

    async def _disconnect(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            try:
                async with asyncio.timeout(_DRAIN_S):
                    await writer.wait_closed()
            except ConnectionError:
                return
            except TimeoutError:
                writer.transport.abort()


def _stop_line(attempt_id: int, why: EndReason, grace_s: float) -> bytes:
    return wire.line({"do": "stop", "id": attempt_id, "why": why.value, "grace_s": grace_s})


def _is_stopped(pid: int) -> bool:
    """Whether the process is stopped (SIGSTOP) and does nothing until somebody wakes it. False where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def _is_ours(connection: socket.socket) -> bool:
    """Whether the same user or root listens there (where the system can say)."""
    return not hasattr(socket, "SO_PEERCRED") or _peer(connection)[1] in (os.getuid(), 0)


def _peer_pid(connection: socket.socket) -> int:
    """Of whoever listens there; 0 where the system does not tell."""
    return _peer(connection)[0] if hasattr(socket, "SO_PEERCRED") else 0


def _peer(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid)"""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid
