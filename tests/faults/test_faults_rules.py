"""What a job file may ask about trying again, order and waiting; seen from outside."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from called import until

from anycard.errors import AnycardError, ConflictError

ATTEMPT = "echo attempt $ANYCARD_ATTEMPT; "


def test_retry_only_when_asked(cli):
    done = cli.ran(
        f"run: |\n  {ATTEMPT}\n  case $ANYCARD_ITEM in 0) exit 33;; 1) exit 34;; 2) exit 65;; esac\n"
        "anycard: {foreach: {count: 4}, retry: {times: 2, wait: 0.1s, when: [out-of-memory, {exit: [33]}]}}\n"
    )
    assert [(item["attempts"], item["end_reason"]) for item in done["items"]] == [
        (3, "program-error"),
        (1, "program-error"),
        (1, "bad-input"),
        (1, "succeeded"),
    ]
    waits = [event["data"]["wait_s"] for event in cli.events(done["id"]) if event["kind"] == "item.requeued"]
    assert waits == [0.1, 0.2]  # doubled
    assert cli.log(done["id"], 0, attempt=2) == b"attempt 2\n"


def test_retry_that_succeeds_in_the_end(cli):
    done = cli.ran("run: exit $((3 - ANYCARD_ATTEMPT))\nanycard: {retry: {times: 5}}\n")
    assert (done["state"], done["items"][0]["attempts"], done["failed_file"]) == ("succeeded", 3, None)


def test_failed_list_and_retry_by_hand(cli):
    (cli.folder / "mended").unlink(missing_ok=True)
    job = cli.submit(
        "name: by-hand\nrun: |\n  echo $ANYCARD_WORD >$ANYCARD_OUTPUT_DIR/word\n"
        "  [ $ANYCARD_WORD != b ] || [ -e mended ] || { echo 'b is bad'; exit 4; }\n"
        "anycard: {foreach: {matrix: {word: [a, b, c]}}}\n"
    )
    done = cli.over(job)
    assert done["state"] == "partly-failed"
    failed = json.loads(Path(done["failed_file"]).read_text())
    assert failed["schema"] == "anycard.failed/1"
    (row,) = failed["items"]
    assert (row["item"], row["values"], row["end_reason"], row["exit_code"], row["attempts"]) == (
        1,
        {"word": "b"},
        "program-error",
        4,
        1,
    )
    assert "b is bad" in row["reason"]
    assert Path(row["log"]).read_text().count("b is bad") == 2  # the program's line, and ours
    assert done["items"][1]["output"] is None
    assert sorted(path.name for path in Path(done["outputs"]).iterdir()) == ["0", "2"]

    (cli.folder / "mended").touch()
    assert cli("retry", "by-hand", "--failed").returncode == 0
    done = cli.over(job)
    assert (done["state"], done["failed_file"]) == ("succeeded", None)
    assert [item["attempts"] for item in done["items"]] == [1, 2, 1]
    assert (Path(done["items"][1]["output"]) / "word").read_text() == "b\n"
    assert cli("retry", "by-hand", "--failed").returncode == 2


def test_retry_of_a_pruned_job_is_refused_in_words(cli):
    job = cli.submit("name: gone\nrun: exit 1\n")
    cli.over(job)
    with cli.client() as client:
        client.prune(older_than_s=0)
        assert client.job(job)["state"] == "failed"
        with pytest.raises(ConflictError, match="pruned"):
            client.retry(job)
    out = cli("retry", "gone", "--failed")
    assert out.returncode == 2
    assert b"pruned" in out.stderr


def test_one_failed_item_stops_the_rest_where_asked(cli):
    done = cli.ran("run: '[ $ANYCARD_ITEM != 1 ]'\nanycard: {foreach: {count: 5}, parallel: 1, on_item_error: stop}\n")
    assert [item["state"] for item in done["items"]] == ["succeeded", "failed", "cancelled", "cancelled", "cancelled"]
    assert done["state"] == "cancelled"
    assert "item 1 failed" in done["items"][4]["reason"]


def test_parallel(cli):
    (cli.folder / "at-once").mkdir(exist_ok=True)
    done = cli.ran(
        "resources: {cpus: 0.1}\nrun: |\n  mkdir at-once/slot || exit 9\n  sleep 0.1\n  rmdir at-once/slot\n"
        "anycard: {foreach: {count: 4}, parallel: 1}\n"
    )
    assert done["state"] == "succeeded"


def test_after_and_pipelines(cli):
    first = cli.submit("name: first\nrun: exit 0\nanycard: {foreach: {count: 2}}\n")
    then = cli.submit(f"name: then\nrun: exit 0\nanycard: {{after: [{first}, first]}}\n")
    assert cli.over(then)["state"] == "succeeded"
    with cli.client() as client:
        jobs = client.submit(
            text="name: chain\n---\nname: one\nrun: echo one >>chain.txt\n---\nname: two\nrun: exit 5\n---\n"
            "name: three\nrun: echo three >>chain.txt\n",
            cwd=cli.folder,
        )["jobs"]
    one, two, three = (cli.over(job["id"]) for job in jobs)
    assert [one["state"], two["state"], three["state"]] == ["succeeded", "failed", "failed"]
    assert three["items"][0]["end_reason"] == "upstream-failed"
    assert f"job {two['id']}" in three["items"][0]["reason"]
    assert (cli.folder / "chain.txt").read_text() == "one\n"
    for ref, word in ((str(two["id"]), "never start"), ("no-such-job", "no-such-job")):
        with pytest.raises(AnycardError, match=word):
            cli.submit(f"run: exit 0\nanycard: {{after: [{ref}]}}\n")
    text = f"run: exit 0\nanycard: {{after: [{two['id']}]}}\n"
    out = cli("submit", "-", stdin=text.encode())
    assert out.returncode == 2


def test_not_before(cli):
    moment = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    later = (datetime.now(UTC) + timedelta(days=9)).isoformat()
    soon, late = (cli.submit(f"run: date +%s.%N\nanycard: {{not_before: '{when}'}}\n") for when in (moment, later))
    assert "start time" in cli.json("job", str(soon))["reason"]
    done = cli.over(soon)
    assert float(cli.log(soon)) >= datetime.fromisoformat(moment).timestamp()
    assert done["started_at"] >= moment[:19]
    waiting = cli.json("job", str(late))
    assert (waiting["state"], waiting["counts"]["running"]) == ("queued", 0)
    cli("cancel", str(late))


def test_hold_and_release_of_a_running_batch(cli):
    (cli.folder / "go").unlink(missing_ok=True)
    job = cli.submit("run: while [ ! -e go ]; do sleep 0.05; done\nanycard: {foreach: {count: 3}, parallel: 1}\n")
    until(lambda: cli.json("job", str(job))["counts"]["running"])
    assert cli("hold", str(job)).returncode == 0
    (cli.folder / "go").touch()
    held = until(lambda: (found := cli.json("job", str(job)))["counts"]["running"] == 0 and found)
    assert (held["state"], held["counts"]["queued"], held["held"]) == ("queued", 2, True)
    assert "is held" in held["reason"]
    assert cli("release", str(job)).returncode == 0
    assert cli.over(job)["state"] == "succeeded"


def test_priority_goes_first_then_the_order_of_submission(cli):
    (cli.folder / "order.txt").unlink(missing_ok=True)
    gate = cli.submit("resources: {cpus: 2}\nrun: while [ ! -e open ]; do sleep 0.05; done\n")
    until(lambda: cli.json("job", str(gate))["counts"]["running"])
    jobs = [
        cli.submit(f"resources: {{cpus: 2}}\nrun: echo {name} >>order.txt\nanycard: {{priority: {priority}}}\n")
        for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", -5))
    ]
    assert "CPUs" in cli.json("job", str(jobs[1]))["reason"]
    (cli.folder / "open").touch()
    for job in jobs:
        assert cli.over(job)["state"] == "succeeded"
    assert (cli.folder / "order.txt").read_text().split() == ["b", "a", "c", "d"]


def test_two_jobs_of_one_name(cli):
    old = cli.submit("name: twice\nrun: echo old\n")
    new = cli.submit("name: twice\nrun: echo new\n")
    cli.over(old), cli.over(new)
    assert cli.json("job", "twice")["id"] == new
    assert b"new\n" in cli("logs", "twice").stdout
    assert cli.json("job", str(old))["id"] == old


def test_cancel_of_one_item(cli):
    job = cli.submit("run: exec sleep 600\nanycard: {foreach: {count: 3}, parallel: 1, stop_grace: 0.2s}\n")
    until(lambda: cli.json("job", str(job))["counts"]["running"])
    for item in ("0", "2"):
        assert cli("cancel", str(job), "--item", item).returncode == 0
    until(
        lambda: [item["state"] for item in cli.json("job", str(job))["items"]] == ["cancelled", "running", "cancelled"]
    )
    assert cli("cancel", str(job), "--item", "7").returncode in (2, 3)
    assert cli("cancel", str(job)).returncode == 0
    assert cli.over(job)["state"] == "cancelled"
    assert cli("cancel", str(job)).returncode == 2
