"""doctor: why a card does not work and how to mend it: this machine, evidence that somebody sent, or a job's own log and readings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, safe, say
from anycard.errors import UsageError
from anycard.i18n import N_, _

MORE = N_(
    "Without --from it looks at this machine. PATH is a log, a folder of logs, a bundle of anycard capture, or - for standard input. "
    "Exit code: 0 nothing is broken, 1 a cause was found, 3 undecided."
)


def doctor(
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help=_("Read evidence instead of looking at this machine"))
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", metavar="JOB", help=_("Why a job's item ended so or is slow, by its log and its cards' readings")
        ),
    ] = None,
    item: Annotated[
        int | None,
        typer.Option("--item", metavar="N", min=0, help=_("Which item of the job; the first that failed unless told")),
    ] = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help=_("Offer the safe mends one by one: each is shown, asked for, run, and checked")),
    ] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CAUSE", help=_("Say what one cause is, and how it is told"))
    ] = None,
    json: options.Json = False,
) -> int:
    _refuse_two(**{"--from": source, "--job": job, "--explain": explain, "--fix": fix or None})
    if item is not None and job is None:
        raise UsageError("--item goes with --job")
    if explain is not None:
        return _explain(explain, json)
    if source is not None:
        return _judge_evidence(source, json)
    if job is not None:
        return _judge_job(job, item, json)
    if fix:
        from anycard.cli.mending import mend

        if json:
            raise UsageError("--fix asks questions and --json answers none: give one of them")
        return mend()
    return _look(json)


def _refuse_two(**given: object) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise UsageError("{first} and {second} do not go together", first=named[0], second=named[1])


def _judge_evidence(path: str, json: bool) -> int:
    from anycard.doctor.__main__ import of_evidence

    return _answer(of_evidence(path), json)


def _judge_job(job: str, item: int | None, json: bool) -> int:
    from anycard.cli.diagnosis import print_attempt
    from anycard.cli.session import session

    told = session.client().doctor(job, item=item)
    if not json:
        print_attempt(told["attempt"])
    return _answer(told, json)


def _look(json: bool) -> int:
    from anycard.cli.diagnosis import print_host
    from anycard.doctor.__main__ import of_host

    told = of_host()
    if not json:
        print_host(told)
    return _answer(told, json)


def _answer(told: dict[str, Any], json: bool) -> int:
    from anycard.cli.diagnosis import print_diagnosis
    from anycard.doctor.report import exit_code

    if json:
        document(told)
    else:
        print_diagnosis(told)
    return exit_code(told)


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
