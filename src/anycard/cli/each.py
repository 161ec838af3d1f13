"""A verb that does one thing to each of several jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anycard.api.client import Client, Json
from anycard.cli.output import document, say
from anycard.cli.session import session
from anycard.i18n import words


def each_job(
    refs: Sequence[str],
    act: Callable[[Client, str], Json],
    *,
    as_json: bool,
    told: Callable[[Json], str] = words.headline,
) -> int:
    """Acts on each, in order, and prints what ``told`` says of each job as it then is. The first error ends it and is raised."""
    client = session.client()
    jobs = [act(client, ref) for ref in refs]
    if as_json:
        document({"schema": "anycard.jobs/1", "jobs": jobs, "next_cursor": None})
        return 0
    for job in jobs:
        say(told(job))
    return 0
