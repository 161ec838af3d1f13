"""A job on one screen: what became of it, its items (failed first), where its files are, how to look further."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice

from anycard.api.client import Client, Json
from anycard.cli.output import safe, say, sentence
from anycard.cli.tables import table
from anycard.i18n import _, words
from anycard.units import format_bytes

_SHOWN_ITEMS = 20
_STATES = ("failed", "running", "stopping", "starting", "queued", "cancelled", "succeeded")


def print_summary(client: Client, job: Json, *, all_items: bool = False, out: Callable[[str], None] = say) -> None:
    """Writes the summary of ``job`` line by line to ``out``; reads its items from the daemon."""
    numbers = job["counts"]
    out(words.headline(job))
    _field(out, _("submitted"), _("{when} by {user}", when=words.moment(job["submitted_at"]), user=safe(job["user"])))
    if job.get("started_at"):
        _field(out, _("started"), words.moment(job["started_at"]))
    if job.get("ended_at"):
        ended = words.moment(job["ended_at"])
        never = not job.get("started_at")
        _field(out, _("ended"), ended if never else _("{when}, took {length}", when=ended, length=words.took(job)))
    if numbers["items"] > 1:
        _field(out, _("items"), _("{count}: {states}", count=numbers["items"], states=words.counts(numbers)))
    _field(out, _("asks for"), _(" or ").join(words.demand(option) for option in job.get("demand") or ()))
    _field(out, _("model"), _model(job))
    _waiting(out, job)
    if job.get("pruned_at"):
        gone = _("{when}; its items, logs and outputs are gone", when=words.moment(job["pruned_at"]))
        _field(out, _("pruned"), gone)
        return
    _items(client, job, all_items, out)
    _field(out, _("outputs"), safe(job.get("outputs") or ""))
    if numbers["failed"]:
        _field(out, _("failed list"), safe(job.get("failed_file") or ""))
    _further(out, job)


def _field(out: Callable[[str], None], name: str, value: str) -> None:
    if value:
        out(_("  {name}: {value}", name=name, value=value))


def _model(job: Json) -> str:
    """What its model was computed to need; empty for a job that names none."""
    sizing = job.get("sizing")
    if not sizing:
        return ""
    needs = [need["total_bytes"] for need in sizing["needs"]]
    if not needs:
        return _("{model}: not sized, {why}", model=safe(sizing["ask"]["name"]), why=_unsized(sizing))
    told = _(" or ").join(format_bytes(need) for need in needs)
    return _("{model}: about {need} expected", model=safe(sizing["model"]), need=told)


def _unsized(sizing: Json) -> str:
    if sizing["unsized_msgid"]:
        return sentence(sizing["unsized_msgid"], sizing["unsized_params"])
    return safe(sizing["unsized"] or "?")


def _waiting(out: Callable[[str], None], job: Json) -> None:
    _field(out, _("why"), words.reason(job))
    if job["state"] not in words.OVER:
        _field(out, _("sooner"), words.sooner(job))
        if job.get("position"):
            _field(out, _("position in the queue"), str(job["position"]))


def _items(client: Client, job: Json, all_items: bool, out: Callable[[str], None]) -> None:
    shown = None if all_items else _SHOWN_ITEMS
    listed: list[Json] = []
    for state in _STATES:
        if shown is None or len(listed) < shown:
            listed += islice(client.all_items(job["id"], state=state), None if shown is None else shown - len(listed))
    head = [_("ITEM"), _("STATE"), _("ATTEMPTS"), _("TOOK"), _("VALUES"), _("WHY")]
    rows = [
        [
            str(item["item"]),
            words.state(item["state"]),
            str(item["attempts"]),
            words.took(item),
            words.values(item),
            words.reason(item),
        ]
        for item in listed
    ]
    if job["counts"]["items"] > 1:
        for text in table(head, rows, indent="  ", right=frozenset((0, 2, 3))):
            out(text)
        more = job["counts"]["items"] - len(listed)
        if more > 0:
            out(_("  {count} more: anycard job {id} --all", count=more, id=job["id"]))
    elif listed and (why := words.reason(listed[0])) and why != words.reason(job):
        _field(out, _("progress") if listed[0].get("progress") else _("why"), why)
    _field(out, _("runs on"), _running_on(listed))
    logs = [item["log"] for item in listed if item.get("log")]
    if logs:
        _field(out, _("logs"), safe(logs[0] if len(logs) == 1 else os.path.commonpath(logs) + "/"))


def _running_on(items: Iterable[Json]) -> str:
    """The cards of what runs now, each once."""
    cards = [card for item in items if item["state"] in words.HOLDING for card in item.get("cards") or ()]
    return ", ".join(safe(card) for card in dict.fromkeys(cards))


def _further(out: Callable[[str], None], job: Json) -> None:
    number = job["id"]
    calls = []
    if job.get("started_at"):
        calls.append(f"anycard logs {number}" + (" ITEM" if job["counts"]["items"] > 1 else ""))
    if job["counts"]["failed"]:
        calls.append(f"anycard retry {number} --failed")
    if job["state"] not in words.OVER:
        calls.append(f"anycard cancel {number}")
    _field(out, _("further"), _("; ").join(calls))
