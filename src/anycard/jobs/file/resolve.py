"""A parsed job, or a bare command, to a JobSpec: what must be looked up on the machine, as the submitting user.

Paths: a job runs in its file's folder, or in ``workdir``, which counts from that folder: so a file means the same wherever it is
submitted from. A command, or a file read from standard input, starts from where the submitter stood. Every other relative path
counts from the workdir.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePath
from typing import Any

from anycard.jobs.file.allowed import allowed_environment, is_utf8
from anycard.jobs.file.environment import Variable, check_name, values_of
from anycard.jobs.file.faults import Faults, Place, nearest
from anycard.jobs.file.foreach import Item, expand
from anycard.jobs.file.looking import Budget
from anycard.jobs.file.nodes import Node, from_option, is_null
from anycard.jobs.file.own_keys import read_parallel, read_priority, read_times
from anycard.jobs.file.parse import ParsedJob, name_from
from anycard.jobs.file.readers import read_flag, read_job_name, read_seconds
from anycard.jobs.file.resources import Ask, read_override
from anycard.jobs.spec import JobSpec, Mount, ReleaseRule, RetryRule, Sizing
from anycard.model.text import Text

OPTIONS = ("name", "cpus", "memory", "accelerators", "priority", "time_limit", "parallel", "retry", "held")
STANDARD_INPUT = ("", "-", "<stdin>")  # file names that name no folder
MAX_ARGV_BYTES = 1024 * 1024
_DEFAULT_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Resolved:
    """``spec`` may be kept and shown; ``secret_values`` only ever in a 0600 file. ``follows`` and ``pipeline`` as in ParsedJob; ``held``
    as the submitter asked."""

    spec: JobSpec
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    pipeline: str | None = None
    follows: bool = False
    held: bool = False
    warnings: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class _Options:
    """The command line's words, which go before the file's."""

    ask: Ask
    name: str | None = None
    priority: int | None = None
    time_limit_s: float | None = None
    parallel: int | None = None
    retries: int | None = None
    held: bool = False


def resolve(
    job: ParsedJob,
    *,
    cwd: str,
    environ: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    umask: int = 0o022,
    options: Mapping[str, Any] | None = None,
    budget: Budget | None = None,
) -> Resolved:
    """``job`` as it will run. ``cwd`` and ``environ`` are the submitter's, ``given`` are values for ``envs`` and ``secrets`` (``--env``),
    ``options`` the names of OPTIONS. Reads folders and the files that ``job`` names; jobs of one file share a ``budget`` of looking for
    files. Raises JobFileError with every fault found."""
    faults = Faults()
    chosen = _read_options(options or {}, faults)
    given = _checked_given(given or {}, faults)
    envs, secrets = _variables(job, given, environ, faults)
    workdir = _workdir(job, cwd, environ, envs, faults)
    items = (
        expand(job.own.foreach, workdir, lambda path: _expand(path, environ, envs), faults, budget)
        if job.own.foreach and workdir
        else None
    )
    mounts = tuple(
        _mount(mount.target, mount.source, mount.place, workdir, environ, envs, faults)
        for mount in job.mounts
        if workdir
    )
    not_before = _utc_seconds(job.own.not_before, environ)
    faults.raise_if_any()
    assert workdir is not None
    spec = _spec(job, chosen, workdir, envs, secrets, mounts, items, not_before, allowed_environment(environ), umask)
    return Resolved(spec, secrets, job.pipeline, job.follows, chosen.held, job.warnings)


def from_command(
    argv: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str],
    name: str | None = None,
    given: Mapping[str, str] | None = None,
    umask: int = 0o022,
    options: Mapping[str, Any] | None = None,
) -> Resolved:
    """``anycard run -- CMD``: one item that runs ``argv`` directly, no shell between. Raises JobFileError."""
    place = Place("command", 0, 0)
    faults = Faults()
    if not argv or not argv[0]:
        faults.add(place, "There is nothing to do: no command was given")
    elif any("\0" in word or not is_utf8(word) for word in argv):
        faults.add(place, "A word of the command is not UTF-8 or holds a NUL byte")
    elif sum(len(word) + 1 for word in argv) > MAX_ARGV_BYTES:
        faults.add(place, "The command is longer than {limit} bytes", limit=MAX_ARGV_BYTES)
    faults.raise_if_any()
    job = ParsedJob(place, "command", name_from(PurePath(argv[0]).name), command=tuple(argv))
    named = {**(options or {}), **({"name": name} if name is not None else {})}
    return resolve(job, cwd=cwd, environ=environ, given=given, umask=umask, options=named)


def _spec(
    job: ParsedJob,
    chosen: _Options,
    workdir: Path,
    envs: dict[str, str],
    secrets: Mapping[str, str],
    mounts: tuple[Mount, ...],
    items: tuple[Item, ...] | None,
    not_before: float | None,
    environment: dict[str, str],
    umask: int,
) -> JobSpec:
    own, resources = job.own, job.resources
    retry = own.retry or resources.retry or RetryRule()
    if chosen.retries is not None:
        retry = retry.model_copy(update={"times": chosen.retries})
    return JobSpec(
        name=chosen.name or job.name,
        command=job.command,
        run=job.run,
        setup=job.setup,
        setup_environment=own.environment,
        workdir=str(workdir),
        copy_workdir=own.copy_workdir,
        envs=envs,
        secrets=tuple(secrets),
        environment=environment,
        umask=umask & 0o777,
        mounts=mounts,
        options=resources.demands(chosen.ask),
        cpus_given=resources.cpus_given(chosen.ask),
        items=items,
        parallel=own.parallel if chosen.parallel is None else chosen.parallel,
        priority=_first(chosen.priority, own.priority, resources.priority) or 0,
        after=tuple(own.after),
        not_before=not_before,
        time_limit_s=own.time_limit_s if chosen.time_limit_s is None else chosen.time_limit_s,
        stop_grace_s=_DEFAULT_GRACE_S if own.stop_grace_s is None else own.stop_grace_s,
        retry=retry,
        release=ReleaseRule(idle_s=resources.idle_s if own.idle_s is None else own.idle_s, max_s=own.max_s),
        resumable=own.resumable,
        preemptible=resources.preemptible,
        stop_on_item_error=own.stop_on_item_error,
        sizing=None if own.model is None else Sizing(ask=own.model),
        ignored=job.ignored,
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _read_options(options: Mapping[str, Any], faults: Faults) -> _Options:
    nodes: dict[str, Node] = {}
    for name, value in options.items():
        node = from_option(name, value)
        if name not in OPTIONS:
            faults.add(node.place, "{value} is not an option", value=name, nearest=nearest(name, OPTIONS))
        elif not is_null(node):
            nodes[name] = node
    get = nodes.get
    return _Options(
        ask=read_override(get("cpus"), get("memory"), get("accelerators"), faults),
        name=read_job_name(nodes["name"], "name", faults) if "name" in nodes else None,
        priority=read_priority(nodes["priority"], "priority", faults) if "priority" in nodes else None,
        time_limit_s=read_seconds(nodes["time_limit"], "time_limit", faults, positive=True)
        if "time_limit" in nodes
        else None,
        parallel=read_parallel(nodes["parallel"], "parallel", faults) if "parallel" in nodes else None,
        retries=read_times(nodes["retry"], "retry", faults) if "retry" in nodes else None,
        held=bool(read_flag(nodes["held"], "held", faults)) if "held" in nodes else False,
    )


def _checked_given(given: Mapping[str, str], faults: Faults) -> dict[str, str]:
    place = Place("--env", 0, 0)
    return {name: value for name, value in given.items() if check_name(name, place, "env", faults)}


def _variables(
    job: ParsedJob, given: Mapping[str, str], environ: Mapping[str, str], faults: Faults
) -> tuple[dict[str, str], dict[str, str]]:
    """The values of envs (with what was given beyond the file's) and of secrets."""
    secret_names = {variable.name for variable in job.secrets}
    in_file = {variable.name for variable in job.envs}
    place = Place("--env", 0, 0)
    extra = tuple(Variable(name, value, place) for name, value in given.items() if name not in secret_names | in_file)
    return values_of((*job.envs, *extra), given, environ, faults), values_of(job.secrets, given, environ, faults)


def _workdir(
    job: ParsedJob, cwd: str, environ: Mapping[str, str], envs: Mapping[str, str], faults: Faults
) -> Path | None:
    place = job.workdir_place or job.place
    start = Path(cwd)
    if not start.is_absolute():
        faults.add(place, "The folder {value} of the submitter is not an absolute path", value=cwd)
        return None
    folder = start if job.command or job.file_name in STANDARD_INPUT else (start / job.file_name).parent
    if job.workdir is not None:
        folder = folder / _expand(job.workdir, environ, envs)
    try:
        folder = folder.resolve(strict=True)
        is_folder = folder.is_dir()
        if is_folder and not os.access(folder, os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    # RuntimeError: a loop of symbolic links, before Python 3.13; ValueError: a NUL byte or half a character in a name
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        faults.add(place, "The folder {value} cannot be entered: {why}", value=str(folder), why=why)
        return None
    if not is_folder:
        faults.add(place, "{value} is not a folder", value=str(folder))
        return None
    if not is_utf8(str(folder)):
        faults.add(place, "The name of the folder {value} is not UTF-8", value=ascii(str(folder)))
        return None
    return folder


def _mount(
    target: str,
    source: str,
    place: Place,
    workdir: Path,
    environ: Mapping[str, str],
    envs: Mapping[str, str],
    faults: Faults,
) -> Mount:
    path = workdir / _expand(source, environ, envs)
    try:
        path.stat()
    except OSError as error:
        faults.add(
            place,
            "file_mounts: {value} cannot be read: {why}",
            value=source,
            why=error.strerror or type(error).__name__,
        )
    return Mount(target=_expand(target, environ, envs), source=str(path))


def _expand(text: str, environ: Mapping[str, str], envs: Mapping[str, str]) -> str:
    """A leading ``~`` is the submitter's home, ``$NAME`` and ``${NAME}`` a variable of ``envs``; nothing else is replaced."""
    if envs:
        text = re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda m: envs.get(m.group(1) or m.group(2), m.group()), text)
    home = environ.get("HOME")
    return home + text[1:] if home and (text == "~" or text.startswith("~/")) else text


def _utc_seconds(moment: datetime | None, environ: Mapping[str, str]) -> float | None:
    if moment is None:
        return None
    if moment.tzinfo is not None:
        return moment.astimezone(UTC).timestamp()
    zone = _zone(environ.get("TZ"))
    return (moment.replace(tzinfo=zone) if zone else moment.astimezone()).timestamp()


def _zone(name: str | None) -> tzinfo | None:
    """The submitter's TZ where the machine knows it; None: the machine's own zone."""
    if not name:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name.removeprefix(":"))
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return None
