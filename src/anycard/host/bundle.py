"""A bundle: what was looked at on one machine, and its form on disk.

manifest.json     schema "anycard.capture/1": what was asked, with exit codes and errors; long answers by the name of their text
texts/NNN-NAME    the answers, as text, so that a person can read what he sends
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from anycard.errors import UsageError
from anycard.host.host import CommandResult, FileRead, Json, NodeStat, ProcessSeen
from anycard.units import MIB

SCHEMA = "anycard.capture/1"
_MANIFEST = "manifest.json"
_TEXT_LIMIT = 8 * MIB  # a part's; bundles come from strangers
_BUNDLE_LIMIT = 256 * MIB
_PART = re.compile(r"texts/[A-Za-z0-9._-]+")


@dataclass(slots=True)
class Bundle:
    """What one machine answered. Paths and argument lists are the keys."""

    platform: str = "linux"
    environ: dict[str, str] = field(default_factory=dict)  # variables on the allowlist
    environ_names: list[str] = field(default_factory=list)  # of all variables
    commands: dict[tuple[str, ...], CommandResult] = field(default_factory=dict)
    files: dict[str, FileRead] = field(default_factory=dict)
    folders: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    links: dict[str, str | None] = field(default_factory=dict)
    nodes: dict[str, NodeStat | None] = field(default_factory=dict)
    processes: dict[int, ProcessSeen | None] = field(default_factory=dict)
    libraries: dict[str, Json] = field(default_factory=dict)


def write(bundle: Bundle, path: Path, about: dict[str, Json]) -> int:
    """Writes ``path`` (tar.gz, 0600) whole or not at all; returns its size in bytes. ``about`` goes into the manifest. OSError."""
    parts = _encode(bundle, about)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")  # 0600
    try:
        with open(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
                for name, data in parts.items():
                    member = tarfile.TarInfo(name)  # no owner, no time
                    member.size, member.mode = len(data), 0o600
                    archive.addfile(member, io.BytesIO(data))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    return path.stat().st_size


def load(path: Path) -> Bundle:
    """The bundle in a tar.gz file or in a folder; nothing is unpacked to disk. UsageError when it is none."""
    try:
        parts = _parts_of_folder(path) if path.is_dir() else _parts_of_archive(path)
        return _decode(parts)
    except (OSError, tarfile.TarError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            "{path} is not a bundle that anycard can read: {reason}",
            hint="Make one with: anycard capture OUT.tar.gz",
            path=path,
            reason=f"{type(error).__name__}: {error}",
        ) from error


def _encode(bundle: Bundle, about: dict[str, Json]) -> dict[str, bytes]:
    texts: dict[str, bytes] = {}

    def text(data: bytes | None, label: str) -> str | None:
        if data is None:
            return None
        name = f"texts/{len(texts):03d}-{re.sub(r'[^A-Za-z0-9._-]+', '_', label)[-60:].strip('_')}"
        texts[name] = data
        return name

    commands = [
        {
            "argv": list(argv),
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "truncated": result.truncated,
            "error": result.error,
            "stdout": text(result.stdout or None, "-".join(argv)),
            "stderr": text(result.stderr or None, "-".join(argv) + ".err"),
        }
        for argv, result in bundle.commands.items()
    ]
    files = {
        path: {"text": text(read.data, path), "error": read.error, "truncated": read.truncated}
        for path, read in bundle.files.items()
    }
    manifest = {
        "schema": SCHEMA,
        **about,
        "platform": bundle.platform,
        "environ": bundle.environ,
        "environ_names": bundle.environ_names,
        "commands": commands,
        "files": files,
        "folders": bundle.folders,
        "links": bundle.links,
        "nodes": {path: node and asdict(node) for path, node in bundle.nodes.items()},
        "processes": {str(pid): process and asdict(process) for pid, process in bundle.processes.items()},
        "libraries": bundle.libraries,
    }
    return {_MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode(), **texts}


def _decode(parts: dict[str, bytes]) -> Bundle:
    manifest = json.loads(parts[_MANIFEST])
    if manifest.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {manifest.get('schema')!r}, not {SCHEMA!r}")

    def data(name: str | None) -> bytes:
        return b"" if name is None else parts[name]

    return Bundle(
        platform=manifest["platform"],
        environ=dict(manifest["environ"]),
        environ_names=list(manifest["environ_names"]),
        commands={
            tuple(command["argv"]): CommandResult(
                tuple(command["argv"]),
                command["exit_code"],
                data(command["stdout"]),
                data(command["stderr"]),
                timed_out=command["timed_out"],
                truncated=command["truncated"],
                error=command["error"],
            )
            for command in manifest["commands"]
        },
        files={
            path: FileRead(
                None if read["text"] is None else parts[read["text"]], error=read["error"], truncated=read["truncated"]
            )
            for path, read in manifest["files"].items()
        },
        folders={path: None if names is None else tuple(names) for path, names in manifest["folders"].items()},
        links=dict(manifest["links"]),
        nodes={path: None if node is None else NodeStat(**node) for path, node in manifest["nodes"].items()},
        processes={
            int(pid): None if process is None else ProcessSeen(**process)
            for pid, process in manifest["processes"].items()
        },
        libraries=dict(manifest["libraries"]),
    )


def _parts_of_archive(path: Path) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    total = 0
    with tarfile.open(path, mode="r:gz") as archive:
        for member in archive:
            if not member.isfile() or not (member.name == _MANIFEST or _PART.fullmatch(member.name)):
                continue
            total += member.size
            if member.size > _TEXT_LIMIT or total > _BUNDLE_LIMIT:
                raise ValueError(f"{member.name} is too large")
            file = archive.extractfile(member)
            assert file is not None
            parts[member.name] = file.read()
    return parts


def _parts_of_folder(path: Path) -> dict[str, bytes]:
    names = [_MANIFEST, *(f"texts/{entry.name}" for entry in sorted((path / "texts").glob("*")))]
    return {name: (path / name).read_bytes() for name in names}
