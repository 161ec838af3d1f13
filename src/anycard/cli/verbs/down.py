"""down: end the daemon; attempts go on under their supervisor."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from anycard.api.transport import NoDaemonError
from anycard.cli import options
from anycard.cli.output import document, say
from anycard.cli.session import session
from anycard.errors import UnavailableError
from anycard.i18n import N_, _

MORE = N_("Programs that run go on, and the next daemon finds them again, unless --stop.")
_GONE_S = 30.0
_LOOK_S = 0.02


def down(
    stop: Annotated[bool, typer.Option("--stop", help=_("End what runs first"))] = False, json: options.Json = False
) -> int:
    try:
        client = session.client(start=False)
    except NoDaemonError:
        _tell(json, was_running=False)
        return 0
    pid = client.down(stop=stop)["pid"]
    client.close()
    deadline = time.monotonic() + _GONE_S
    while _answers() or _alive(pid):
        if time.monotonic() > deadline:
            raise UnavailableError(
                "the daemon still runs after {seconds} s, pid {pid}", seconds=round(_GONE_S), pid=pid
            )
        time.sleep(_LOOK_S)
    _tell(json, was_running=True)
    return 0


def _answers() -> bool:
    try:
        session.client(start=False).close()
    except NoDaemonError:
        return False
    return True


def _alive(pid: int) -> bool:
    """Whether it still writes its last rows. A process that ended and was not collected by its parent is gone."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _tell(as_json: bool, *, was_running: bool) -> None:
    if as_json:
        document({"schema": "anycard.down/1", "was_running": was_running})
    else:
        say(_("the daemon has ended") if was_running else _("no daemon was running"))
