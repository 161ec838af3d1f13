"""From what was seen to a diagnosis: weigh every rule, let root causes explain their consequences, rank, and judge honestly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anycard.doctor import facts as fact_table
from anycard.doctor.case import Case
from anycard.doctor.near import has_trouble, with_resemblances
from anycard.doctor.rule import HINTS, SUGGESTS, Clue, Rule
from anycard.doctor.rules import all_rules
from anycard.doctor.scan import scan
from anycard.doctor.shapes import Diagnosis, Fact, Finding, Line, Source, Step, Verdict
from anycard.doctor.works import shows_a_working_card
from anycard.model.text import Text

_SPOKEN = 0.8  # a person's words carry so much of what a program's would
_NEARLY = 0.2  # a cause that stands alone may explain what is more certain by so much
_HARDLY = 0.05  # ... and any other cause what is more certain by so little
_STEP_BEHIND = 0.1  # a consequence ranks at least so far behind its cause
_TOO_WEAK = 0.19  # below this a hint is no ground for a verdict
_MOST = 0.65
_QUIET = 0.6
_KEEP = 8  # findings told
_START = "anycard capture out.tar.gz"


def diagnose(sources: Iterable[Source], platform: str | None = None, measured: Iterable[Fact] = ()) -> Diagnosis:
    """The causes that the evidence supports, most likely first. ``platform`` is a hint of where it was printed; ``measured`` are the facts
    of a job's readings."""
    rules = all_rules()
    expressions = [*fact_table.patterns(), *(pattern for rule in rules for pattern in rule.patterns())]
    sightings = scan(sources, expressions)
    seen = sightings.matches
    facts = fact_table.read_facts(seen)
    for fact in measured:
        facts.setdefault(fact.name, []).append(fact)
    case = Case(sightings, facts, fact_table.read_platforms(seen, platform))
    return judge(case, rules)


def judge(case: Case, rules: Iterable[Rule]) -> Diagnosis:
    rules = rules if isinstance(rules, tuple) else tuple(rules)
    by_slug = {rule.slug: rule for rule in rules}
    weighed = [finding for rule in rules if (finding := weigh(rule, case))]
    if not has_trouble(case):
        weighed = [_without_trouble(finding) for finding in weighed]
    explained = _behind_their_causes(weighed, by_slug, _NEARLY)
    heard = _behind_their_causes(with_resemblances(explained, rules, case), by_slug, _HARDLY)
    ranked = _ranked(_behind_what_was_printed(_without_look_alikes(heard, by_slug)))[:_KEEP]
    verdict = _verdict(ranked)
    complains = has_trouble(case, by_anyone=True)
    if ranked and ranked[0].certainty < HINTS and not verdict.harmless and not complains:
        verdict = Verdict.UNDECIDED  # a word that belongs to a cause is none where nobody complains
    if verdict is Verdict.UNDECIDED and shows_a_working_card(case, ranked):
        return Diagnosis(Verdict.HEALTHY, (), case.all_facts(), _contradictions(case))
    return Diagnosis(
        verdict=verdict,
        findings=tuple(ranked),
        facts=case.all_facts(),
        contradictions=_contradictions(case),
        next_check=ranked[0].next_check if ranked and (ranked[0].certainty >= _TOO_WEAK or complains) else _START,
    )


def weigh(rule: Rule, case: Case) -> Finding | None:
    """The rule's finding in this case: its best clue, and a little for each further one."""
    held = sorted(
        ((certainty, lines) for clue in rule.clues if (found := _holds(clue, case)) for certainty, lines in [found]),
        key=lambda pair: -pair[0],
    )
    if not held:
        return None
    certainty = held[0][0]
    for further, _ in held[1:3]:
        certainty += (1 - certainty) * further * 0.25
    lines = dict.fromkeys(line for _, lines in held for line in lines)
    return Finding(
        cause=rule.slug,
        family=rule.family,
        verdict=rule.verdict,
        certainty=min(certainty, 0.99),
        says=Text(rule.says),
        evidence=tuple(lines)[:6],
        mend=_for_platforms(rule.mend, case.platforms),
        next_check=rule.next_check,
        authority=rule.authority,
    )


def _holds(clue: Clue, case: Case) -> tuple[float, tuple[Line, ...]] | None:
    lines: list[Line] = []
    spoken = 0
    for condition in clue.conditions:
        found = condition.lines(case)
        if found is None:
            return None
        spoken += bool(found) and all(line.spoken for line in found)
        lines.extend(found[:2])
    if any(condition.lines(case) is not None for condition in clue.unless):
        return None
    share = spoken / len(clue.conditions)
    return clue.certainty * (1 - (1 - _SPOKEN) * share), tuple(lines)


