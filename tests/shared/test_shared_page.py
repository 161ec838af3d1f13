"""The page of a shared daemon: each user's link is their own, and nobody does more on it than with the command line."""

from __future__ import annotations

import json

import pytest
from called import until
from visitor import Visitor


@pytest.fixture(scope="module")
def ann(team):
    visitor = Visitor(team.ann)
    visitor.log_in()
    return visitor


@pytest.fixture(scope="module")
def ben(team):
    visitor = Visitor(team.ben)
    visitor.log_in()
    return visitor


@pytest.fixture(scope="module")
def job(ann):
    """Submitted by ann on the page."""
    form = {
        "kind": "command",
        "command": 'id -un; echo private > "$ANYCARD_OUTPUT_DIR/x"; sleep 600',
        "submit_key": "k" * 20,
    }
    answer = ann.post("/submit", **form)
    assert answer.status == 303, answer.text
    return int(answer.headers["Location"].rpartition("/")[2])


def test_a_job_of_the_page_runs_as_who_logged_in(team, ann, job):
    lines = until(lambda: [line for line, _ in ann.ask(f"/jobs/{job}/log/0").json["lines"] if not line.startswith("[")])
    assert lines == [team.ann.name]
    found = team.ann.json("job", str(job))
    assert found["user"] == team.ann.name


def test_others_see_that_it_is_there_and_not_what_is_in_it(team, ben, job):
    text = ben.ask(f"/jobs/{job}").text
    assert team.ann.name in text and "data-log" not in text and "private" not in text
    for path in (
        "log/0",
        "log/0/raw",
        "log/0/find?q=a",
        "outputs",
        "outputs/0/x",
        "events",
        "items",
        "failed",
        "report",
        "readings",
    ):
        assert ben.ask(f"/jobs/{job}/{path}").status == 403, path
    assert ben.ask(f"/page/stream?topics=log:{job}:0").status == 403


def test_others_follow_its_state_and_not_its_items(team, ben, job):
    connection = ben.connect()
    connection.request("GET", f"/page/stream?topics=job:{job}", headers={"Cookie": ben.cookie})
    answer = connection.getresponse()
    told = next(line for line in iter(answer.readline, b"") if line.startswith(b"data: "))
    connection.close()
    assert json.loads(told[6:])["items"] == []


@pytest.mark.parametrize("action", ["cancel", "hold", "retry"])
def test_others_cannot_act_on_it(team, ben, job, action):
    assert ben.post(f"/jobs/{job}/{action}").status == 403
    assert team.ann.json("job", str(job))["state"] in ("queued", "running")


def test_its_owner_cancels_it(team, ann, job):
    assert ann.post(f"/jobs/{job}/cancel").status == 303
    until(lambda: team.ann.json("job", str(job))["state"] == "cancelled")


def test_sessions_are_closed_to_users(team):
    assert not team.ann.may_read(team.root.home / "page-sessions")
