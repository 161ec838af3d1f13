"""The text of a job file to parsed jobs: everything that can be checked without looking at a machine.

A file holds one job, or several after each other, parted by ``---`` (a pipeline). As in SkyPilot, a first document that has only a
``name`` names the pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from anycard.jobs.file.environment import Variable, read_variables
from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.nodes import MapNode, Node, Scalar, is_null, read_documents, written
from anycard.jobs.file.own_keys import KEYS as OWN_KEYS
from anycard.jobs.file.own_keys import OwnKeys, read_own_keys
from anycard.jobs.file.readers import NAME, Section, read_job_name, read_mapping, read_text, read_whole
from anycard.jobs.file.resources import IGNORED as IGNORED_RESOURCES
from anycard.jobs.file.resources import KEYS as RESOURCE_KEYS
from anycard.jobs.file.resources import Resources, read_resources
from anycard.model.text import Text

_STORAGE_KEYS = ("source", "name", "store", "persistent", "mode", "mount_options", "type", "config")
MAX_JOBS = 100  # of one pipeline
KEYS = ("name", "workdir", "num_nodes", "resources", "envs", "secrets", "file_mounts", "setup", "run", "anycard")
# They concern SkyPilot's own server and clouds; a job runs the same without them.
IGNORED = (
    "config",
    "experimental",
    "event_callback",
    "inputs",
    "outputs",
    "file_mounts_mapping",
    "api_server_access",
    "_metadata",
)
# Ignoring these would run something else than was meant, so they are faults.
_NO_VOLUMES = Text("{key} cannot be attached here: mount the data and name its local path in file_mounts")
REFUSED = {
    "service": Text("Services are not here yet: {key} cannot be run as a batch job"),
    "pool": Text("Pools are not here: anycard queues jobs on the machine it runs on"),
    "volumes": _NO_VOLUMES,
    "volume_mounts": _NO_VOLUMES,
    "managed_secrets": Text(
        "{key} are kept by a SkyPilot server: write the names under secrets and give the values when you submit"
    ),
}
_ELSEWHERE = {
    **{key: f"resources.{key}" for key in (*RESOURCE_KEYS, *IGNORED_RESOURCES) if not key.startswith("_")},
    **{key: f"anycard.{key}" for key in OWN_KEYS},
    "env": "envs",
    "command": "run",
}


@dataclass(frozen=True, slots=True)
class ParsedMount:
    target: str
    source: str
    place: Place


@dataclass(frozen=True, slots=True)
class ParsedJob:
    """A job as its file says, nothing looked up yet. ``follows``: it starts when the job before it in the list has succeeded."""

    place: Place
    file_name: str
    name: str
    command: tuple[str, ...] | None = None
    run: str | None = None
    setup: str | None = None
    workdir: str | None = None
    workdir_place: Place | None = None
    envs: tuple[Variable, ...] = ()
    secrets: tuple[Variable, ...] = ()
    mounts: tuple[ParsedMount, ...] = ()
    resources: Resources = field(default_factory=Resources)
    own: OwnKeys = field(default_factory=OwnKeys)
    pipeline: str | None = None
    follows: bool = False
    ignored: tuple[str, ...] = ()
    warnings: tuple[Text, ...] = ()


def parse(text: str | bytes, file_name: str) -> list[ParsedJob]:
    """The jobs of a file, in order. Touches no file. Raises JobFileError with every fault found."""
    faults = Faults()
    documents = read_documents(text, file_name, faults)
    if not documents and not faults:
        faults.add(Place(file_name, 1, 1), "The file is empty: a job needs at least run")
    pipeline = None
    if len(documents) > 1 and (pipeline := _pipeline_name(documents[0], faults)):
        documents = documents[1:]
    if len(documents) > MAX_JOBS:
        faults.add(documents[MAX_JOBS].place, "More than {limit} jobs in one file", limit=MAX_JOBS)
    from_file = name_from(PurePath(file_name).stem)
    several = len(documents) > 1
    pipeline = pipeline or (from_file if several else None)
    jobs: list[ParsedJob] = []
    for index, document in enumerate(documents[:MAX_JOBS]):
        default_name = f"{(pipeline or from_file)[:95]}-{index + 1}" if several else pipeline or from_file
        job = _read_job(document, file_name, default_name, pipeline, index > 0, faults)
        if job is not None:
            jobs.append(job)
    _check_order(jobs, faults)
    faults.raise_if_any()
    return jobs


def _check_order(jobs: Sequence[ParsedJob], faults: Faults) -> None:
    for index, job in enumerate(jobs):
        not_before_it = {other.name for other in jobs[index:]} - {other.name for other in jobs[:index]}
        for name, place in job.own.after.items():
            if name in not_before_it:
                faults.add(
                    place,
                    "anycard.after: {value} does not come earlier in this file, whose jobs run in order",
                    value=name,
                )


def name_from(text: str) -> str:
    """``text`` made into a job name: what may not be in one becomes ``-``."""
    kept = "".join(character if NAME.fullmatch("x" + character) else "-" for character in text)[:100].lstrip("-")
    return f"job-{kept}" if kept.isdecimal() else kept or "job"


def _pipeline_name(node: Node, faults: Faults) -> str | None:
    if not isinstance(node, MapNode) or [key.text for key, _ in node.entries] != ["name"]:
        return None
    return read_job_name(node.entries[0][1], "name", faults)


def _read_job(
    node: Node, file_name: str, default_name: str, pipeline: str | None, follows: bool, faults: Faults
) -> ParsedJob | None:
    if not isinstance(node, MapNode):
        faults.add(node.place, "A job is a mapping (name: ..., run: ...), not {value}", value=written(node))
        return None
    section = Section(node, "", faults, KEYS, ignored=(*IGNORED, *REFUSED), elsewhere=_ELSEWHERE)
    for key, value in node.entries:
        if key.text in REFUSED and not is_null(value):
            faults.add(key.place, REFUSED[key.text].msgid, key=key.text)
    name, workdir, resources_node, own_node = (section.get(key) for key in ("name", "workdir", "resources", "anycard"))
    _check_one_node(section, faults)
    resources = read_resources(resources_node, faults) if resources_node else Resources()
    envs_node, secrets_node, mounts_node = (section.get(key) for key in ("envs", "secrets", "file_mounts"))
    envs = read_variables(envs_node, "envs", faults, secret=False) if envs_node else ()
    secrets = read_variables(secrets_node, "secrets", faults, secret=True) if secrets_node else ()
    for variable in secrets:
        if any(variable.name == other.name for other in envs):
            faults.add(variable.place, "{name} is in envs and in secrets", name=variable.name)
    return ParsedJob(
        place=node.place,
        file_name=file_name,
        name=(read_job_name(name, "name", faults) if name else None) or default_name,
        run=_read_script(section, "run", faults, required=True),
        setup=_read_script(section, "setup", faults, required=False),
        workdir=_read_workdir(workdir, faults) if workdir else None,
        workdir_place=workdir.place if workdir else None,
        envs=envs,
        secrets=secrets,
        mounts=_read_mounts(mounts_node, faults) if mounts_node else (),
        resources=resources,
        own=read_own_keys(own_node, faults) if own_node else OwnKeys(),
        pipeline=pipeline,
        follows=follows,
        ignored=(*section.ignored, *resources.ignored),
        warnings=resources.warnings,
    )


def _check_one_node(section: Section, faults: Faults) -> None:
    node = section.get("num_nodes")
    if node is None:
        return
    nodes = read_whole(node, "num_nodes", faults, least=1, most=1_000_000)
    if nodes is not None and nodes > 1:
        faults.add(
            node.place,
            "num_nodes is {count}, but anycard runs on one machine: only 1 can be had",
            count=nodes,
            value=str(nodes),
        )


def _read_script(section: Section, key: str, faults: Faults, *, required: bool) -> str | None:
    node = section.get(key)
    text = read_text(node, key, faults) if node else None
    if text is not None and text.strip():
        return text
    if required and (node is None or isinstance(node, Scalar)):
        faults.add(
            section.key(key).place if section.mentions(key) else section.node.place,
            "There is nothing to do: {key} is missing",
            key=key,
        )
    return None


def _read_workdir(node: Node, faults: Faults) -> str | None:
    if isinstance(node, MapNode):
        faults.add(
            node.place,
            "workdir wants a local folder: anycard does not fetch a repository, clone it and name the folder",
        )
        return None
    return read_text(node, "workdir", faults) or None


def _read_mounts(node: Node, faults: Faults) -> tuple[ParsedMount, ...]:
    mapping = read_mapping(node, "file_mounts", faults)
    mounts = [_read_mount(target, value, faults) for target, value in mapping.entries] if mapping else []
    return tuple(mount for mount in mounts if mount is not None)


def _read_mount(target: Scalar, value: Node, faults: Faults) -> ParsedMount | None:
    path = f"file_mounts.{target.text}"
    source: Node | None = value
    if isinstance(value, MapNode):
        source = Section(value, path, faults, _STORAGE_KEYS).get("source")
    if source is None:
        faults.add(
            value.place, "file_mounts: {value} has no local source, and buckets cannot be made here", value=target.text
        )
        return None
    text = read_text(source, path, faults)
    if text is None:
        return None
    if "://" in text:
        faults.add(
            source.place,
            "file_mounts: {value} is not on this machine; download or mount it and name its local path",
            value=text,
        )
        return None
    if not text or target.text.rstrip("/") in ("", ".", "..", "~"):
        faults.add(
            target.place, "file_mounts wants TARGET: SOURCE, two paths; {value} cannot be a target", value=target.text
        )
        return None
    return ParsedMount(target.text, text, source.place)
