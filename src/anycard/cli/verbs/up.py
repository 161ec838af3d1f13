"""up: start the daemon, here or detached."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from anycard.api.transport import NoDaemonError
from anycard.cli import options
from anycard.cli.output import document, note, safe, say, sentence
from anycard.cli.session import session
from anycard.cli.starting import daemon_argv, daemon_environment, start_daemon
from anycard.config import SHARED_HOME, paths
from anycard.errors import ConflictError, NotFoundError, UnavailableError, UsageError
from anycard.i18n import N_, _

MORE = N_("Stays in the foreground until Ctrl-C, unless -d. Verbs that need the daemon start it themselves.")


def up(
    detach: Annotated[bool, typer.Option("-d", "--detach", help=_("Return once it is ready"))] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help=_("For all users of this machine; as root or a service"))
    ] = False,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help=_("Also listen on 127.0.0.1, with a token")),
    ] = None,
    json: options.Json = False,
) -> int:
    if json and not detach:
        raise UsageError("--json goes with -d")
    if shared and session.home is None and "ANYCARD_HOME" not in os.environ:
        session.home = str(SHARED_HOME)
    home = paths(session.home)
    try:
        running = session.client(start=False).status()
    except NoDaemonError:
        running = None
    if running is not None and not (detach and port is None):
        raise ConflictError(
            "a daemon already runs for {home}, pid {pid}",
            hint="anycard down ends it",
            home=home.home,
            pid=running["pid"],
        )
    if not detach:
        sys.stdout.flush()
        argv = daemon_argv(home, shared=shared, port=port, page_link=True)
        os.execve(argv[0], argv, daemon_environment())  # noqa: S606  our own module, no shell
    told = ""
    if running is None:
        told = start_daemon(session.home, shared=shared, port=port)
        running = session.client(start=False).status()
    page = _page()
    if json:
        document({**running, "running": True, "page": page, **_address(told)})
        return 0
    say(_("the daemon runs for {home}, pid {pid}", home=safe(running["home"]), pid=running["pid"]))
    if running.get("damage"):
        note(_("warning: {text}", text=sentence(running["damage_msgid"], running["damage_params"])))
    if page:
        say(_("the page, for one login: {url}", url=page))
    if told:
        say(told)
    return 0


def _page() -> str | None:
    """A login link; None where the daemon has no page."""
    try:
        return str(session.client(start=False).page_link()["url"])
    except (UnavailableError, NotFoundError):  # no loopback; a daemon from before there was a page
        return None


def _address(told: str) -> dict[str, str]:
    """From the daemon's ``http://127.0.0.1:PORT token: TOKEN``."""
    url, _word, token = told.partition(" token: ")
    return {"url": url, "token": token} if token else {}
