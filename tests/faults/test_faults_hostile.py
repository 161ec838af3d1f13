"""Programs that put things in anycard's way: their own job may suffer, nobody else's does."""

from __future__ import annotations

from called import until


def test_a_checkpoint_folder_turned_into_a_file_fails_its_own_item_only(cli):
    text = """
run: rm -rf "$ANYCARD_CHECKPOINT_DIR"; echo x > "$ANYCARD_CHECKPOINT_DIR"; exit 1
anycard: {retry: {times: 1, wait: 0}}
"""
    done = cli.ran(text)
    assert (done["state"], done["items"][0]["end_reason"]) == ("failed", "start-failed")
    assert "0.checkpoint: File exists" in done["items"][0]["reason"]
    assert cli.ran("run: 'true'")["state"] == "succeeded"


def test_a_failed_list_that_cannot_be_written_keeps_no_end_from_being_recorded(cli):
    done = cli.ran('run: mkdir -p "$ANYCARD_OUTPUT_DIR/../failed.json/x"; exit 1')
    assert done["state"] == "failed"
    assert cli.ran("run: 'true'")["state"] == "succeeded"


def test_secrets_that_cannot_be_read_fail_their_job_and_nothing_else(cli):
    jobs = []
    for _ in range(2):
        text = "run: 'echo $TOK'\nsecrets: {TOK: abc}\n"
        jobs.append(cli.submit(text, options={"held": True}))
    (cli.home / "jobs" / str(jobs[0]) / "secrets.json").write_text("{bad")
    (cli.home / "jobs" / str(jobs[1]) / "secrets.json").unlink()
    assert cli("down").returncode == 0
    for job in jobs:
        assert cli("release", str(job)).returncode == 0
        done = cli.over(job)
        assert done["items"][0]["end_reason"] == "start-failed"
        assert "secrets.json" in done["items"][0]["reason"]
    assert cli.ran("run: 'true'")["state"] == "succeeded"


def test_a_cancelled_setup_is_never_done(cli):
    text = "setup: |\n  trap 'exit 0' TERM\n  echo begun\n  sleep 60 &\n  wait\nrun: 'true'\n"
    job = cli.submit(text)
    until(lambda: b"begun" in cli("logs", str(job), "--setup").stdout)
    assert cli("cancel", str(job)).returncode == 0
    assert cli.over(job)["state"] == "cancelled"
    assert [event["data"]["reason"] for event in cli.events(job) if event["kind"] == "prepare.ended"] == ["cancelled"]
    assert not list((cli.home / "setups").glob("*"))


def test_a_stopped_program_that_saves_and_leaves_well_has_not_succeeded(cli):
    text = """
run: |
  trap 'echo partial > "$ANYCARD_OUTPUT_DIR/result"; exit 0' TERM
  echo begun
  sleep 60 &
  wait
"""
    job = cli.submit(text)
    until(lambda: b"begun" in cli("logs", str(job)).stdout)
    cli("cancel", str(job))
    done = cli.over(job)
    assert (done["state"], done["items"][0]["output"]) == ("cancelled", None)
    late = cli.ran(text + "anycard: {time_limit: 1s}\n")
    assert (late["state"], late["items"][0]["end_reason"]) == ("failed", "time-limit")
    assert not (cli.home / "outputs" / str(late["id"])).exists()


def test_down_with_stop_says_what_still_runs_only_when_something_does(cli):
    cli.submit("run: sleep 60")
    until(lambda: cli.json("jobs")["jobs"][0]["counts"]["running"] == 1)
    with cli.client() as client:
        assert client.down(stop=True)["attempts_running"] == 0
