"""/submit: a command or a job file, as from the command line."""

from __future__ import annotations

import os
import pwd
import secrets
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from anycard.errors import AnycardError, UsageError
from anycard.i18n.sentences import fault_line
from anycard.jobs.checking import Request as Submission
from anycard.jobs.file.allowed import allowed_environment
from anycard.web.render import page, see_other
from anycard.web.sessions import Session
from anycard.web.visit import Visit, visit

router = APIRouter()

_OPTIONS = ("cpus", "memory", "accelerators", "time_limit")
_EXAMPLE = """\
run: |
  echo "item $ANYCARD_INDEX"
  python3 --version > "$ANYCARD_OUTPUT_DIR/version.txt"
anycard:
  foreach: {count: 4}
"""


@router.get("/submit")
async def form(request: Request) -> Response:
    who = visit(request)
    return _form(request, {"cwd": _home(who.caller), "file": _EXAMPLE, "file_name": "job.yaml"})


@router.post("/submit")
async def submit(request: Request) -> Response:
    """To the job that it made; or the form again, with all that is wrong."""
    who = visit(request)
    try:
        answer = await who.jobs.submit(_submission(who), who.caller)
    except AnycardError as error:
        faults = [fault if isinstance(fault, dict) else fault.to_json() for fault in error.faults]
        return _form(request, who.form, error, [fault_line(fault) for fault in faults])
    return see_other(f"/jobs/{answer['jobs'][0]['id']}")


def _form(request: Request, given: Any, error: AnycardError | None = None, faults: list[str] | None = None) -> Response:
    filled = {name: given.get(name, "") for name in ("command", "file", "file_name", "cwd", "name", *_OPTIONS)}
    # The same key with each try of one form: sent twice by a double click, it is one job.
    key = given.get("submit_key") or secrets.token_urlsafe(16)
    status = 200 if error is None else error.http_status
    return page(
        request, "submit.html", status=status, given=filled, submit_key=key, error=error, faults=faults or [],
        example=_EXAMPLE,
    )  # fmt: skip


def _submission(who: Visit) -> Submission:
    given = who.form
    cwd = given.get("cwd", "").strip() or _home(who.caller)
    if not Path(cwd).is_absolute():
        raise UsageError("the folder must begin with /: {folder}", folder=cwd)
    line, file = given.get("command", "").strip(), given.get("file", "").replace("\r\n", "\n")
    if given.get("kind") == "command" and not line:
        raise UsageError("there is no command")
    options = {name: value for name in _OPTIONS if (value := given.get(name, "").strip())}
    common: dict[str, Any] = {
        "cwd": cwd,
        "env": _environment(who.caller),
        "submit_key": given.get("submit_key", ""),
        "name": given.get("name", "").strip() or None,
        "options": options,
    }
    if given.get("kind") == "command":
        return Submission(command=["sh", "-c", line], **common)
    return Submission(file=file, file_name=str(Path(cwd, given.get("file_name", "").strip() or "job.yaml")), **common)


def _environment(who: Session) -> dict[str, str]:
    """What a program of theirs starts with: the daemon's own where it runs as they do, else that of a plain login."""
    if who.uid == os.getuid():
        return dict(allowed_environment(os.environ))
    return {"HOME": _home(who), "USER": who.user, "LOGNAME": who.user, "PATH": os.defpath, "LANG": "C.UTF-8"}


def _home(who: Session) -> str:
    try:
        return pwd.getpwuid(who.uid).pw_dir
    except KeyError:
        return "/"