def _for_platforms(steps: tuple[Step, ...], platforms: frozenset[str]) -> tuple[Step, ...]:
    fitting = tuple(step for step in steps if not step.platforms or platforms.intersection(step.platforms))
    return fitting if fitting and platforms else steps


def _without_trouble(finding: Finding) -> Finding:
    """Where no program complains, a mere hint at a fault counts for less. A card complains to nobody: what was measured counts."""
    weak = finding.certainty < SUGGESTS - 0.01 and not finding.verdict.harmless and not _is_measured(finding)
    return replace(finding, certainty=finding.certainty * _QUIET) if weak else finding


def _behind_their_causes(findings: list[Finding], rules: dict[str, Rule], nearly: float) -> list[Finding]:
    """A finding that another one, at least ``nearly`` as certain, explains steps behind it."""
    certainty = {finding.cause: finding.certainty for finding in findings}
    for finding in sorted(findings, key=lambda f: -f.certainty):
        cause = finding.cause
        for consequence in rules[cause].explains:
            known = certainty.get(consequence)
            if known is not None and certainty[cause] >= known - (nearly if certainty[cause] >= SUGGESTS else _HARDLY):
                certainty[consequence] = min(known, max(0.05, certainty[cause] - _STEP_BEHIND))
    return [replace(finding, certainty=certainty[finding.cause]) for finding in findings]


def _without_look_alikes(findings: list[Finding], rules: dict[str, Rule]) -> list[Finding]:
    """Harmless readings do not lead where a program printed a fault that they do not explain."""
    faults = {
        finding.cause
        for finding in findings
        if not finding.verdict.harmless
        and finding.certainty >= HINTS
        and any(not line.spoken for line in finding.evidence)
    }
    return [
        replace(finding, certainty=finding.certainty * 0.5)
        if finding.verdict.harmless and faults - set(rules[finding.cause].explains)
        else finding
        for finding in findings
    ]


def _behind_what_was_printed(findings: list[Finding]) -> list[Finding]:
    """A cause that programs named leads: what the readings alone tell of is at most as certain, and of two equals the printed one leads."""
    printed = [
        finding.certainty
        for finding in findings
        if not finding.verdict.harmless
        and finding.certainty >= SUGGESTS
        and any(not line.spoken and not line.measured for line in finding.evidence)
    ]
    if not printed:
        return findings
    most = max(printed)
    return [
        replace(finding, certainty=min(most, finding.certainty))
        if finding.evidence and all(line.measured for line in finding.evidence)
        else finding
        for finding in findings
    ]


def _is_measured(finding: Finding) -> bool:
    return any(line.measured for line in finding.evidence)


def _ranked(findings: list[Finding]) -> list[Finding]:
    """Most certain first; of equals the one whose first line came first."""

    def key(finding: Finding) -> tuple[float, tuple[bool, int, int]]:
        places = [line.place for line in finding.evidence]
        return (-round(finding.certainty, 3), min(places) if places else (True, 0, 0))

    return sorted(findings, key=key)


def _verdict(ranked: list[Finding]) -> Verdict:
    """That of the leading cause; of mere hints the one that most of them, by weight, agree on."""
    if not ranked:
        return Verdict.UNDECIDED
    lead = ranked[0]
    if lead.certainty >= HINTS:
        return lead.verdict
    if lead.certainty < _TOO_WEAK:
        return Verdict.UNDECIDED
    close = [finding for finding in ranked if finding.certainty >= lead.certainty * 0.6]
    with_lead = [f for f in close if f.verdict == lead.verdict or (f.verdict.harmless and lead.verdict.harmless)]
    agreed = sum(f.certainty for f in with_lead) >= _MOST * sum(f.certainty for f in close)
    return lead.verdict if agreed else Verdict.UNDECIDED


def _contradictions(case: Case) -> tuple[Text, ...]:
    said: list[Text] = []
    loaded = {fact.value for fact in case.facts("driver_loaded")}
    if len(loaded) > 1:
        said.append(
            Text("the evidence names several loaded drivers: {versions}", {"versions": ", ".join(sorted(loaded))})
        )
    torches = {fact.value for fact in case.facts("torch")}
    if len(torches) > 1:
        said.append(
            Text("the evidence names several builds of torch: {versions}", {"versions": ", ".join(sorted(torches))})
        )
    told = {"cpu" if fact.value.lower() == "cpu" else "card" for fact in case.facts("device_told")}
    if told == {"card"} and case.facts("card_unused"):
        said.append(Text("the log says that the program uses a card, and the readings say that it never did"))
    if told == {"cpu"} and case.facts("card_used"):
        said.append(Text("the log says that the program runs on the CPU, and the readings say that it uses its card"))
    return tuple(said)
