"""An event of the log as a thing to tell somebody outside. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anycard.jobs.hooks.settings import Hook, Kind
from anycard.model.instant import rfc3339
from anycard.model.text import Param, Text
from anycard.units import format_duration

EVENT_KINDS = ("job.ended", "card.lost", "card.idle", "card.hot")  # of the event log: the only ones that become notices
SCHEMA = "anycard.hook/1"


@dataclass(frozen=True, slots=True)
class Notice:
    """``id`` is the event's ``seq``: a receiver that was told twice knows by it. ``job`` and ``card`` are what the JSON shape says
    of them."""

    id: int
    kind: Kind
    at: float  # UTC seconds
    text: Text
    why: Text | None = None  # follows ``text``
    job: Mapping[str, Any] | None = None
    card: Mapping[str, Any] | None = field(default=None)


def notice(event: Mapping[str, Any], job: Mapping[str, Any] | None, host: str) -> Notice | None:
    """``event`` and ``job`` (its job, where it has one) are rows of the store. None for what nobody is told: a cancelled job, another
    kind of event."""
    data = json.loads(event["data_json"]) if event["data_json"] else {}
    if event["kind"] == "job.ended":
        return None if job is None else _of_job(event, data, job, host)
    return _of_card(event, data, job, host)


def trial(hook: Hook, at: float, host: str) -> Notice:
    """What `anycard hooks --test` sends: of a kind that the hook is told of, and saying that nothing happened."""
    text = Text("this is a try of the hook {name} on {host}: nothing happened", {"name": hook.name, "host": host})
    return Notice(0, min(hook.kinds), at, text)


def _of_job(event: Mapping[str, Any], data: Mapping[str, Any], job: Mapping[str, Any], host: str) -> Notice | None:
    succeeded, failed = int(data.get("succeeded", 0)), int(data.get("failed", 0))
    params: dict[str, Param] = {
        "job": job["id"],
        "name": job["name"],
        "user": job["user"],
        "host": host,
        "items": job["n_items"],
        "succeeded": succeeded,
        "failed": failed,
        "length": format_duration(event["at"] - (job["first_granted_at"] or event["at"])),
    }
    shown = {
        **{key: params[key] for key in ("name", "user", "items", "succeeded", "failed")},
        "id": job["id"],
        "state": data["state"],
        "cancelled": data.get("cancelled", 0),
        "submitted_at": rfc3339(job["submitted_at"]),
        "started_at": rfc3339(job["first_granted_at"]),
        "ended_at": rfc3339(event["at"]),
    }
    why: Text | None = None
    match data["state"]:
        case "succeeded":
            kind = Kind.DONE
            text = Text("job {job} ({name}) of {user} on {host} is done after {length}", params)
            if job["n_items"] > 1:
                text = Text("job {job} ({name}) of {user} on {host} is done: {items} items in {length}", params)
        case "failed" | "partly-failed":
            kind = Kind.FAILED
            text = Text("job {job} ({name}) of {user} on {host} failed after {length}", params)
            if job["n_items"] > 1:
                text = Text(
                    "job {job} ({name}) of {user} on {host}: {failed} of {items} items failed, {length} in all", params
                )
            why = Text.from_json(json.loads(job["reason_json"])) if job["reason_json"] else None
        case _:
            return None
    return Notice(event["seq"], kind, event["at"], text, why, job=shown)


def _of_card(
    event: Mapping[str, Any], data: Mapping[str, Any], job: Mapping[str, Any] | None, host: str
) -> Notice | None:
    params: dict[str, Param] = {"card": data.get("card", "?"), "model": data.get("model", "?"), "host": host}
    holder = Text("job {job} ({name}) of {user} runs on it", {key: job[of] for key, of in _HOLDER}) if job else None
    match event["kind"]:
        case "card.lost":
            kind, text = Kind.CARD_LOST, Text("card lost on {host}: {model} ({card})", params)
        case "card.idle":
            kind = Kind.CARD_IDLE
            params["length"] = format_duration(data.get("idle_s"))
            text = Text("{model} ({card}) on {host} has done nothing for {length} although it is held", params)
        case "card.hot":
            kind, text = Kind.TOO_HOT, _hot(data, params)
        case _:
            return None
    shown = {"id": params["card"], **{name: value for name, value in data.items() if name != "card"}}
    shown_job = {key: job[key] for key in ("id", "name", "user", "state")} if job else None
    return Notice(event["seq"], kind, event["at"], text, holder, job=shown_job, card=shown)


_HOLDER = (("job", "id"), ("name", "name"), ("user", "user"))


def _hot(data: Mapping[str, Any], params: dict[str, Param]) -> Text:
    temperature = data.get("temperature_c")
    if temperature is None:
        return Text("{model} ({card}) on {host} slows down because it is too hot", params)
    params["temperature"] = f"{temperature:.0f}"
    if data.get("throttled"):
        return Text("{model} ({card}) on {host} is at {temperature} °C and slows down for it", params)
    return Text("{model} ({card}) on {host} is at {temperature} °C", params)
