"""Prune takes what is old and over, counts it rightly, and touches nothing else: no open job, nothing behind a link."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.config import Paths
from anycard.store import queries
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.prune import EndedJob, plan_prune, prune, remove_tree, tree_bytes

_BLOCK = 4096


def _fill(paths: Paths, job_id: int, blocks: int = 1) -> None:
    for folder in (_output_made(paths, job_id), paths.output(job_id, 0), paths.checkpoint(job_id, 0)):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * _BLOCK * blocks)
    Path(f"{paths.attempt(job_id, 0, 1)}.log").write_bytes(b"x" * _BLOCK * blocks)


def _output_made(paths: Paths, job_id: int) -> Path:
    """What a failed attempt leaves of its output."""
    return Path(f"{paths.attempt(job_id, 0, 1)}.output")


def _job(store: Store, rows: Any, job_id: int, ended_at: float | None, state: str = "succeeded") -> None:
    changes = Changes()
    changes.insert("jobs", rows.job(job_id, state="queued" if ended_at is None else state, ended_at=ended_at))
    changes.insert("items", rows.item(job_id))
    changes.insert("attempts", rows.attempt(job_id, job_id))
    changes.insert("grants", rows.grant(job_id, job_id, job_id))
    changes.event(rows.event("job.submitted", job_id))
    store.commit(changes)


def _left(paths: Paths) -> set[str]:
    return {f"{kind}/{entry.name}" for kind in ("jobs", "outputs") for entry in (paths.home / kind).iterdir()}


_JOBS = st.lists(
    st.builds(
        EndedJob,
        id=st.integers(1, 10**6),
        ended_at=st.floats(0, 100),
        logs_bytes=st.integers(0, 100),
        outputs_bytes=st.integers(0, 100),
    ),
    unique_by=lambda job: job.id,
    max_size=30,
)


@given(jobs=_JOBS, before=st.floats(0, 100), bound=st.none() | st.integers(0, 5000))
def test_a_plan_keeps_its_bounds_and_takes_no_more_than_it_must(
    jobs: list[EndedJob], before: float, bound: int | None
) -> None:
    chosen = plan_prune(jobs, ended_before=before, max_bytes=bound)
    kept = [job for job in jobs if job not in chosen]
    assert all(job.ended_at >= before for job in kept)
    assert all(one.ended_at <= other.ended_at for one in chosen for other in kept), (
        "an older job is never kept for a younger one"
    )
    by_size = [job for job in chosen if job.ended_at >= before]
    if bound is None:
        assert not by_size
    else:
        total = sum(job.total_bytes for job in kept)
        assert total <= bound
        if by_size:
            assert total + by_size[-1].total_bytes > bound, "the last one taken had to go"


def test_old_jobs_go_and_their_money_and_history_stay(store: Store, paths: Paths, rows: Any, table_rows: Any) -> None:
    _job(store, rows, 1, 100.0)
    _job(store, rows, 2, 100.0, state="partly-failed")
    _job(store, rows, 3, 900.0)
    _job(store, rows, 4, None)
    for job_id in (1, 2, 3, 4):
        _fill(paths, job_id)
    before = _left(paths)

    trial = prune(store, paths, 500.0, dry_run=True)
    assert _left(paths) == before
    assert len(table_rows(store, "items")) == 4

    done = prune(store, paths, 500.0)
    assert done == trial
    assert done["jobs"] == [1, 2]
    assert done["failed"] == []
    assert done["logs_bytes"] >= 2 * 3 * _BLOCK, "log, failed output and checkpoint of both"
    assert done["freed_bytes"] == sum(done[f"{kind}_bytes"] for kind in ("logs", "outputs", "environments"))
    assert _left(paths) == {name for name in before if name.endswith(("/3", "/4"))}
    assert [row["job_id"] for row in table_rows(store, "items")] == [3, 4]
    assert [row["job_id"] for row in table_rows(store, "attempts")] == [3, 4]
    assert len(table_rows(store, "grants")) == len(table_rows(store, "events")) == len(table_rows(store, "jobs")) == 4
    assert [row["pruned_at"] is None for row in table_rows(store, "jobs")] == [False, False, True, True]
    assert prune(store, paths, 500.0)["jobs"] == [], "done once"


def test_the_total_is_brought_under_a_bound_oldest_first(sqlite_store: Store, paths: Paths, rows: Any) -> None:
    for job_id, ended_at in ((1, 30.0), (2, 10.0), (3, 20.0)):
        _job(sqlite_store, rows, job_id, ended_at)
        _fill(paths, job_id, blocks=100)
    one = tree_bytes(paths.job(1)) + tree_bytes(paths.home / "outputs" / "1")
    assert prune(sqlite_store, paths, 0.0, max_bytes=2 * one)["jobs"] == [2]
    assert prune(sqlite_store, paths, 0.0, max_bytes=0)["jobs"] == [3, 1]


def test_a_crash_between_rows_and_folders_is_made_good(sqlite_store: Store, paths: Paths, rows: Any) -> None:
    _job(sqlite_store, rows, 1, 100.0)
    prune(sqlite_store, paths, 500.0)
    _fill(paths, 1)
    assert prune(sqlite_store, paths, 500.0)["jobs"] == [1]
    assert _left(paths) == set()


def test_nothing_behind_a_link_is_touched(sqlite_store: Store, paths: Paths, rows: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("years of work")
    _job(sqlite_store, rows, 1, 100.0)
    _fill(paths, 1)
    (_output_made(paths, 1) / "to-folder").symlink_to(outside)
    (_output_made(paths, 1) / "to-file").symlink_to(outside / "precious")
    _job(sqlite_store, rows, 2, 100.0)
    (paths.home / "outputs" / "2").symlink_to(outside)
    done = prune(sqlite_store, paths, 500.0)
    assert done["failed"] == []
    assert (outside / "precious").read_text() == "years of work"
    assert _left(paths) == set()


def test_a_folder_that_was_moved_away_behind_a_link_is_reported_and_left(
    sqlite_store: Store, paths: Paths, rows: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "big-disk"
    (elsewhere / "1" / "0").mkdir(parents=True)
    (paths.home / "outputs").symlink_to(elsewhere)
    _job(sqlite_store, rows, 1, 100.0)
    done = prune(sqlite_store, paths, 500.0)
    assert [failed["path"] for failed in done["failed"]] == [str(paths.home / "outputs" / "1")]
    assert (elsewhere / "1" / "0").is_dir()


def test_a_job_that_was_asked_for_again_is_left(
    sqlite_store: Store, paths: Paths, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _job(sqlite_store, rows, 1, 100.0)
    _fill(paths, 1)
    reopen = Changes()
    reopen.update("jobs", 1, state="queued", ended_at=None)

    def plan_then_reopened(*arguments: Any, **named: Any) -> tuple[EndedJob, ...]:
        chosen = plan_prune(*arguments, **named)
        sqlite_store.commit(reopen)  # in between
        return chosen

    monkeypatch.setattr("anycard.store.prune.plan_prune", plan_then_reopened)
    assert prune(sqlite_store, paths, 500.0)["jobs"] == []
    assert _output_made(paths, 1).is_dir()
    with sqlite_store.read() as connection:
        assert len(queries.load_open(connection).items) == 1


def test_read_only_and_deep_and_oddly_named_folders_go(tmp_path: Path) -> None:
    top = tmp_path / "top"
    deep = top.joinpath(*["d"] * 150)
    deep.mkdir(parents=True)
    for name in (b"new\nline", b"\xff\xfe", b" ", b"--rf"):
        with open(os.path.join(os.fsencode(deep), name), "wb") as out:
            out.write(b"x")
    deep.chmod(0o500)
    os.mkfifo(top / "pipe")
    remove_tree(top)
    assert os.listdir(tmp_path) == []


def test_bytes_are_those_that_removing_frees(tmp_path: Path) -> None:
    kept, top = tmp_path / "kept", tmp_path / "top"
    top.mkdir()
    empty = tree_bytes(top)
    kept.write_bytes(b"x" * _BLOCK * 50)
    os.link(kept, top / "other-name")
    (top / "link").symlink_to(kept)
    assert tree_bytes(top) == empty + (top / "link").lstat().st_blocks * 512
    with open(top / "sparse", "wb") as out:
        out.truncate(10**9)
    assert tree_bytes(top) < _BLOCK * 50
    assert tree_bytes(tmp_path / "nothing") == 0


def test_cached_environments_go_once_nobody_names_them(sqlite_store: Store, paths: Paths, rows: Any) -> None:
    for name in ("unused", "1000-used", "recent", "young"):
        (paths.home / "environments" / name / "bin").mkdir(parents=True)
        if name != "young":
            os.utime(paths.home / "environments" / name, (100, 100))
    (paths.home / "setups").mkdir()
    (paths.home / "setups" / "abc").touch()
    spec = '{"options":[],"setup_environment":"%s"}'
    rows.commit_job(sqlite_store, 1, uid=1000, spec_json=spec % "used")
    rows.commit_job(sqlite_store, 2, state="succeeded", ended_at=900.0, spec_json=spec % "recent")
    rows.commit_job(sqlite_store, 3, state="succeeded", ended_at=200.0, spec_json=spec % "unused")
    assert prune(sqlite_store, paths, 500.0, dry_run=True)["environments_bytes"] > 0
    assert (paths.home / "setups" / "abc").exists()
    assert prune(sqlite_store, paths, 500.0)["environments_bytes"] > 0
    assert sorted(os.listdir(paths.home / "environments")) == ["1000-used", "recent", "young"]
    assert os.listdir(paths.home / "setups") == [], "a setup must run again where its environment is gone"
