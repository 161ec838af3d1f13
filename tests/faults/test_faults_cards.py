"""Cards that are not enough, not there, somebody else's, sick, or lost under a running job."""

from __future__ import annotations

import subprocess

import pytest
from called import until


def test_what_this_machine_never_has_is_refused_at_submit(two_cards):
    for options, sentence in (
        (("--gpus", "8"), "8 cards asked, this machine has 2"),
        (("--gpus", "A100:3"), "3 A100 asked, this machine has 2"),
        (("--gpus", "H100:1"), "no card here is called H100: this machine has NVIDIA A100-SXM4-80GB"),
        (("--memory", "100TB"), "of memory asked, this machine has"),
    ):
        out = two_cards("submit", *options, "--", "true")
        assert out.returncode == 2
        assert sentence in out.stderr.decode()
    refused = two_cards("submit", "-", stdin=b"resources: {accelerators: 8}\nrun: x\n")
    assert refused.returncode == 2
    assert b"8 cards asked, this machine has 2" in refused.stderr
    assert two_cards.json("jobs")["jobs"] == []


def test_a_job_sees_its_cards_and_no_others(two_cards):
    shown = 'echo "$CUDA_VISIBLE_DEVICES|$ANYCARD_CARDS|$ANYCARD_DEVICE|$OMP_NUM_THREADS"'
    one, other = two_cards.uuids
    with two_cards.client() as client:
        jobs = [
            client.submit(command=["sh", "-c", shown], options=options)["jobs"][0]["id"]
            for options in ({}, {"accelerators": "1"}, {"accelerators": "A100:2", "cpus": "2"})
        ]
    for job, said in zip(jobs, ("|0|cpu|1", f"{one}|1|cuda|1", f"{one},{other}|2|cuda|2"), strict=True):
        assert two_cards.over(job)["state"] == "succeeded"
        assert two_cards.log(job).decode().strip() == said


def test_any_falls_back_to_the_cpu(fresh):
    assert fresh("up", "-d").returncode == 0
    refused = fresh("submit", "--gpus", "1", "--", "true")
    assert refused.returncode == 2
    assert b"this machine has no accelerator" in refused.stderr
    for resources in ("accelerators: any", "any_of: [{accelerators: 'H100:1'}, {cpus: 1}]"):
        job = fresh.ran(
            f"resources: {{{resources}}}\nrun: echo $ANYCARD_DEVICE '$CUDA_VISIBLE_DEVICES'$CUDA_VISIBLE_DEVICES."
        )
        assert fresh.log(job["id"]) == b"cpu $CUDA_VISIBLE_DEVICES.\n"


def test_a_foreign_program_on_a_card_is_shown_and_not_planned_over(two_cards):
    stranger = subprocess.Popen(["sleep", "300"])
    try:
        two_cards.describe(f"process = {stranger.pid} 1073741824 compute")
        until(lambda: not two_cards.json("cards")["cards"][1]["free"])
        taken, free = two_cards.json("cards")["cards"][1:]
        assert taken["processes"][0]["command"].split("/")[-1].startswith("sleep")
        assert f"pid {stranger.pid}" in taken["not_free_because"]
        assert free["free"] is True
        assert f"({stranger.pid})".encode() in two_cards("cards").stdout
        one = two_cards.json("submit", "--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")["jobs"][0]["id"]
        assert two_cards.over(one)["state"] == "succeeded"
        assert two_cards.log(one).decode().strip() == two_cards.uuids[1]
        both = two_cards.json("submit", "--gpus", "2", "--", "true")["jobs"][0]["id"]
        waiting = until(lambda: two_cards.json("job", str(both))["reason"] and two_cards.json("job", str(both)))
        assert waiting["state"] == "queued"
        assert "waits for 2 free cards (1 of 2 free)" in waiting["reason"]
        two_cards.describe()
        assert two_cards.over(both)["state"] == "succeeded"
    finally:
        stranger.kill()
        stranger.wait()


