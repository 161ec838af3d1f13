"""jobs: list jobs, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.i18n import _, words


def jobs(
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help=_(
                "queued, running, succeeded, partly-failed, failed, cancelled; open, ended; held. Several with commas"
            ),
        ),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help=_("Only this user's"))] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help=_("Only of this name"))] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help=_("At most so many"))] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help=_("Go on where the page before ended"))
    ] = None,
    json: options.Json = False,
) -> int:
    page = session.client().jobs(state=state, user=user, name=name, limit=limit, cursor=cursor)
    if json:
        document(page)
        return 0
    if not page["jobs"]:
        note(_("no jobs"))
        return 0
    head = [_("JOB"), _("NAME"), _("STATE"), _("DONE"), _("USER"), _("SUBMITTED"), _("TOOK"), _("WHY")]
    rows = [
        [
            str(job["id"]),
            safe(job["name"]),
            words.state(job["state"], held=job["held"]),
            f"{words.done(job['counts'])}/{job['counts']['items']}",
            safe(job["user"]),
            words.moment(job["submitted_at"]),
            words.took(job),
            words.reason(job),
        ]
        for job in page["jobs"]
    ]
    for text in table(head, rows, right=frozenset((0, 3, 6))):
        say(text)
    if page.get("next_cursor") is not None:
        note(_("more: anycard jobs --cursor {cursor}", cursor=page["next_cursor"]))
    return 0
