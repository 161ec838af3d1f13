"""How jobs, items, cards and times read to a person, whatever the face."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from anycard.i18n import N_, _
from anycard.i18n.sentences import safe, sentence
from anycard.units import format_bytes, format_duration

Json = Mapping[str, Any]

_STATES = {
    "queued": N_("queued"),
    "starting": N_("starting"),
    "running": N_("running"),
    "stopping": N_("stopping"),
    "succeeded": N_("succeeded"),
    "partly-failed": N_("partly-failed"),
    "failed": N_("failed"),
    "cancelled": N_("cancelled"),
}
OVER = frozenset(("succeeded", "partly-failed", "failed", "cancelled"))
HOLDING = ("starting", "running", "stopping")  # of an item that holds what it was granted

_END_REASONS = {
    "succeeded": N_("succeeded"),
    "program-error": N_("program-error"),
    "bad-input": N_("bad-input"),
    "out-of-memory": N_("out-of-memory"),
    "time-limit": N_("time-limit"),
    "max-released": N_("max-released"),
    "idle-released": N_("idle-released"),
    "cancelled": N_("cancelled"),
    "preempted": N_("preempted"),
    "card-lost": N_("card-lost"),
    "host-lost": N_("host-lost"),
    "spot-reclaimed": N_("spot-reclaimed"),
    "setup-failed": N_("setup-failed"),
    "start-failed": N_("start-failed"),
    "upstream-failed": N_("upstream-failed"),
    "disk-full": N_("disk-full"),
    "outcome-unknown": N_("outcome-unknown"),
}

_HEALTHS = {
    "ok": N_("ok"),
    "lost": N_("lost"),
    "reset-required": N_("reset-required"),
    "not-found": N_("not-found"),
    "no-driver": N_("no-driver"),
    "blocked": N_("blocked"),
    "unreachable": N_("unreachable"),
    "unknown": N_("unknown"),
}

_EVENTS = {
    "job.submitted": N_("submitted"),
    "job.cancel": N_("cancel asked for"),
    "job.held": N_("held"),
    "job.released": N_("released"),
    "job.retried": N_("retried"),
    "job.ended": N_("the job ended"),
    "item.ended": N_("ended"),
    "item.requeued": N_("queued again"),
    "items.dropped": N_("items dropped"),
    "item.started": N_("started"),
    "attempt.stopping": N_("told to stop"),
    "prepare.started": N_("setup began"),
    "prepare.ended": N_("setup ended"),
    "model.measured": N_("what its model needed was measured"),
}

# Between two cards; letters as people know them from `nvidia-smi topo -m`.
WAYS = {
    "NV": N_("NVLink, with the number of links"),
    "XGMI": N_("AMD's links between cards"),
    "HCCS": N_("Ascend's links between cards"),
    "FABRIC": N_("a link between cards that is not PCIe"),
    "PIX": N_("one PCIe switch"),
    "PXB": N_("several PCIe switches"),
    "PHB": N_("the processor's PCIe host bridge"),
    "NODE": N_("host bridges of one NUMA node"),
    "SYS": N_("across NUMA nodes or sockets"),
    "?": N_("not known"),
}


_VERDICTS = {
    "fault": N_("something outside your program must be changed"),
    "application": N_("the cards are fine; the program, or how it is used, must be changed"),
    "healthy": N_("nothing is broken"),
    "expected": N_("nothing is broken: this is how it is meant to work"),
    "undecided": N_("the evidence does not settle it"),
}


def verdict(slug: str) -> str:
    """What the doctor says, in a sentence."""
    return _(_VERDICTS[slug])


def state(slug: str, *, held: bool = False) -> str:
    text = _(_STATES[slug]) if slug in _STATES else safe(slug)
    return _("{state}, held", state=text) if held and slug not in OVER else text


def health(slug: str) -> str:
    return _(_HEALTHS[slug]) if slug in _HEALTHS else safe(slug)


def event(kind: str) -> str:
    """What happened, of an event's kind; a kind that is not known here shows as it is."""
    return _(_EVENTS[kind]) if kind in _EVENTS else safe(kind)


