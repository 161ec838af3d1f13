"""status: whether the daemon runs, and how it is. Starts nothing."""

from __future__ import annotations

from anycard.api.transport import NoDaemonError
from anycard.cli import options
from anycard.cli.output import document, safe, say, sentence
from anycard.cli.session import session
from anycard.config import home_from_environment
from anycard.errors import NotFoundError
from anycard.i18n import N_, _, words
from anycard.units import format_duration

_MODES = {"personal": N_("personal"), "shared": N_("shared")}


def status(json: options.Json = False) -> int:
    try:
        answer = session.client(start=False).status()
    except NoDaemonError as none:
        if json:
            home = str(home_from_environment(session.home))
            document({"schema": "anycard.status/1", "running": False, "home": home})
        else:
            say(sentence(none.message, none.params))
        return NotFoundError.exit_code
    if json:
        document({**answer, "running": True})
        return 0
    say(
        _(
            "the daemon runs: version {version}, pid {pid}, up {length}",
            version=answer["version"],
            pid=answer["pid"],
            length=format_duration(answer["uptime_s"]),
        )
    )
    say(_("  {name}: {value}", name=_("home"), value=safe(answer["home"])))
    say(_("  {name}: {value}", name=_("mode"), value=_(_MODES.get(answer["mode"], "?"))))
    counted = answer.get("jobs") or {}
    if any(counted.values()):
        told = _(", ").join(
            _("{count} {state}", count=number, state=words.state(slug)) for slug, number in counted.items() if number
        )
        say(_("  {name}: {value}", name=_("jobs"), value=told))
    if answer.get("paused"):
        say("  " + sentence(answer["paused_msgid"], answer["paused_params"]))
    if answer.get("damage") and answer["damage"] != answer.get("paused"):
        say("  " + sentence(answer["damage_msgid"], answer["damage_params"]))
    return 0
