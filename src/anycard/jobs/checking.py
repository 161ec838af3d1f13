"""A submission's file or command, read and checked as the submitting user: in this process, or in a child with that user's rights.

The child speaks JSON on stdin and stdout: `python -m anycard.jobs.checking [UID, GID, [GROUP...]]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from anycard.errors import UnavailableError
from anycard.jobs.file.faults import Fault, JobFileError
from anycard.jobs.file.parse import parse
from anycard.jobs.file.resolve import Resolved, from_command, resolve
from anycard.jobs.file.setup_key import setup_key
from anycard.jobs.files import Owner
from anycard.jobs.spec import JobSpec
from anycard.model.text import Text

CHECK_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A submission as it came in: see api/shapes.py SubmitRequest."""

    cwd: str
    submit_key: str
    file: str | None = None
    file_name: str | None = None
    command: list[str] | None = None
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    options: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """``setup_key`` None: the job has no setup."""

    spec: JobSpec
    secrets: Mapping[str, str] = field(repr=False)
    setup_key: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    jobs: tuple[CheckedJob, ...]
    held: bool
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]


def check(request: Request) -> Checked:
    """Reads and resolves with this process's rights. JobFileError with every fault."""
    common: dict[str, Any] = {
        "cwd": request.cwd,
        "environ": request.env,
        "given": request.given,
        "umask": request.umask,
    }
    found: list[Resolved]
    if request.command is not None:
        found = [from_command(request.command, name=request.name, options=request.options, **common)]
    else:
        options = {**request.options, **({"name": request.name} if request.name is not None else {})}
        parsed = parse(request.file or "", request.file_name or "<text>")
        found = [resolve(job, options=options, **common) for job in parsed]
    jobs = tuple(
        CheckedJob(one.spec, one.secret_values, setup_key(one.spec) if one.spec.setup is not None else None)
        for one in found
    )
    ignored = tuple(dict.fromkeys(key for one in found for key in one.spec.ignored))
    warnings = tuple(str(warning) for one in found for warning in one.warnings)
    return Checked(jobs, any(one.held for one in found), ignored, warnings)


async def check_as(request: Request, owner: Owner | None) -> Checked:
    """As ``check``, off the loop; with the rights of ``owner`` (uid, gid) when given, which needs root."""
    if owner is not None:
        async with _turns.setdefault(owner[0], asyncio.Semaphore(_AT_ONCE)):
            return await _check_in_child(request, owner)
    if request.command is not None:
        return check(request)  # touches one folder; a thread would cost more than it saves
    return await asyncio.get_running_loop().run_in_executor(_threads, check, request)


# A check may look for files for minutes. It must not take the threads that everything else needs, nor one user everybody's processes.
_AT_ONCE = 4
_threads = ThreadPoolExecutor(_AT_ONCE, "check")
_turns: dict[int, asyncio.Semaphore] = {}


async def _check_in_child(request: Request, owner: Owner) -> Checked:
    uid, gid = owner
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-s", "-P", "-m", "anycard.jobs.checking", json.dumps([uid, gid, _groups(uid, gid)])),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            said, complaint = await child.communicate(json.dumps(asdict(request)).encode())
    except TimeoutError:
        raise _unchecked(f"it took more than {CHECK_TIMEOUT_S:.0f} s") from None
    finally:
        if child.returncode is None:  # too late, or nobody waits any more
            child.kill()
            await child.wait()
    if child.returncode != 0:
        raise _unchecked(complaint.decode(errors="replace").strip().rpartition("\n")[2] or f"exit {child.returncode}")
    answer = json.loads(said)
    if "faults" in answer:
        raise JobFileError([_fault(fault) for fault in answer["faults"]])
    jobs = tuple(CheckedJob(JobSpec(**job["spec"]), job["secrets"], job["setup_key"]) for job in answer["jobs"])
    return Checked(jobs, answer["held"], tuple(answer["ignored"]), tuple(answer["warnings"]))


def _unchecked(why: str) -> UnavailableError:
    return UnavailableError("the job file could not be read as its user: {why}", why=why)


def _groups(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]


def _fault(fault: Mapping[str, Any]) -> Fault:
    message = Text(fault["msgid"], fault["params"])
    return Fault(fault["file"], fault["line"], fault["column"], fault["value"], message, fault["nearest"])


def _main() -> int:
    """The child's side. It starts as root, because users need not be able to read our installation, and gives its rights away before it
    looks at anything that they sent."""
    uid, gid, groups = json.loads(sys.argv[1])
    _load_everything()
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    request = Request(**json.load(sys.stdin.buffer))
    try:
        checked = check(request)
    except JobFileError as error:
        json.dump({"faults": error.faults_json()}, sys.stdout)
        return 0
    json.dump(
        {
            "jobs": [
                {"spec": job.spec.model_dump(), "secrets": dict(job.secrets), "setup_key": job.setup_key}
                for job in checked.jobs
            ],
            "held": checked.held,
            "ignored": checked.ignored,
            "warnings": checked.warnings,
        },
        sys.stdout,
    )
    return 0


def _load_everything() -> None:
    """What is imported only when first needed, is needed once now, on a file of our own."""
    text = "run: 'true'\nsetup: 'true'\nresources: {cpus: 1, memory: 1GB}\nanycard: {foreach: {count: 1}, time_limit: 1h}\n"
    check(Request(cwd="/", submit_key="", file=text, file_name="<text>"))


if __name__ == "__main__":
    sys.exit(_main())
