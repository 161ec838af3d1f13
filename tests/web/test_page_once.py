"""Buttons do a thing once, whoever presses them how often; a job of one item is called by its job alone."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest


@pytest.fixture(scope="module")
def failed(cli: Any) -> int:
    return int(cli.ran("run: exit 3\nanycard: {foreach: {count: 2}}")["id"])


def _fields(page: str, form: str) -> dict[str, str]:
    """The hidden fields of the first form that goes to ``form``."""
    inside = page.partition(f'action="{form}"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', inside))


def _attempts(cli: Any, job: int) -> list[int]:
    return [item["attempts"] for item in cli.over(job)["items"]]


def test_retry_pressed_twice_retries_once(cli: Any, visitor: Any, failed: int) -> None:
    """Two tabs, or a page that the back button brought again: both hold the form of the first end."""
    fields = _fields(visitor.ask(f"/jobs/{failed}").text, f"/jobs/{failed}/retry")
    assert set(fields) == {"csrf", "seen"}
    first = visitor.ask(f"/jobs/{failed}/retry", fields)
    assert (first.status, first.headers["Location"]) == (303, f"/jobs/{failed}?said=retried")
    assert _attempts(cli, failed) == [2, 2]
    again = visitor.ask(f"/jobs/{failed}/retry", fields)
    assert (again.status, again.headers["Location"]) == (303, f"/jobs/{failed}?said=already")
    assert _attempts(cli, failed) == [2, 2]
    assert "Nothing was done" in visitor.ask(again.headers["Location"]).text
    assert "Queued again" in visitor.ask(first.headers["Location"]).text


def test_retry_of_one_item_pressed_twice_retries_it_once(cli: Any, visitor: Any) -> None:
    job = cli.ran("run: exit 3\nanycard: {foreach: {count: 2}}")["id"]
    page = visitor.ask(f"/jobs/{job}").text.partition('id="failed"')[2]
    fields = _fields(page, f"/jobs/{job}/retry")
    assert fields["item"] == "0" and fields["seen"]
    assert visitor.ask(f"/jobs/{job}/retry", fields).headers["Location"] == f"/jobs/{job}?said=retried&item=0"
    assert _attempts(cli, job) == [2, 1]
    assert visitor.ask(f"/jobs/{job}/retry", fields).headers["Location"] == f"/jobs/{job}?said=already"
    assert _attempts(cli, job) == [2, 1]
    assert [event["kind"] for event in cli.events(job)].count("job.retried") == 1


def test_cancel_pressed_twice_ends_it_once(cli: Any, visitor: Any) -> None:
    job = cli.submit("run: sleep 600")
    said = [visitor.post(f"/jobs/{job}/cancel").headers["Location"] for _ in range(2)]
    assert said[0] == f"/jobs/{job}?said=cancelled"
    assert cli.over(job)["state"] == "cancelled"
    assert visitor.post(f"/jobs/{job}/cancel").headers["Location"] == f"/jobs/{job}?said=already"
    stopped = [event for event in cli.events(job) if event["kind"] == "attempt.stopping"]
    assert len(stopped) <= 1


def test_an_old_token_does_nothing_and_says_so(cli: Any, visitor: Any, failed: int) -> None:
    before = _attempts(cli, failed)
    answer = visitor.ask(f"/jobs/{failed}/retry", {"csrf": "of-a-session-that-ended"})
    assert answer.status == 403 and "Nothing was done" in answer.text
    assert _attempts(cli, failed) == before


def test_a_double_click_sends_a_form_once(tab: Any, cli: Any) -> None:
    job = cli.ran("run: exit 3\nanycard: {foreach: {count: 2}}")["id"]
    sent: list[str] = []
    tab.on("request", lambda asked: sent.append(asked.url) if asked.method == "POST" else None)
    tab.goto(f"{tab.address}/jobs/{job}")
    tab.locator("#retry").dblclick()
    tab.locator("#said").wait_for()
    assert "Queued again" in tab.locator("#said").inner_text()
    assert len(sent) == 1
    cli.over(job)
    tab.go_back()
    tab.locator("#retry").wait_for()
    tab.locator("#retry").click()
    tab.locator("#said").wait_for()
    assert len(sent) == 2, "a page that one comes back to can be used"


def test_a_job_of_one_item_goes_without_its_number(cli: Any, visitor: Any) -> None:
    job = cli.ran('run: echo out > "$ANYCARD_OUTPUT_DIR/x"')["id"]
    batch = cli.ran("run: 'true'\nanycard: {foreach: {count: 2}}")["id"]
    with cli.client() as client:
        assert f"job {job} (" in (head := b"".join(client.log(job)).decode()) and "item 0" not in head
        assert "item 1 attempt 1" in b"".join(client.log(batch, 1)).decode()
    for path in (f"/jobs/{job}", f"/jobs/{job}/outputs", f"/jobs/{job}/events?one=1", f"/doctor/jobs/{job}"):
        assert not re.search(r"item 0", visitor.ask(path).text, re.IGNORECASE), path
    assert "item 0" in visitor.ask(f"/jobs/{batch}/events").text

    failing = cli.ran("run: exit 3")["id"]
    told = json.loads(cli("doctor", "--json", "--job", str(failing)).stdout)["attempt"]
    assert (told["items"], told["item"]) == (1, 0)
    assert ", item 0" not in cli("doctor", "--job", str(failing)).stdout.decode()
