"""wait: until jobs are over."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.follow import watched
from anycard.cli.output import document, note, say
from anycard.cli.session import session
from anycard.i18n import N_, _, words

MORE = N_("Exit code 0: all succeeded; 1: some item failed or was cancelled; 124: the time given is over.")
_TIMED_OUT = 124


def wait(
    jobs: options.JobRefs,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="LENGTH", help=_("Give up after this long, such as 90s or 2h"))
    ] = None,
    json: options.Json = False,
) -> int:
    deadline = None if timeout is None else time.monotonic() + options.seconds(timeout, "--timeout")
    client = session.client()
    numbers = [client.job(ref)["id"] for ref in jobs]
    timed_out = False
    for number in numbers:
        try:
            for _line in watched(client, number, deadline=deadline):
                pass
        except TimeoutError:
            timed_out = True
            break
    states = [client.job(number) for number in numbers]
    # The time may have ended before the first look.
    timed_out = timed_out and not all(job["state"] in words.OVER for job in states)
    if json:
        document({"schema": "anycard.wait/1", "timed_out": timed_out, "jobs": states})
    else:
        for job in states:
            say(words.headline(job))
    if timed_out:
        note(_("the time given is over; the jobs go on"))
        return _TIMED_OUT
    return 0 if all(job["state"] == "succeeded" for job in states) else 1
