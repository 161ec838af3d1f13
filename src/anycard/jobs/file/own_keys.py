"""The ``anycard:`` key: what SkyPilot has no words for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.foreach import Foreach, read_foreach
from anycard.jobs.file.model_key import read_model
from anycard.jobs.file.nodes import Node, Scalar
from anycard.jobs.file.readers import (
    Section,
    read_choice,
    read_flag,
    read_mapping,
    read_seconds,
    read_text,
    read_texts,
    read_whole,
)
from anycard.jobs.file.resources import MAX_RETRIES, PRIORITIES
from anycard.jobs.file.when_key import When, read_when
from anycard.jobs.spec import ModelAsk, RetryRule

KEYS = (
    "foreach", "parallel", "priority", "after", "not_before", "time_limit", "stop_grace", "retry", "release", "resumable", "copy_workdir",
    "on_item_error", "environment", "model",
)  # fmt: skip
MAX_PARALLEL = 1_000_000
_ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """Lengths in seconds. None: not given. ``not_before`` without a time zone is the submitter's local time."""

    foreach: Foreach | None = None
    parallel: int | None = None
    priority: int | None = None
    after: Mapping[str, Place] = field(default_factory=dict)  # jobs, and where each is named
    not_before: datetime | None = None
    time_limit_s: float | None = None
    stop_grace_s: float | None = None
    retry: RetryRule | None = None
    idle_s: float | None = None
    max_s: float | None = None
    resumable: bool = False
    copy_workdir: bool = False
    stop_on_item_error: bool = False
    environment: str | None = None
    model: ModelAsk | None = None


def read_own_keys(node: Node, faults: Faults) -> OwnKeys:
    mapping = read_mapping(node, "anycard", faults)
    if mapping is None:
        return OwnKeys()
    section = Section(mapping, "anycard", faults, KEYS)
    get, name = section.get, section.name
    idle_s, max_s = _read_release(section, faults)
    return OwnKeys(
        foreach=read_foreach(item, faults) if (item := get("foreach")) else None,
        parallel=read_parallel(item, name("parallel"), faults) if (item := get("parallel")) else None,
        priority=read_priority(item, name("priority"), faults) if (item := get("priority")) else None,
        after=_read_after(item, faults) if (item := get("after")) else {},
        not_before=_read_moment(item, name("not_before"), faults) if (item := get("not_before")) else None,
        time_limit_s=read_seconds(item, name("time_limit"), faults, positive=True)
        if (item := get("time_limit"))
        else None,
        stop_grace_s=read_seconds(item, name("stop_grace"), faults) if (item := get("stop_grace")) else None,
        retry=_read_retry(item, faults) if (item := get("retry")) else None,
        idle_s=idle_s,
        max_s=max_s,
        resumable=bool(read_flag(item, name("resumable"), faults)) if (item := get("resumable")) else False,
        copy_workdir=bool(read_flag(item, name("copy_workdir"), faults)) if (item := get("copy_workdir")) else False,
        stop_on_item_error=_read_on_item_error(section, faults),
        environment=_read_environment(item, faults) if (item := get("environment")) else None,
        model=read_model(item, faults) if (item := get("model")) else None,
    )


def read_parallel(node: Node, key: str, faults: Faults) -> int | None:
    return read_whole(node, key, faults, least=1, most=MAX_PARALLEL)


def read_priority(node: Node, key: str, faults: Faults) -> int | None:
    return read_whole(node, key, faults, least=PRIORITIES[0], most=PRIORITIES[1])


def read_times(node: Node, key: str, faults: Faults) -> int | None:
    return read_whole(node, key, faults, least=0, most=MAX_RETRIES)


def _read_after(node: Node, faults: Faults) -> dict[str, Place]:
    return {text: scalar.place for scalar, text in read_texts(node, "anycard.after", faults)}


def _read_moment(node: Node, key: str, faults: Faults) -> datetime | None:
    text = read_text(node, key, faults)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    # 4-digit years with room on both sides, so that no time zone leads out of what a datetime holds
    if moment is not None and 1970 < moment.year < 9999:
        return moment
    faults.add(
        node.place,
        "{key} wants a moment such as 2026-12-01T08:00 or 2026-12-01T08:00:00+01:00, not {value}",
        key=key,
        value=text,
    )
    return None


def _read_retry(node: Node, faults: Faults) -> RetryRule | None:
    path = "anycard.retry"
    if isinstance(node, Scalar):
        times = read_times(node, path, faults)
        return None if times is None else RetryRule(times=times)
    mapping = read_mapping(node, path, faults)
    if mapping is None:
        return None
    section = Section(mapping, path, faults, ("times", "wait", "when"))
    times_node, wait, when = section.get("times"), section.get("wait"), section.get("when")
    if times_node is None:
        faults.add(mapping.place, "{key} wants times: how often to try again", key=path)
    said = read_when(when, faults) if when else When()
    return RetryRule(
        times=(read_times(times_node, section.name("times"), faults) if times_node else None) or 0,
        wait_s=(read_seconds(wait, section.name("wait"), faults) if wait else None) or 0.0,
        when_reasons=said.reasons,
        when_exit_codes=said.exit_codes,
        when_causes=said.causes,
    )


def _read_release(section: Section, faults: Faults) -> tuple[float | None, float | None]:
    node = section.get("release")
    mapping = read_mapping(node, section.name("release"), faults) if node else None
    if mapping is None:
        return None, None
    release = Section(mapping, section.name("release"), faults, ("idle", "max"))
    idle, longest = release.get("idle"), release.get("max")
    return (
        read_seconds(idle, release.name("idle"), faults, positive=True) if idle else None,
        read_seconds(longest, release.name("max"), faults, positive=True) if longest else None,
    )


def _read_on_item_error(section: Section, faults: Faults) -> bool:
    node = section.get("on_item_error")
    return node is not None and read_choice(node, section.name("on_item_error"), faults, ("continue", "stop")) == "stop"


def _read_environment(node: Node, faults: Faults) -> str | None:
    text = read_text(node, "anycard.environment", faults)
    if text is None or _ENVIRONMENT.fullmatch(text):
        return text
    faults.add(
        node.place, "anycard.environment wants a name of letters, digits, '.', '_' and '-', not {value}", value=text
    )
    return None
