"""The body of POST /v1/jobs: what is submitted, and where the submitter stands."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anycard.errors import NotFoundError, UsageError
from anycard.jobs.file.allowed import allowed_environment

_FILE_MAX_BYTES = 16 * 1024**2  # a job file is text that a person wrote; a larger one is a mistake


def submission(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    command: Sequence[str] | None = None,
    name: str | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int | None = None,
    options: Mapping[str, Any] | None = None,
    given: Mapping[str, str] | None = None,
    submit_key: str | None = None,
) -> dict[str, Any]:
    """One submission: the path of a job ``file`` (or its ``text``, then ``file`` only names it), or a ``command`` as a list of arguments.

    ``cwd`` and ``env`` default to this process's folder and environment, of which only what every program gets and names that stand in the
    file are sent. ``options`` are those of the command line ({"cpus": "4", "memory": "8GB", "accelerators": "A100:1",
    "priority": 5, "held": True, "time_limit": "2h"}); ``given`` fills variables that the file leaves open. ``submit_key`` makes it
    repeatable: the same key twice is one job.

    Raises NotFoundError for a missing file, UsageError for one that is no text, text that is not Unicode, or a command that is one string.
    """
    if (command is None) == (file is None and text is None):
        raise UsageError("either a job file or a command is submitted")
    body: dict[str, Any] = {
        "name": name,
        "cwd": os.fspath(cwd) if cwd is not None else _folder(),
        "env": {},
        "umask": _umask() if umask is None else umask,
        "options": dict(options or {}),
        "given": dict(given or {}),
        "submit_key": submit_key or os.urandom(16).hex(),
    }
    if isinstance(command, str | bytes):  # a sequence too, of its characters
        raise UsageError(
            "command is a list of arguments, not one string",
            hint='["python3", "train.py"], or ["sh", "-c", LINE] for a line of shell',
        )
    if command is not None:
        body["command"] = list(command)
    else:
        body["file"] = text if text is not None else _read(Path(file or ""))
        body["file_name"] = os.fspath(file) if file is not None else "<text>"
    body["env"] = _passed(os.environ if env is None else env, body.get("file", ""))
    _check_unicode(body)
    return body


def _read(file: Path) -> str:
    if not os.path.lexists(file) and ("\n" in file.name or ("\n" in os.fspath(file) and not file.parent.is_dir())):
        raise UsageError("file wants the path of a job file, not what is in it", hint="its content: text=...")
    try:
        if file.is_dir():
            raise UsageError("{file} is a folder, not a job file", file=file)
        with file.open("rb") as opened:  # a device or a pipe has no size: it is read as far as a job file may go
            content = opened.read(_FILE_MAX_BYTES + 1)
        if len(content) > _FILE_MAX_BYTES:
            raise UsageError("{file} is larger than 16 MiB: this is no job file", file=file)
        return content.decode("utf-8-sig")
    except FileNotFoundError as missing:
        raise NotFoundError(
            "there is no file {file}", hint="to run a command, put -- before it: anycard run -- COMMAND", file=file
        ) from missing
    except UnicodeDecodeError as binary:
        raise UsageError(
            "{file} is not a text file in UTF-8 (byte {position})", file=file, position=binary.start
        ) from binary
    except OSError as error:
        raise UsageError("{file} cannot be read: {why}", file=file, why=error.strerror or str(error)) from error


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  a string is what is sent
    except FileNotFoundError as gone:
        raise UsageError("the folder in which this was called is gone", hint="cd into one that exists") from gone


def _passed(env: Mapping[str, str], file: str) -> dict[str, str]:
    """What every program gets, and variables whose names stand in the file: it may leave their values to where it is submitted.

    Nothing else leaves this process."""
    named = set(re.findall(r"[A-Za-z_]\w*", file)) & env.keys()
    return {**allowed_environment(env), **{name: env[name] for name in named if _unicode(env[name])}}


def _umask() -> int:
    """Read without being changed, where the system says it."""
    try:
        found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found.group(1), 8)
    current = os.umask(0o077)
    os.umask(current)
    return current


def _unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_unicode(body: Mapping[str, Any]) -> None:
    words = [body["cwd"], body.get("file_name"), body["name"], *body.get("command", ()), *body["given"].values()]
    for word in words:
        if isinstance(word, str) and not _unicode(word):
            raise UsageError("{word} holds bytes that are not Unicode text; it cannot be sent", word=ascii(word))
