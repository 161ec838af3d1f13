"""hooks: who is told of what by webhook, and a try of it. Reads the home's configuration here: the daemon need not run, nor know it yet."""

from __future__ import annotations

from typing import Annotated

import typer

from anycard.cli import options
from anycard.cli.output import document, note, say
from anycard.cli.session import session
from anycard.cli.tables import table
from anycard.config import configuration, paths
from anycard.errors import NotFoundError
from anycard.i18n import N_, _
from anycard.jobs.hooks.settings import Hook, settings

MORE = N_(
    "Addresses and secrets stand in config.toml of the home and are never shown. The daemon reads it when it starts."
)


def hooks(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help=_("Only this one"))] = None,
    test: Annotated[bool, typer.Option("--test", help=_("Send each a message now, and say what it answered"))] = False,
    json: options.Json = False,
) -> int:
    where = paths(session.home)
    known = settings(configuration(where)).hooks
    chosen = [hook for hook in known if name in (None, hook.name)]
    if name is not None and not chosen:
        raise NotFoundError("there is no hook {name}", hint="`anycard hooks` lists them", name=name)
    answers = {hook.name: _tried(hook) for hook in chosen} if test else {}
    refused = any(answers.values())
    if json:
        document({"schema": "anycard.hooks/1", "hooks": [_shown(hook, answers) for hook in chosen]})
        return 1 if refused else 0
    if not known:
        note(_("no hooks are configured in {file}", file=where.configuration))
        return 0
    rows = [[hook.name, hook.host, hook.shape.value, " ".join(sorted(hook.kinds))] for hook in chosen]
    for line in table([_("NAME"), _("HOST"), _("SHAPE"), _("TOLD OF")], rows):
        say(line)
    for answered, why in answers.items():
        say(_("{name}: was not taken: {why}", name=answered, why=why) if why else _("{name}: was taken", name=answered))
    return 1 if refused else 0


def _tried(hook: Hook) -> str:
    """Why the receiver did not take a message; empty when it did."""
    import platform

    from anycard.host.clock import now
    from anycard.jobs.hooks.notice import trial
    from anycard.jobs.hooks.sender import send

    return send(hook, [trial(hook, now().utc_s, platform.node())])[1]


def _shown(hook: Hook, answers: dict[str, str]) -> dict[str, object]:
    shown: dict[str, object] = {
        "name": hook.name,
        "host": hook.host,
        "shape": hook.shape.value,
        "on": sorted(hook.kinds),
        "language": hook.language,
    }
    if hook.name in answers:
        shown |= {"taken": not answers[hook.name], "why": answers[hook.name] or None}
    return shown
