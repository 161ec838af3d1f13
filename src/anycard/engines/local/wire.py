"""Specs and statuses as they go over the supervisor's socket: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anycard.engines.local.startwords import start_failure
from anycard.engines.protocol import AttemptSpec, AttemptStatus, OpenAttempt, Phase, Usage
from anycard.model.end_reason import EndReason
from anycard.model.instant import Instant


def line(message: Mapping[str, Any]) -> bytes:
    """Bytes that are no UTF-8 travel as escaped lone surrogates and come out as the same bytes."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def spec_to_json(spec: AttemptSpec) -> dict[str, Any]:
    return {
        "id": spec.id,
        "stem": spec.stem,
        "checkpoint": spec.checkpoint,
        "argv": spec.argv,
        "cwd": spec.cwd,
        "env": dict(spec.env),
        "cpus": spec.cpus,
        "memory": spec.memory_bytes,
        "grace_s": spec.stop_grace_s,
        "deadlines": [[deadline.after_s, deadline.why.value] for deadline in spec.deadlines],
        "uid": spec.uid,
        "gid": spec.gid,
        "umask": spec.umask,
        "header": spec.log_header,
    }


def open_to_json(attempt: OpenAttempt) -> dict[str, Any]:
    spec = None if attempt.spec is None else spec_to_json(attempt.spec)
    return {"id": attempt.id, "stem": attempt.stem, "spec": spec}


def status_from_json(value: Mapping[str, Any], boot_id: str) -> AttemptStatus:
    cpu_s, memory_bytes, peak_memory_bytes, read_bytes, written_bytes = value["usage"]
    why = value["stopped_for"]
    return AttemptStatus(
        id=value["id"],
        phase=Phase(value["phase"]),
        at=Instant(value["utc"], value["boot_s"], boot_id),
        pid=value["pid"],
        exit_code=value["exit_code"],
        lost=value["lost"],
        stopped_for=_reason(why),
        out_of_memory=value["out_of_memory"],
        start_failure=start_failure(value["start_failure"]),
        rebooted=value["rebooted"],
        disk_full=value["disk_full"],
        left_behind=value["left_behind"],
        limits=value["limits"],
        usage=Usage(cpu_s, memory_bytes, peak_memory_bytes, read_bytes, written_bytes),
    )


def _reason(why: str | None) -> EndReason | None:
    """In shared mode the word may come from a file that is the user's: one we do not know is a cancellation, the least trusting."""
    if why is None:
        return None
    try:
        return EndReason(why)
    except ValueError:
        return EndReason.CANCELLED
