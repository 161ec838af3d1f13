"""Jobs and items as the API shows them: JOB and ITEM of docs/api.md, made from rows of store/queries.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anycard.config import Paths
from anycard.jobs import files
from anycard.model.instant import rfc3339
from anycard.model.text import Text
from anycard.store.queries import ENDED_JOB_STATES

JOB_SCHEMA = "anycard.job/1"
_DEMAND_FIELDS = ("cpus", "memory_bytes", "card_count", "card")


def job_json(
    row: Mapping[str, Any],
    paths: Paths,
    *,
    position: int | None = None,
    why: Text | None = None,
    sooner: Text | None = None,
) -> dict[str, Any]:
    """JOB. ``position`` (1 is next), ``why`` and ``sooner`` are what the daemon knows of a waiting job and the store does not."""
    failed_file = paths.job(row["id"]) / "failed.json"
    return {
        "schema": JOB_SCHEMA,
        "id": row["id"],
        "name": row["name"],
        "tenant": row["tenant"],
        "user": row["user"],
        "kind": row["kind"],
        "state": row["state"],
        "held": bool(row["held"]),
        "priority": row["priority"],
        "submitted_at": rfc3339(row["submitted_at"]),
        "started_at": rfc3339(row["first_granted_at"]),
        "ended_at": rfc3339(row["ended_at"]),
        "pruned_at": rfc3339(row["pruned_at"]),
        **(_reason(row["reason_json"]) if why is None else _reason_of(why)),
        "position": position,
        "sooner": None if sooner is None else str(sooner),
        "sooner_msgid": None if sooner is None else sooner.msgid,
        "sooner_params": None if sooner is None else dict(sooner.params),
        "counts": {
            "items": row["n_items"],
            "queued": row["n_queued"],
            "running": row["n_running"],
            "succeeded": row["n_succeeded"],
            "failed": row["n_failed"],
            "cancelled": row["n_cancelled"],
        },
        "sizing": _sizing(row.get("spec_json")),
        "demand": [{field: option.get(field) for field in _DEMAND_FIELDS} for option in row["options"] or ()],
        "outputs": str(paths.output(row["id"], 0).parent),
        "failed_file": str(failed_file)
        if row["state"] in ENDED_JOB_STATES and row["n_failed"] and failed_file.exists()
        else None,
    }


def _sizing(spec_json: str | None) -> dict[str, Any] | None:
    """What the job's model was computed to need; None for a job that names none, and on pages of many jobs, which do not read specs."""
    if not spec_json or '"sizing":{' not in spec_json:
        return None
    sizing: dict[str, Any] | None = json.loads(spec_json).get("sizing")
    return sizing


def item_json(row: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """ITEM. ``output`` is the folder of a succeeded item that wrote anything; ``log`` is the last attempt's."""
    output = paths.output(row["job_id"], row["item"])
    reason = _reason(row["reason_json"])
    return {
        "item": row["item"],
        "values": json.loads(row["values_json"]) if row["values_json"] else {},
        "state": row["state"],
        "attempts": row["attempts"],
        **reason,
        "end_reason": row["end_reason"],
        "cause": reason["reason_params"].get("cause") if reason["reason_params"] else None,
        "exit_code": row["exit_code"],
        "started_at": rfc3339(row["started_at"]),
        "ended_at": rfc3339(row["ended_at"]),
        "run_s": row["run_s"],
        "cards": json.loads(row["cards_json"]) if row["cards_json"] else [],
        "log": f"{paths.absolute(row['stem'])}.log" if row["stem"] else None,
        "output": str(output) if row["state"] == "succeeded" and output.is_dir() else None,
        "progress": files.read_progress(paths.checkpoint(row["job_id"], row["item"]))
        if row["state"] == "running"
        else None,
    }


def event_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """One event of the log, its ``data`` read."""
    return {
        "seq": row["seq"],
        "at": rfc3339(row["at"]),
        "boot_s": row["boot_s"],
        "boot_id": row["boot_id"],
        "kind": row["kind"],
        "tenant": row["tenant"],
        "user": row["user"],
        "job_id": row["job_id"],
        "item": row["item"],
        "attempt_id": row["attempt_id"],
        "data": json.loads(row["data_json"]) if row["data_json"] else {},
    }


def _reason(reason_json: str | None) -> dict[str, Any]:
    """The same reason three times: in English for people, and as key and values for faces that translate."""
    if not reason_json:
        return {"reason": None, "reason_msgid": None, "reason_params": None}
    return _reason_of(Text.from_json(json.loads(reason_json)))


def _reason_of(text: Text) -> dict[str, Any]:
    return {"reason": str(text), "reason_msgid": text.msgid, "reason_params": dict(text.params)}
