"""The published document, and real answers held against it."""

from __future__ import annotations

import json

import pytest
from called import until
from pydantic import BaseModel
from rawhttp import ask

from anycard.api import answers

BATCH = """
name: batch
run: |
  test "$ANYCARD_INDEX" != 1 || exit 3
  echo done > "$ANYCARD_OUTPUT_DIR/x"
anycard: {foreach: {count: 3}}
"""


def check(shape: type[BaseModel], value: object) -> None:
    """The answer has exactly the fields of the published shape, of its types."""
    shape.model_validate_json(json.dumps(value), strict=True)


@pytest.fixture(scope="module")
def batch(cli):
    return cli.ran(BATCH)["id"]


def test_what_is_answered_is_what_is_published(cli, batch, tmp_path):
    with cli.client() as client:
        check(answers.Submitted, client.submit(command=["true"], options={"held": True}))
        many = [
            {"command": ["true"], "cwd": "/", "submit_key": f"many-{n}-0000", "options": {"held": True}}
            for n in range(2)
        ]
        wrong = {"file": "nonsense: 1", "cwd": "/", "submit_key": "many-wrong"}
        told = ask(cli.home, "POST", "/v1/jobs/batch", {"submissions": [many[0], wrong, many[1]]}).json
        check(answers.SubmittedMany, told)
        assert ["jobs" in answer for answer in told["answers"]] == [True, False, True]
        check(answers.JobsPage, client.jobs())
        check(answers.JobsPage, client.jobs(limit=1))
        check(answers.Job, client.job(batch))
        check(answers.ItemsPage, client.items(batch, limit=2))
        check(answers.EventsPage, client.events(batch, limit=2))
        check(answers.Report, client.report(batch))
        for line in client.watch(batch):
            check(answers.News, line)
        check(answers.Cards, client.cards())
        check(answers.Sizing, client.sizing())
        check(answers.Status, client.status())
        check(answers.Pruned, client.prune(older_than_s=1e6, dry_run=True))
        check(answers.BackedUp, client.backup(tmp_path / "backup.db"))
        check(answers.Job, client.retry(batch))
        check(answers.Job, client.hold(client.submit(command=["true"], options={"held": True})["jobs"][0]["id"]))
    cli.submit("name: first\nrun: 'true'\n", options={"held": True})
    waiting = cli.submit("run: 'true'\nanycard: {after: [first]}\n")
    with cli.client() as client:
        job = client.job(waiting)
        check(answers.Job, job)
        assert job["reason"]
        check(answers.Job, client.cancel(waiting))
    check(answers.Problem, ask(cli.home, "GET", "/v1/jobs/no-such-job").json)


def test_the_document_says_every_call_and_its_answer(cli):
    document = ask(cli.home, "GET", "/v1/openapi.json").json
    assert document["openapi"].startswith("3.")
    calls = {(method, path): call for path, methods in document["paths"].items() for method, call in methods.items()}
    assert {("get", "/metrics"), ("post", "/v1/jobs"), ("get", "/v1/jobs/{ref}/report")} <= set(
        calls
    )  # all: tests/docs
    for (method, path), call in calls.items():
        good = next(status for status in call["responses"] if status.startswith("2"))
        content = call["responses"][good]["content"]
        if path.endswith(("/log", "/metrics")):
            assert "text/plain" in content
            continue
        kind = "application/x-ndjson" if path.endswith("/watch") else "application/json"
        assert "$ref" in json.dumps(content[kind]["schema"]), (method, path)
        assert call["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
        assert call.get("description"), path
    names = set(document["components"]["schemas"])
    for reference in _references(document):
        assert reference.removeprefix("#/components/schemas/") in names


def _references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def test_file_names_that_are_no_text_are_shown(cli):
    odd = cli.folder / "odd"
    odd.mkdir(exist_ok=True)
    with open(bytes(odd) + b"/caf\xe9.csv", "wb") as file:
        file.write(b"1\n")
    done = cli.ran('run: cat "$ANYCARD_FILE"\nanycard: {foreach: {files: odd/*.csv}}\n')
    assert done["state"] == "succeeded", done
    assert cli.log(done["id"]) == b"1\n"


def test_a_watched_job_says_each_change_once_it_is_there(cli):
    job = cli.submit("run: 'true'\nanycard: {foreach: {count: 2}}\n")
    with cli.client() as client:
        lines = list(client.watch(job))
    assert lines[-1]["job"]["state"] == "succeeded"
    last = {item["item"]: item["state"] for line in lines for item in line["items"]}
    assert set(last.values()) <= {"starting", "running", "succeeded"}
    until(lambda: cli.over(job)["counts"]["succeeded"] == 2)