def reason(thing: Json) -> str:
    """Why a job waits or ended, or an item did, translated; an empty string when there is nothing to say."""
    if thing.get("progress"):
        return progress(thing["progress"])
    if thing.get("reason_msgid") and thing["reason_msgid"] == thing.get("state"):
        return ""  # cancelled because it was cancelled: the state says that
    if thing.get("reason_msgid"):
        return sentence(thing["reason_msgid"], _with_why(thing.get("reason_params") or {}))
    if thing.get("reason"):
        return safe(thing["reason"])
    slug = thing.get("end_reason")
    if slug and slug != "succeeded":
        return _(_END_REASONS[slug]) if slug in _END_REASONS else safe(slug)
    return ""


def _with_why(params: Json) -> dict[str, Any]:
    """``params`` with the reason that one of them holds in this language: ``why`` is a slug, or ``why_msgid`` with its own ``why_*``."""
    told = dict(params)
    if "why_msgid" in told:
        own = {name.removeprefix("why_"): value for name, value in told.items() if name.startswith("why_")}
        told["why"] = sentence(told["why_msgid"], _with_why(own))
    elif told.get("why") in _END_REASONS:
        told["why"] = _(_END_REASONS[told["why"]])
    return told


def progress(told: Json) -> str:
    """How far a running program says it is: ``12/60, epoch 12``."""
    total = told.get("total")
    text = f"{told['done']:g}" + (f"/{total:g}" if total is not None else "")
    return f"{text}, {safe(told['message'])}" if told.get("message") else text


def sooner(job: Json) -> str:
    """What would start a waiting job sooner; an empty string when nothing that the user can do."""
    if job.get("sooner_msgid"):
        return sentence(job["sooner_msgid"], job.get("sooner_params"))
    return safe(job.get("sooner") or "")


def moment(rfc3339: str | None) -> str:
    """A time of the API in this person's time zone."""
    if not rfc3339:
        return "-"
    return datetime.fromisoformat(rfc3339).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from ``start`` to ``end`` (now when it has not ended); None before the start."""
    if not start:
        return None
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return max(0.0, (until - datetime.fromisoformat(start)).total_seconds())


def took(thing: Json) -> str:
    """How long a job or item ran, so far or in all."""
    run_s = thing.get("run_s")
    if run_s is None or not thing.get("ended_at"):
        run_s = seconds_between(thing.get("started_at"), thing.get("ended_at"))
    return "-" if run_s is None else format_duration(run_s)


def done(counts: Json) -> int:
    """Items of a job that are over."""
    return int(counts["succeeded"]) + int(counts["failed"]) + int(counts["cancelled"])


def counts(numbers: Json) -> str:
    """``7 succeeded, 1 failed``: the states that any item is in."""
    order = ("succeeded", "failed", "cancelled", "running", "queued")
    parts = [_("{count} {state}", count=numbers[slug], state=state(slug)) for slug in order if numbers.get(slug)]
    return _(", ").join(parts) or "0"


def values(item: Json) -> str:
    """An item's foreach values, short: ``lr=0.1 seed=2``; a single one without its name."""
    given = item.get("values") or {}
    if len(given) == 1:
        return safe(next(iter(given.values())))
    return " ".join(f"{safe(name)}={safe(value)}" for name, value in given.items())


def demand(option: Json) -> str:
    """``2 CPUs, 8 GiB, 1 x A100``."""
    cpus = option["cpus"]
    parts = [_("{count} CPU", count=f"{cpus:g}") if cpus <= 1 else _("{count} CPUs", count=f"{cpus:g}")]
    if option.get("memory_bytes"):
        parts.append(format_bytes(option["memory_bytes"]))
    if option.get("card_count"):
        parts.append(f"{option['card_count']} x {safe(option.get('card') or _('any card'))}")
    return _(", ").join(parts)


def title(job: Json) -> str:
    return _("job {id} ({name})", id=job["id"], name=safe(job["name"]))


def place(holder: Json) -> str:
    """Who holds a card: the job, and which of its items where it has several."""
    if holder.get("job_items") == 1:
        return _("job {id}", id=holder["job"])
    return _("job {job} item {item}", job=holder["job"], item=holder["item"])


def cards(item: Json) -> str:
    """Ids of the cards that an item holds."""
    return " ".join(safe(card) for card in item.get("cards") or ())


def headline(job: Json) -> str:
    return _("{subject}: {text}", subject=title(job), text=state(job["state"], held=job["held"]))


def told(subject: str, text: str) -> str:
    """``subject: text``, or only the subject where there is nothing to say of it."""
    return _("{subject}: {text}", subject=subject, text=text) if text else subject
