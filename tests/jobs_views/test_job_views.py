"""JOB, ITEM and events as docs/plans/002-spine.md writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anycard.config import Paths
from anycard.jobs.views import event_json, item_json, job_json
from anycard.model.text import Text

_JOB: dict[str, Any] = {
    "id": 7,
    "submit_key": "k",
    "name": "train",
    "tenant": "default",
    "user": "ann",
    "kind": "batch",
    "state": "partly-failed",
    "held": 0,
    "priority": 3,
    "submitted_at": 1796057605.123,
    "first_granted_at": 1796057606.0,
    "ended_at": None,
    "pruned_at": None,
    "reason_json": None,
    "n_items": 6,
    "n_queued": 0,
    "n_running": 1,
    "n_succeeded": 2,
    "n_failed": 3,
    "n_cancelled": 0,
    "options": [{"cpus": 2.0, "memory_bytes": 1024, "card_count": 1, "card": "A100", "card_memory_bytes": None}],
}
_ITEM: dict[str, Any] = {
    "job_id": 7,
    "item": 2,
    "state": "succeeded",
    "values_json": '{"file": "data/a b.csv"}',
    "attempts": 2,
    "reason_json": None,
    "end_reason": "succeeded",
    "exit_code": 0,
    "started_at": 1796057605.0,
    "ended_at": 1796057606.5,
    "run_s": 1.5,
    "cards_json": '["nvidia:GPU-1"]',
    "stem": "/h/jobs/7/2.2",
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


def test_a_job_has_exactly_the_fields_of_the_contract(paths: Paths) -> None:
    shown = job_json(_JOB, paths, position=4, sooner=Text("ask for {n} cards", {"n": 1}))
    assert shown == {
        "schema": "anycard.job/1",
        "id": 7,
        "name": "train",
        "tenant": "default",
        "user": "ann",
        "kind": "batch",
        "state": "partly-failed",
        "held": False,
        "priority": 3,
        "submitted_at": "2026-11-30T16:53:25.123Z",
        "started_at": "2026-11-30T16:53:26.000Z",
        "ended_at": None,
        "pruned_at": None,
        "reason": None,
        "reason_msgid": None,
        "reason_params": None,
        "position": 4,
        "sooner": "ask for 1 cards",
        "sooner_msgid": "ask for {n} cards",
        "sooner_params": {"n": 1},
        "counts": {"items": 6, "queued": 0, "running": 1, "succeeded": 2, "failed": 3, "cancelled": 0},
        "sizing": None,
        "demand": [{"cpus": 2.0, "memory_bytes": 1024, "card_count": 1, "card": "A100"}],
        "outputs": str(paths.home / "outputs" / "7"),
        "failed_file": None,
    }
    json.dumps(shown)


def test_the_failed_file_is_named_once_it_is_there(paths: Paths) -> None:
    paths.job(7).mkdir(parents=True)
    (paths.job(7) / "failed.json").write_text("{}")
    assert job_json(_JOB, paths)["failed_file"] == str(paths.job(7) / "failed.json")
    assert job_json({**_JOB, "state": "running"}, paths)["failed_file"] is None


def test_a_reason_is_shown_in_english_and_kept_as_key_and_values(paths: Paths) -> None:
    reason = {"msgid": "waits for {n} free CPUs", "params": {"n": 2}}
    for shown in (
        job_json({**_JOB, "reason_json": json.dumps(reason)}, paths),
        item_json({**_ITEM, "reason_json": json.dumps(reason)}, paths),
    ):
        assert shown["reason"] == "waits for 2 free CPUs"
        assert shown["reason_msgid"] == reason["msgid"]
        assert shown["reason_params"] == {"n": 2}


def test_an_item_has_exactly_the_fields_of_the_contract(paths: Paths) -> None:
    paths.output(7, 2).mkdir(parents=True)
    assert item_json(_ITEM, paths) == {
        "item": 2,
        "values": {"file": "data/a b.csv"},
        "state": "succeeded",
        "attempts": 2,
        "reason": None,
        "reason_msgid": None,
        "reason_params": None,
        "end_reason": "succeeded",
        "cause": None,
        "exit_code": 0,
        "started_at": "2026-11-30T16:53:25.000Z",
        "ended_at": "2026-11-30T16:53:26.500Z",
        "run_s": 1.5,
        "cards": ["nvidia:GPU-1"],
        "log": "/h/jobs/7/2.2.log",
        "output": str(paths.output(7, 2)),
        "progress": None,
    }


def test_progress_is_shown_of_a_running_item_and_only_when_it_can_be_read(paths: Paths) -> None:
    told = paths.checkpoint(7, 2) / "progress.json"
    told.parent.mkdir(parents=True)
    running = {**_ITEM, "state": "running"}
    told.write_text('{"done": 3, "total": 4, "message": "epoch 3", "more": 1}')
    assert item_json(running, paths)["progress"] == {"done": 3, "total": 4, "message": "epoch 3"}
    assert item_json({**_ITEM, "state": "failed"}, paths)["progress"] is None
    for odd in ("", "[1]", '{"done": "x"}', "\udc80", "1" * 9999):
        told.write_bytes(odd.encode("utf-8", "surrogateescape"))
        assert item_json(running, paths)["progress"] is None
    told.unlink()
    told.symlink_to("/etc/passwd")
    assert item_json(running, paths)["progress"] is None


def test_an_output_is_shown_only_for_a_succeeded_item_that_wrote_some(paths: Paths) -> None:
    assert item_json(_ITEM, paths)["output"] is None
    paths.output(7, 2).mkdir(parents=True)
    assert item_json({**_ITEM, "state": "failed"}, paths)["output"] is None


def test_an_item_that_was_never_tried(paths: Paths) -> None:
    fresh = {**_ITEM, "state": "queued", "values_json": None, "cards_json": None, "stem": None}
    shown = item_json(fresh, paths)
    assert (shown["values"], shown["cards"], shown["log"], shown["output"]) == ({}, [], None, None)


def test_an_event() -> None:
    row = {
        "seq": 5,
        "at": 0.25,
        "boot_s": 1.0,
        "boot_id": "b",
        "kind": "item.ended",
        "tenant": "default",
        "user": "ann",
        "job_id": 7,
        "item": 2,
        "attempt_id": 9,
        "data_json": '{"reason": "succeeded"}',
    }
    shown = event_json(row)
    assert (shown["seq"], shown["at"], shown["data"]) == (5, "1970-01-01T00:00:00.250Z", {"reason": "succeeded"})
    assert event_json({**row, "data_json": None})["data"] == {}
