"""Why an item ended as it did: what anycard saw of it, and what the doctor reads out of its log and its cards' readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.doctor.rule import ALLOWS, HINTS, SUGGESTS
from anycard.doctor.shapes import MEASURED
from anycard.jobs.logdoctor import Diagnosis
from anycard.model.end_reason import EndReason

# The verdict where the log names no cause but anycard itself saw the end. A program error is the program's own affair to explain: there
# the doctor's verdict stays.
_STANDS = {
    EndReason.SUCCEEDED: "healthy",
    EndReason.CANCELLED: "expected",
    EndReason.PREEMPTED: "expected",
    EndReason.IDLE_RELEASED: "expected",
    EndReason.MAX_RELEASED: "expected",
    EndReason.SPOT_RECLAIMED: "expected",
    EndReason.BAD_INPUT: "application",
    EndReason.TIME_LIMIT: "application",
    EndReason.OUT_OF_MEMORY: "application",
    EndReason.SETUP_FAILED: "application",
    EndReason.START_FAILED: "application",
    EndReason.UPSTREAM_FAILED: "application",
    EndReason.CARD_LOST: "fault",
    EndReason.HOST_LOST: "fault",
    EndReason.DISK_FULL: "fault",
}
_HARMLESS = ("healthy", "expected")
_OVER = frozenset({"succeeded", "failed", "cancelled"})
_OPEN = frozenset({"card_unused", "throttled_hardware"})  # seen for sure, and of several causes
# Whose torch it is, whether it may see the card, or whether nobody asked for it: one job tells.
_SPLITS = (
    'anycard run --gpus 1 -- python3 -c "import os, torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available(), '
    "os.environ.get('CUDA_VISIBLE_DEVICES'))\""
)
_OF_ITEM = ("item", "state", "attempts", "reason", "reason_msgid", "reason_params", "end_reason", "cause", "exit_code")


def about_item(job: Mapping[str, Any], item: Mapping[str, Any], log: str, seen: Diagnosis) -> Diagnosis:
    """``seen`` (of its log and its cards' readings) with what anycard knows: the key ``attempt``, and a verdict that agrees with the item's
    end."""
    about = {
        "job": job["id"],
        "name": job["name"],
        "items": job["n_items"],
        **{name: item[name] for name in _OF_ITEM},
        "log": log,
    }
    told = judged(seen, item["end_reason"] if item["state"] in _OVER else None)
    if told["verdict"] == "undecided" and not told["findings"]:
        told = {**told, "next_check": f"anycard logs {job['id']} {item['item']}"}
    return {**told, "attempt": about}


def judged(seen: Diagnosis, end_reason: str | None) -> Diagnosis:
    """Only what carries some weight is told: most failures are the program's own, and half a resemblance to a driver's words is no help.
    An item that ended well, or for a reason that anycard saw, needs more. But what its card's readings prove without naming a cause is
    not well, however it ended: its candidates are listed."""
    sure = [one for one in seen["findings"] if one["certainty"] >= SUGGESTS and one["verdict"] not in _HARMLESS]
    if sure:
        return {**seen, "findings": sure, "verdict": sure[0]["verdict"]}
    proven = {fact["name"] for fact in seen.get("facts", ()) if fact["source"] == MEASURED} & _OPEN
    if proven and (candidates := [one for one in seen["findings"] if _is_candidate(one)]):
        check = _SPLITS if "card_unused" in proven else candidates[0]["next_check"]
        return {**seen, "findings": candidates, "verdict": "undecided", "next_check": check}
    stands = _STANDS.get(EndReason(end_reason)) if end_reason is not None else None
    if stands is not None:
        return {**seen, "findings": [], "verdict": stands, "next_check": None}
    hints = [one for one in seen["findings"] if one["certainty"] >= HINTS and one["verdict"] not in _HARMLESS]
    return {**seen, "findings": hints, "verdict": "undecided"}


def _is_candidate(one: Mapping[str, Any]) -> bool:
    read = any(place["source"] == MEASURED for place in one["evidence_places"])
    return read and one["certainty"] >= ALLOWS and one["verdict"] not in _HARMLESS
