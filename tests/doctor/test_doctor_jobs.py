"""``anycard doctor --job``, and what the API answers about jobs, evidence and the host."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from called import Cli

from anycard.api import answers
from anycard.jobs.diagnosis import judged

VISION = "RuntimeError: operator torchvision::nms does not exist"
CAUSE = "torch-torchvision-cuda-mismatch"


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    called = Cli(tmp_path_factory.mktemp("jobs") / "home")
    assert called("up", "-d").returncode == 0
    yield called
    called("down", "--stop")
    assert "Traceback" not in (called.home / "daemon.log").read_text()


def send(cli: Cli, method: str, path: str, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
    connection = cli.client()._transport._connect(60)
    connection.request(method, path, body)
    response = connection.getresponse()
    told = json.loads(response.read())
    connection.close()
    return response.status, told


def test_a_failed_job_is_told_from_its_own_log(cli):
    cli("run", "--name", "wheel", "--", "sh", "-c", f"echo '{VISION}'; exit 1")
    done = cli("doctor", "--job", "wheel")
    assert done.returncode == 1
    assert b"job 1 (wheel): failed" in done.stdout and CAUSE.encode() in done.stdout
    told = cli.json("doctor", "--job", "wheel")
    answers.Diagnosis.model_validate(told)
    assert told["findings"][0]["cause"] == CAUSE
    assert told["attempt"]["cause"] == CAUSE
    assert told["findings"][0]["evidence_places"][0] == {"source": "log", "line": 1}  # our own lines do not count


def test_of_a_batch_the_first_that_failed(cli):
    run = f"  if [ $ANYCARD_ITEM = 1 ]; then echo '{VISION}'; exit 1; fi"
    script = f"name: batch\nrun: |\n{run}\nanycard:\n  foreach: {{matrix: {{n: [0, 1, 2]}}}}\n"
    cli("run", cli.file("batch.yaml", script))
    assert cli.json("doctor", "--job", "batch")["attempt"]["item"] == 1
    well = cli.json("doctor", "--job", "batch", "--item", "2")
    assert (well["verdict"], well["findings"]) == ("healthy", [])


def test_a_setup_that_failed_is_read_in_the_items_place(cli):
    cli("run", cli.file("setup.yaml", f"name: setup\nsetup: |\n  echo '{VISION}'; exit 3\nrun: 'true'\n"))
    told = cli.json("doctor", "--job", "setup")
    assert told["attempt"]["end_reason"] == "setup-failed"
    assert told["findings"][0]["cause"] == CAUSE


def test_a_programs_own_trouble_is_not_made_into_a_cards(cli):
    cli("run", "--name", "own", "--", "sh", "-c", "echo \"KeyError: 'x'\"; exit 4")
    done = cli("doctor", "--job", "own")
    assert done.returncode == 3
    assert b"anycard logs" in done.stdout
    assert cli.json("doctor", "--job", "own")["findings"] == []


def test_what_anycard_saw_itself_needs_no_guess(cli):
    cli("run", "--name", "late", "--time-limit", "1s", "--", "sleep", "60")
    told = cli.json("doctor", "--job", "late")
    assert told["verdict"] == "application"
    assert told["attempt"]["reason"] == "ran longer than its time limit"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--job", "no-such-job"), 3, b"there is no job"),
        (("--job", "waiting"), 3, b"has not started"),
        (("--job", "waiting", "--item", "7"), 3, b"has no item 7"),
        (("--item", "0"), 2, b"--item goes with --job"),
        (("--job", "waiting", "--fix"), 2, b"do not go together"),
        (("--from", "x", "--job", "waiting"), 2, b"do not go together"),
        (("--fix", "--json"), 2, b"--fix asks questions"),
    ],
)
def test_what_cannot_be_told_is_said(cli, arguments, code, words):
    cli("submit", "--hold", "--name", "waiting", "--", "true")
    done = cli("doctor", *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


def test_evidence_that_is_sent_is_judged_and_not_kept(cli, tmp_path):
    for body in (VISION.encode(), gzip.compress(VISION.encode())):
        status, told = send(cli, "POST", "/v1/doctor", body)
        assert status == 200
        answers.Diagnosis.model_validate(told)
        assert told["findings"][0]["cause"] == CAUSE
    bundle = tmp_path / "b.tar.gz"
    assert cli("capture", str(bundle)).returncode == 0
    status, told = send(cli, "POST", "/v1/doctor", bundle.read_bytes())
    assert (status, told["verdict"]) == (200, "healthy")  # a captured machine is examined as a whole


@pytest.mark.parametrize("body", [b"", b" \n", b"\x1f\x8bnot really", b"\x1f\x8b"])
def test_evidence_that_is_none_is_refused_in_words(cli, body):
    status, told = send(cli, "POST", "/v1/doctor", body)
    assert status == 400
    assert "anycard-evidence" not in told["error"]["message"]


def test_the_host_answers_for_itself(cli):
    status, told = send(cli, "GET", "/v1/doctor")
    assert status == 200
    answers.Diagnosis.model_validate(told)
    assert told["cards"]


def finding(certainty: float, verdict: str = "fault") -> dict[str, Any]:
    return {"cause": "x", "certainty": certainty, "verdict": verdict}


@pytest.mark.parametrize(
    ("findings", "end_reason", "verdict", "told"),
    [
        ([finding(0.9)], "succeeded", "fault", 1),  # ran, but not as it should: proof is told
        ([finding(0.5)], "succeeded", "healthy", 0),
        ([finding(0.9, "expected")], "program-error", "undecided", 0),
        ([finding(0.5)], "program-error", "undecided", 1),
        ([finding(0.2)], "program-error", "undecided", 0),
        ([], "cancelled", "expected", 0),
        ([], "card-lost", "fault", 0),
        ([], None, "undecided", 0),  # it runs
    ],
)
def test_the_verdict_agrees_with_the_end(findings, end_reason, verdict, told):
    seen = {"findings": findings, "verdict": "fault", "next_check": "x"}
    found = judged(seen, end_reason)
    assert (found["verdict"], len(found["findings"])) == (verdict, told)


def test_a_request_that_is_cut_off_harms_nobody(cli):
    connection = cli.client()._transport._connect(60)
    connection.putrequest("POST", "/v1/doctor")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"half")
    connection.close()
    assert send(cli, "GET", "/v1/status")[0] == 200
