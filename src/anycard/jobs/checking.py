"""A submission's file or command, read and checked as the submitting user: in this process, or in one with that user's rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from anycard.errors import UsageError
from anycard.jobs.checkserver import CheckServer
from anycard.jobs.file.faults import Fault, JobFileError
from anycard.jobs.file.looking import Budget
from anycard.jobs.file.parse import parse
from anycard.jobs.file.resolve import Resolved, from_command, resolve
from anycard.jobs.file.setup_key import setup_key
from anycard.jobs.files import Owner
from anycard.jobs.spec import JobSpec
from anycard.model.text import Text


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
    cards: tuple[tuple[str, int | None], ...] = ()  # of this host: model and memory, for jobs that name a model


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
        budget = Budget()  # one for the file, however many jobs it holds: each could be a look of its own
        found = [resolve(job, options=options, budget=budget, **common) for job in parsed]
    jobs = tuple(CheckedJob(_sized(one.spec, request), one.secret_values, _setup_key(one.spec)) for one in found)
    ignored = tuple(dict.fromkeys(key for one in found for key in one.spec.ignored))
    warnings = tuple(str(warning) for one in found for warning in one.warnings)
    return Checked(jobs, any(one.held for one in found), ignored, warnings)


def _sized(spec: JobSpec, request: Request) -> JobSpec:
    if spec.sizing is None:
        return spec
    from anycard.jobs.modelsize import sized  # most jobs name no model, and pay nothing for those that do

    return sized(spec, request.cards)


# A check may look for files for minutes: it must not take the threads that everything else needs.
_threads = ThreadPoolExecutor(4, "check")
_server = CheckServer()


def _setup_key(spec: JobSpec) -> str | None:
    if spec.setup is None:
        return None
    try:
        return setup_key(spec)
    except OSError as error:
        raise UsageError(
            "the files that say what setup needs cannot be read in {folder}: {why}",
            folder=spec.workdir,
            why=error.strerror or str(error),
        ) from error


async def check_as(request: Request, owner: Owner | None) -> Checked:
    """As ``check``, off the loop; with the rights of ``owner`` (uid, gid) when given, which needs root."""
    if owner is not None:
        return _checked(json.loads(await _server.ask(json.dumps(asdict(request)).encode(), owner)))
    if request.command is not None:
        return check(request)  # touches one folder; a thread would cost more than it saves
    return await asyncio.get_running_loop().run_in_executor(_threads, check, request)


def answer(request: bytes) -> bytes:
    """``check`` for the process that does it for another: JSON in, JSON out."""
    try:
        checked = check(Request(**json.loads(request)))
    except JobFileError as error:
        return json.dumps({"faults": error.faults_json()}).encode()
    return json.dumps(
        {
            "jobs": [
                {"spec": job.spec.model_dump(), "secrets": dict(job.secrets), "setup_key": job.setup_key}
                for job in checked.jobs
            ],
            "held": checked.held,
            "ignored": checked.ignored,
            "warnings": checked.warnings,
        }
    ).encode()


def _checked(answered: Mapping[str, Any]) -> Checked:
    if "faults" in answered:
        raise JobFileError([_fault(fault) for fault in answered["faults"]])
    jobs = tuple(CheckedJob(JobSpec(**job["spec"]), job["secrets"], job["setup_key"]) for job in answered["jobs"])
    return Checked(jobs, answered["held"], tuple(answered["ignored"]), tuple(answered["warnings"]))


def _fault(fault: Mapping[str, Any]) -> Fault:
    message = Text(fault["msgid"], fault["params"])
    return Fault(fault["file"], fault["line"], fault["column"], fault["value"], message, fault["nearest"])


def load_everything() -> None:
    """What is imported only when first needed, is needed once now: before a process gives away its rights to read our installation."""
    text = (
        "run: 'true'\nsetup: 'true'\nresources: {cpus: 1, memory: 1GB}\n"
        "anycard: {foreach: {count: 1}, time_limit: 1h, model: SmolLM2-135M}\n"
    )
    check(Request(cwd="/", submit_key="", file=text, file_name="<text>", cards=(("A100", None),)))