def test_a_desktop_on_a_card_leaves_it_to_jobs(two_cards):
    """A program that only draws, until it holds so much that it is no desktop."""
    desktop = subprocess.Popen(["sleep", "300"])
    try:
        two_cards.describe(f"process = {desktop.pid} 600000000 graphics")
        drawn = until(
            lambda: two_cards.json("cards")["cards"][1] if two_cards.json("cards")["cards"][1]["processes"] else None
        )
        assert (drawn["processes"][0]["pid"], drawn["processes"][0]["draws"], drawn["free"]) == (
            desktop.pid,
            True,
            True,
        )
        both = two_cards.json("submit", "--gpus", "2", "--", "true")["jobs"][0]["id"]
        assert two_cards.over(both)["state"] == "succeeded"
        two_cards.describe(f"process = {desktop.pid} {drawn['memory_bytes'] // 2} graphics")
        until(lambda: not two_cards.json("cards")["cards"][1]["free"])
    finally:
        desktop.kill()
        desktop.wait()


@pytest.mark.slow
def test_a_sick_card_hides_no_other_and_is_not_used(two_cards):
    for fault, health in (("lost", "lost"), ("reset_required queries", "reset-required"), ("unknown", "unknown")):
        two_cards.describe(f"fault = {fault}")
        until(lambda: two_cards.json("cards")["cards"][1]["health"] == health)
        sick, well = two_cards.json("cards")["cards"][1:]
        assert (sick["free"], well["free"], well["health"]) == (False, True, "ok")
        assert sick["health_reason"]
        shown = two_cards("cards").stdout.decode()
        assert health in shown
        assert two_cards.uuids[1] in shown
    job = two_cards.ran("resources: {accelerators: 1}\nrun: echo $CUDA_VISIBLE_DEVICES")
    assert two_cards.log(job["id"]).decode().strip() == two_cards.uuids[1]


def test_a_driver_that_does_not_answer_is_said_with_its_mend(two_cards):
    two_cards.standin.describe("init = driver_not_loaded\n")
    assert two_cards("down").returncode == 0
    shown = two_cards("cards")  # looked at without a daemon
    assert shown.returncode == 0
    assert b"modprobe nvidia" in shown.stderr
    assert b"cpu" in shown.stdout
    assert two_cards("up", "-d").returncode == 0
    assert b"modprobe nvidia" in two_cards("cards").stderr
    assert b"modprobe nvidia" in two_cards("cards", "--lang", "zh").stderr


@pytest.mark.slow
def test_a_job_whose_card_is_lost_runs_again_on_another(two_cards):
    job = two_cards.submit(
        "resources: {accelerators: 1}\n"
        "run: |\n  echo on $CUDA_VISIBLE_DEVICES\n  [ $ANYCARD_ATTEMPT = 2 ] && exit 0\n  trap '' TERM\n  sleep 600\n"
    )
    until(lambda: two_cards.json("job", str(job))["items"][0]["state"] == "running")
    two_cards.describe("fault = lost")
    done = two_cards.over(job)
    assert done["state"] == "succeeded"
    ends = [event for event in two_cards.events(job) if event["kind"] == "item.ended"]
    assert [event["data"]["reason"] for event in ends] == ["card-lost", "succeeded"]
    starts = [event["data"]["cards"] for event in two_cards.events(job) if event["kind"] == "item.started"]
    assert starts == [[f"nvidia:{two_cards.uuids[0]}"], [f"nvidia:{two_cards.uuids[1]}"]]
    assert two_cards.log(job, attempt=2).decode() == f"on {two_cards.uuids[1]}\n"
    assert two_cards.json("cards")["cards"][1]["health"] == "lost"


def test_a_jobs_summary_names_the_cards_of_what_runs_and_no_log_that_is_not_there(two_cards):
    one, other = two_cards.uuids
    with two_cards.client() as client:
        runs = client.submit(command=["sleep", "100"], options={"accelerators": "2"})["jobs"][0]["id"]
        waits = client.submit(command=["true"], options={"accelerators": "1"})["jobs"][0]["id"]
    until(lambda: two_cards.json("job", str(runs))["items"][0]["state"] == "running")
    told = two_cards("job", str(runs)).stdout.decode()
    assert f"runs on: nvidia:{one}, nvidia:{other}" in told and f"anycard logs {runs}" in told
    told = two_cards("job", str(waits)).stdout.decode()
    assert "runs on" not in told and "anycard logs" not in told and f"anycard cancel {waits}" in told
    assert two_cards("cancel", str(runs)).returncode == 0
    assert two_cards.over(waits)["state"] == "succeeded"
