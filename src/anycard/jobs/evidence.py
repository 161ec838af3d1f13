"""The doctor for evidence that somebody hands over, and for this host: each in a process of its own, bounded in time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

from anycard.errors import AnycardError, NotFoundError, UnavailableError, UsageError

_TIME_LIMIT_S = 60.0
_AT_ONCE = 2  # each takes a core
_running = asyncio.Semaphore(_AT_ONCE)


async def diagnose_evidence(data: bytes) -> dict[str, Any]:
    """The document of ``anycard doctor --from FILE --json`` about a log, or an archive of logs, or a bundle.

    UsageError when it is none of these; UnavailableError when it takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="anycard-evidence-") as folder:  # made 0700
        file = Path(folder, _name(data))
        await asyncio.to_thread(file.write_bytes, data)
        return await _ask("--from", str(file))


async def diagnose_host() -> dict[str, Any]:
    """The document of ``anycard doctor --json`` on this machine."""
    return await _ask()


def _name(data: bytes) -> str:
    """Proof names it. A bundle is told from any other archive by its first member, and that is looked for in what is called one."""
    return "log.tar.gz" if data[:2] == b"\x1f\x8b" else "log"


async def _ask(*arguments: str) -> dict[str, Any]:
    async with _running:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "anycard.doctor", *arguments),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_TIME_LIMIT_S):
                answer, _ = await process.communicate()
        except TimeoutError:
            raise UnavailableError("the doctor took longer than {limit} s", limit=round(_TIME_LIMIT_S)) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
    try:
        told: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise UnavailableError("the doctor ended without an answer", hint="the daemon's log says more") from None
    if "error" in told:
        raise _error(told["error"])
    return told


def _error(told: dict[str, Any]) -> AnycardError:
    kind = NotFoundError if told["code"] == NotFoundError.code else UsageError
    params = {**told["params"], **({"path": "evidence"} if "path" in told["params"] else {})}  # not our temporary file
    return kind(told["msgid"], hint=told["hint_msgid"], **params)
