"""A backup taken while a batch runs, restored by copying, shows the jobs and goes on with them."""

from __future__ import annotations

import shutil
import stat

from called import Cli, until

BATCH = """
name: batch
run: |
  echo item $ANYCARD_INDEX
  exec sleep 600
anycard: {foreach: {count: 12}}
"""


def test_a_backup_of_a_running_batch_restored_elsewhere(up, tmp_path):
    first = up.ran("name: first\nrun: echo hello\n")["id"]
    job = up.submit(BATCH)

    def running() -> bool:
        with up.client() as client:
            return client.job(job)["counts"]["running"] > 0

    until(running)
    target = tmp_path / "backup.db"
    told = up.json("backup", str(target))
    assert told["bytes"] == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert up("backup", str(target)).returncode == 0  # an older backup is replaced
    (tmp_path / "mine.txt").write_text("mine")
    kept = up("backup", str(tmp_path / "mine.txt"))
    assert kept.returncode == 2
    assert (tmp_path / "mine.txt").read_text() == "mine"

    other = Cli(tmp_path / "restored" / "home")
    other.home.mkdir(parents=True, mode=0o700)
    shutil.copy(target, other.home / "anycard.db")
    shutil.copytree(up.home / "jobs", other.home / "jobs")  # the scripts that wait, and the logs
    try:
        shown = {row["name"]: row for row in other.json("jobs")["jobs"]}
        assert shown["first"]["id"] == first
        assert shown["first"]["state"] == "succeeded"
        assert shown["batch"]["counts"]["items"] == 12
        over = other.json("cancel", str(shown["batch"]["id"]))
        assert over
        batch = other.over(shown["batch"]["id"])
        # What ran belongs to the first home; nobody here can say how it ends.
        assert {item["end_reason"] for item in batch["items"]} == {"outcome-unknown", "cancelled"}
        newer = other.ran("run: 'true'\n")
        assert newer["state"] == "succeeded"
        assert newer["id"] > job
    finally:
        other("down", "--stop")
    with up.client() as client:  # the first home went on all the while
        assert client.job(job)["state"] == "running"
        assert client.job(job)["counts"]["failed"] == 0
    up("cancel", str(job))
    up.over(job)


def test_a_relative_path_counts_from_where_one_stands(up):
    up.ran("run: 'true'\n")
    assert up("backup", "here.db").returncode == 0
    assert (up.folder / "here.db").exists()
