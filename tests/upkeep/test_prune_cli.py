"""prune takes what ended long ago, says so first when asked, and never touches what is open."""

from __future__ import annotations

from pathlib import Path

from called import until

WRITES = 'run: head -c 300000 /dev/zero > "$ANYCARD_OUTPUT_DIR/big"; head -c 100000 /dev/zero\n'


def test_what_ended_goes_and_what_is_open_stays(up):
    ended = up.ran(WRITES)
    opened = up.submit('run: |\n  echo working; touch "$ANYCARD_CHECKPOINT_DIR/step"; sleep 600\n')
    waiting = up.submit("run: 'true'\n", options={"held": True})
    until(lambda: b"working" in up.log(opened, follow=False) if _started(up, opened) else False)
    half = up.submit(
        "run: test $ANYCARD_INDEX != 0 || exit 0; sleep 600\nanycard: {foreach: {count: 2}, parallel: 1}\n"
    )
    until(lambda: _counts(up, half)["succeeded"] == 1)
    files = {str(path) for path in up.home.rglob("*")}

    would = up.json("prune", "--older-than", "0s", "--dry-run")
    assert (would["dry_run"], would["jobs"]) == (True, [ended["id"]])
    assert would["freed_bytes"] >= 400_000
    assert {str(path) for path in up.home.rglob("*")} >= {path for path in files if "anycard.db" not in path}

    done = up.json("prune", "--older-than", "0s")
    assert done["jobs"] == [ended["id"]]
    assert done["freed_bytes"] >= 400_000
    assert done["failed"] == []
    assert not (up.home / "jobs" / str(ended["id"])).exists()
    assert not (up.home / "outputs" / str(ended["id"])).exists()
    assert up("logs", str(ended["id"])).returncode == 3
    assert up.json("job", str(ended["id"]))["state"] == "succeeded"  # the row stays, for money and audit
    assert up.events(ended["id"])

    for job in (opened, waiting, half):
        assert (up.home / "jobs" / str(job)).exists()
    assert b"working" in up.log(opened)
    assert up.json("prune", "--older-than", "0s")["jobs"] == []
    for job in (opened, half, waiting):
        up("cancel", str(job))
        assert up.over(job)["state"] in ("cancelled", "partly-failed"), job


def test_younger_jobs_stay(up):
    ended = up.ran(WRITES)
    assert up.json("prune")["jobs"] == []
    assert up.json("prune", "--older-than", "1h")["jobs"] == []
    assert Path(ended["items"][0]["log"]).exists()
    assert up("prune", "--older-than", "soon").returncode == 2
    assert up("prune", "--older-than", "-1d").returncode == 2


def test_a_pruned_job_says_so_and_offers_nothing_that_is_gone(up):
    failed = up.ran("run: exit 1\nanycard: {foreach: {count: 3}}\n")
    number = str(failed["id"])
    assert up.json("job", number)["pruned_at"] is None
    up("prune", "--older-than", "0s")
    assert up.json("job", number)["pruned_at"] is not None
    shown = up("job", number).stdout.decode()
    assert "  pruned: " in shown
    for gone in ("more:", "anycard logs", "anycard retry", "outputs: "):
        assert gone not in shown
    for argv in (("logs", number), ("logs", number, "1")):
        told = up(*argv)
        assert told.returncode == 3
        assert f"job {number} was pruned on ".encode() in told.stderr


def test_a_pruned_job_that_failed_is_not_retried_from_nothing(up):
    failed = up.ran("run: exit 1\n")
    up("prune", "--older-than", "0s")
    told = up("retry", str(failed["id"]), "--failed")
    assert told.returncode == 2
    assert up.ran("run: 'true'\n")["state"] == "succeeded"


def _started(cli, job: int) -> bool:
    return _counts(cli, job)["running"] > 0


def _counts(cli, job: int):
    with cli.client() as client:
        return client.job(job)["counts"]
