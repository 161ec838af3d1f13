"""What holds for this call of the command line as a whole. One process, one session."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anycard.api.client import Client


@dataclass(slots=True)
class Session:
    """``home`` as flagged, ``start`` False under --no-start, ``json`` whether stdout must hold one JSON document also when it fails,
    ``command`` what stood after ``--``."""

    home: str | None = None
    start: bool = True
    json: bool = False
    command: tuple[str, ...] = field(default=())

    def client(self, *, start: bool | None = None) -> Client:
        """A connected client. Starts the daemon when none runs, unless ``start`` or --no-start says not to; then NoDaemonError."""
        from anycard.api.client import Client
        from anycard.api.transport import NoDaemonError

        url = os.environ.get("ANYCARD_URL")
        if url and self.home is None:
            client = Client(url=url, token=os.environ.get("ANYCARD_TOKEN"))
            client.connect()
            return client
        client = Client(self.home)
        try:
            client.connect()
        except NoDaemonError:
            if not (self.start if start is None else start):
                raise
            from anycard.cli.starting import start_daemon

            start_daemon(self.home)
            client.connect()
        return client


session = Session()
