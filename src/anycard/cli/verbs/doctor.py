"""doctor: why a card does not work and how to mend it, from this machine or from evidence that somebody sent. Needs no daemon."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, safe, say, sentence
from anycard.i18n import N_, _

MORE = N_(
    "Without --from it looks at this machine. PATH is a log, a folder of logs, a bundle of anycard capture, or - for standard input. "
    "Exit code: 0 nothing is broken, 1 a cause was found, 3 undecided."
)
_VERDICTS = {
    "fault": N_("something outside your program must be changed"),
    "application": N_("the cards are fine; the program, or how it is used, must be changed"),
    "healthy": N_("nothing is broken"),
    "expected": N_("nothing is broken: this is how it is meant to work"),
    "undecided": N_("the evidence does not settle it"),
}
_SHOWN = 3  # findings, on a terminal


def doctor(
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help=_("Read evidence instead of looking at this machine"))
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CAUSE", help=_("Say what one cause is, and how it is told"))
    ] = None,
    json: options.Json = False,
) -> int:
    if explain is not None:
        return _explain(explain, json)
    if source is not None:
        return _judge_evidence(source, json)
    return _look(json)


def _judge_evidence(path: str, json: bool) -> int:
    from anycard.doctor.bundle import recorded_host
    from anycard.doctor.report import EXIT_CODES, to_json

    host = recorded_host(path)
    if host is not None:
        from anycard.doctor.live import examine

        diagnosis = examine(host).diagnosis
    else:
        from anycard.doctor.reading import open_evidence
        from anycard.doctor.reason import diagnose

        diagnosis = diagnose(*open_evidence(path))
    if json:
        document(to_json(diagnosis))
    else:
        _print(diagnosis)
    return EXIT_CODES[diagnosis.verdict]


def _look(json: bool) -> int:
    from anycard.cards.views import card_json, problem_json
    from anycard.cli.cardtable import problem_lines
    from anycard.doctor.live import examine
    from anycard.doctor.report import EXIT_CODES, to_json
    from anycard.host.live import LiveHost

    seen = examine(LiveHost())
    cards, problems = seen.inventory.cards, seen.inventory.problems
    if json:
        document(
            {
                **to_json(seen.diagnosis),
                "cards": [card_json(card) for card in cards],
                "problems": [problem_json(problem) for problem in problems],
            }
        )
        return EXIT_CODES[seen.diagnosis.verdict]
    for card in cards:
        _print_card(card)
    if not any(card.is_accelerator for card in cards):
        say(_("No accelerator was found: jobs run on the CPU."))
    for problem in problems:
        for line in problem_lines(problem_json(problem)):
            say(line)
    say()
    _print(seen.diagnosis)
    return EXIT_CODES[seen.diagnosis.verdict]


def _print_card(card: Any) -> None:
    well = card.health == "ok"
    say(f"{'✓' if well else '✗'} {safe(card.id)}  {safe(card.model)}")
    if not well and card.health_reason:
        say("    " + sentence(card.health_reason.msgid, card.health_reason.params))
    for process in card.processes or ():
        say(f"    {safe(process.command or '?')} ({process.pid})")


def _print(diagnosis: Any) -> None:
    say(_("Verdict: {verdict}", verdict=_(_VERDICTS[diagnosis.verdict.value])))
    for text in diagnosis.contradictions:
        say(_("Note: {text}", text=sentence(text.msgid, text.params)))
    for number, finding in enumerate(diagnosis.findings[:_SHOWN], 1):
        say()
        say(f"{number}. {finding.cause} ({finding.certainty:.0%})")
        say("   " + sentence(finding.says.msgid, finding.says.params))
        for line in finding.evidence[:2]:
            say(f"   > {safe(line.text.strip())[:160]}")
        if number == 1:
            for step in finding.mend:
                say("   - " + sentence(step.says.msgid, step.says.params))
                if step.command:
                    say("       " + safe(step.command))
    if diagnosis.verdict.value == "undecided" and diagnosis.next_check:
        say()
        say(_("To settle it, run: {command}", command=safe(diagnosis.next_check)))


def _explain(slug: str, json: bool) -> int:
    from difflib import get_close_matches

    from anycard.doctor.explain import explanation
    from anycard.doctor.rules import all_rules
    from anycard.errors import NotFoundError

    rules = {rule.slug: rule for rule in all_rules()}
    rule = rules.get(slug)
    if rule is None:
        near = get_close_matches(slug, rules, 1)
        raise NotFoundError(
            "there is no cause {cause}",
            hint="did you mean {near}?" if near else None,
            cause=slug,
            near=near[0] if near else "",
        )
    told = explanation(rule)
    if json:
        document(told)
        return 0
    say(f"{rule.slug} ({rule.family}, {rule.verdict.value})")
    say(_(rule.says))
    say()
    say(_("It is told by:"))
    for clue in told["clues"]:
        say(f"  {clue['certainty']:.2f}  " + safe(" + ".join(clue["all_of"])))
        for reason in clue["unless"]:
            say("        " + _("unless {reason}", reason=safe(reason)))
    if rule.separates:
        say(_("What keeps it apart: {text}", text=rule.separates))
    if rule.explains:
        say(_("It explains away: {causes}", causes=", ".join(rule.explains)))
    say(_("Mend:"))
    for step in rule.mend:
        say("  - " + _(step.says.msgid) + (f"  [{' '.join(step.platforms)}]" if step.platforms else ""))
        if step.command:
            say("      " + safe(step.command))
    if rule.next_check:
        say(_("To be sure, run: {command}", command=safe(rule.next_check)))
    say(_("Source: {authority}", authority=rule.authority))
    return 0
