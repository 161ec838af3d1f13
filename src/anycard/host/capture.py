"""``anycard capture``: one file that shows another person what this machine answers about its cards, private details removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import anycard
from anycard.errors import AnycardError, UsageError
from anycard.host import bundle as bundles
from anycard.host import private
from anycard.host.bundle import Bundle
from anycard.host.host import Host
from anycard.host.live import LiveHost
from anycard.host.private import Private
from anycard.host.probes import KEEP_LINES, look_at_everything
from anycard.host.recording import RecordingHost
from anycard.host.scrub import Scrubber
from anycard.model.text import Text


class PrivateDetailsRemain(AnycardError):
    """Something private would have stayed in the bundle; nothing was written."""

    code = "private-details-remain"


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """``removed`` counts private details by kind (user, host, serial, secret, uuid, mac, ipv4, ipv6, email, hex). ``notes`` say what was
    left in or left out, in words."""

    path: Path
    size_bytes: int
    commands: int
    files: int
    removed: Mapping[str, int]
    notes: tuple[Text, ...] = ()


def capture(path: Path | str, host: Host | None = None) -> CaptureSummary:
    """Looks at this machine and writes the bundle to ``path`` (tar.gz, 0600), whole or not at all.

    UsageError when ``path`` cannot be written; PrivateDetailsRemain when the removal was not complete.
    """
    target = Path(path)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(
            "cannot write a bundle to {path}",
            hint="Name a file in a folder that exists, e.g. capture.tar.gz",
            path=target,
        )
    machine = LiveHost() if host is None else host
    recording = RecordingHost(machine, KEEP_LINES)
    look_at_everything(recording)
    clean, scrubber, notes = remove_private(recording.bundle, private.of_this_machine(machine))
    removed = dict(sorted(scrubber.removed.items()))
    about = {
        "anycard": anycard.__version__,
        "captured_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "removed": removed,
        "notes": [str(note) for note in notes],
    }
    try:
        size = bundles.write(clean, target, about)
    except OSError as error:
        raise UsageError("cannot write {path}: {reason}", path=target, reason=error.strerror or str(error)) from error
    return CaptureSummary(
        target,
        size,
        len(clean.commands),
        sum(read.data is not None for read in clean.files.values()),
        removed,
        tuple(notes),
    )


def remove_private(bundle: Bundle, known: Private) -> tuple[Bundle, Scrubber, list[Text]]:
    """The bundle without private details, and what there is to say about it. PrivateDetailsRemain."""
    notes: list[Text] = []
    bundle = _without_binary(bundle, notes)
    scrubber = Scrubber(known)
    texts = list(_texts(bundle))
    scrubber.learn(texts)
    for process in bundle.processes.values():
        if process and process.user:
            scrubber.add_person(process.user)
    for node in bundle.nodes.values():
        for name in (node.owner, node.group) if node else ():
            if name and not _is_system_account(name):
                scrubber.add_person(name)
    clean = _scrubbed(bundle, scrubber)
    for word, kind in sorted(scrubber.left_in.items()):
        if any(word.lower() in text.lower() for text in texts):
            notes.append(
                Text(
                    "The {kind} name {word} is a common or very short word and was left in.",
                    {"kind": kind, "word": word},
                )
            )
    remaining = sorted({word for text in _texts(clean) for word in scrubber.survivors(text)})
    if remaining:
        raise PrivateDetailsRemain(
            "the bundle was not written: {count} private details could not be removed from it",
            hint="Please report this; the details are not shown here so that they do not reach a log.",
            count=len(remaining),
        )
    return clean, scrubber, notes


def _without_binary(bundle: Bundle, notes: list[Text]) -> Bundle:
    """What is no text cannot be searched for private details, so it is left out. A cut text loses its last line: half a secret is not
    known as one."""
    commands, files = {}, {}
    for argv, result in bundle.commands.items():
        if b"\0" in result.stdout + result.stderr:
            notes.append(Text("The output of {command} is no text and was left out.", {"command": " ".join(argv)}))
            result = replace(result, stdout=b"", stderr=b"")
        elif result.truncated or result.timed_out:
            result = replace(result, stdout=_whole_lines(result.stdout), stderr=_whole_lines(result.stderr))
        commands[argv] = result
    for path, read in bundle.files.items():
        if read.data is not None and b"\0" in read.data:
            notes.append(Text("The file {path} is no text and was left out.", {"path": path}))
            read = replace(read, data=None, error="BINARY")
        elif read.data is not None and read.truncated:
            read = replace(read, data=_whole_lines(read.data))
        files[path] = read
    return replace(bundle, commands=commands, files=files)


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def _texts(bundle: Bundle) -> Iterator[str]:
    """Every string in a bundle."""
    for argv, result in bundle.commands.items():
        yield from argv
        yield _decode(result.stdout)
        yield _decode(result.stderr)
    for path, read in bundle.files.items():
        yield path
        yield _decode(read.data or b"")
    rest = (bundle.environ, bundle.environ_names, bundle.folders, bundle.links, bundle.libraries)
    yield from _strings(rest)
    for process in bundle.processes.values():
        yield from _strings((process.user, process.command) if process else ())
    for node_path, node in bundle.nodes.items():
        yield node_path
        yield from _strings((node.owner, node.group) if node else ())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _scrubbed(bundle: Bundle, scrubber: Scrubber) -> Bundle:
    text = scrubber.text

    def data(raw: bytes) -> bytes:
        return text(_decode(raw)).encode("utf-8", "surrogateescape")

    def name(value: str | None) -> str | None:
        return None if value is None else text(value)

    return Bundle(
        platform=bundle.platform,
        environ=scrubber.json(bundle.environ),
        environ_names=scrubber.json(bundle.environ_names),
        commands={
            argv: replace(result, stdout=data(result.stdout), stderr=data(result.stderr))
            for argv, result in bundle.commands.items()
        },
        files={
            text(path): read if read.data is None else replace(read, data=data(read.data))
            for path, read in bundle.files.items()
        },
        folders={text(path): names and tuple(scrubber.json(names)) for path, names in bundle.folders.items()},
        links={text(path): name(target) for path, target in bundle.links.items()},
        nodes={
            text(path): node and replace(node, owner=name(node.owner), group=name(node.group))
            for path, node in bundle.nodes.items()
        },
        processes={
            pid: process and replace(process, user=name(process.user), command=name(process.command))
            for pid, process in bundle.processes.items()
        },
        libraries=scrubber.json(bundle.libraries),
    )


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _is_system_account(name: str) -> bool:
    """Owners that device nodes have everywhere."""
    return name in (
        "root",
        "video",
        "render",
        "kvm",
        "disk",
        "tty",
        "sgx",
        "kmem",
        "vglusers",
        "HwHiAiUser",
        "nobody",
        "nogroup",
    )
