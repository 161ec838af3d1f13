"""A diagnosis as a person reads it: the verdict, the causes with their proof, the mend, the next check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anycard.cli.cardtable import problem_lines
from anycard.cli.output import safe, say, sentence
from anycard.doctor.rule import HINTS, SUGGESTS
from anycard.i18n import _
from anycard.i18n.words import reason, state, verdict

Json = Mapping[str, Any]

_SHOWN = 3  # findings
_LINE = 160  # characters of a line of evidence


def print_diagnosis(told: Json) -> None:
    """``told`` is the document of ``anycard doctor --json``."""
    say(_("Verdict: {verdict}", verdict=verdict(told["verdict"])))
    for note in told["contradictions"]:
        say(_("Note: {text}", text=sentence(note["msgid"], note["params"])))
    for number, finding in enumerate(_shown(told["findings"]), 1):
        say()
        say(f"{number}. {finding['cause']} ({finding['certainty']:.0%})")
        say("   " + sentence(finding["says_msgid"]))
        for line in finding["evidence"][:2]:
            say(f"   > {safe(line.strip())[:_LINE]}")
        if number == 1:
            for step in finding["steps"]:
                say("   - " + sentence(step["says_msgid"]))
                if step["command"]:
                    say("       " + safe(step["command"]))
    if told["verdict"] == "undecided" and told["next_check"]:
        say()
        say(_("To settle it, run: {command}", command=safe(told["next_check"])))


def _shown(findings: Sequence[Json]) -> Sequence[Json]:
    """Beside a cause that stands alone, mere hints only distract."""
    alone = bool(findings) and findings[0]["certainty"] >= SUGGESTS
    return [one for one in findings if not alone or one["certainty"] >= HINTS][:_SHOWN]


def print_attempt(attempt: Json) -> None:
    """What anycard itself knows of the item, before what its log says."""
    subject = _("job {job} ({name}), item {item}", job=attempt["job"], name=safe(attempt["name"]), item=attempt["item"])
    if attempt["items"] == 1:
        subject = _("job {id} ({name})", id=attempt["job"], name=safe(attempt["name"]))
    say(_("{subject}: {text}", subject=subject, text=state(attempt["state"])))
    if why := reason(attempt):
        say(f"  {why}")
    say(_("  {name}: {value}", name=_("logs"), value=safe(attempt["log"])))
    say()


def print_host(told: Json) -> None:
    """The cards of this machine and the vendors that could not be asked, before what is wrong with them."""
    for card in told["cards"]:
        _print_card(card)
    if not any(card["accelerator"] for card in told["cards"]):
        say(_("No accelerator was found: jobs run on the CPU."))
    for problem in told["problems"]:
        for line in problem_lines(problem):
            say(line)
    say()


def _print_card(card: Json) -> None:
    """A tick or what is wrong with it, and the programs on it."""
    well = card["health"] == "ok"
    say(f"{'✓' if well else '✗'} {safe(card['id'])}  {safe(card['model'])}")
    if not well and card["health_reason_msgid"]:
        say("    " + sentence(card["health_reason_msgid"], card["health_reason_params"]))
    for process in card["processes"] or ():
        say(f"    {safe(process['command'] or '?')} ({process['pid']})")
