"""The one event stream of a page: what it tells, and that a page which comes back misses nothing and gets nothing twice."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import quote

import pytest

SLOW = """
run: |
  for n in $(seq 1 {lines}); do echo "line $n"; sleep 0.05; done
"""


class Stream:
    """An open event stream, read event by event."""

    def __init__(self, visitor, topics: str, last: str = "", header: str = "") -> None:
        self.connection = http.client.HTTPConnection(visitor.netloc, timeout=60)
        headers = {"Cookie": visitor.cookie} | ({"Last-Event-ID": header} if header else {})
        self.connection.request("GET", f"/page/stream?topics={quote(topics)}&last={quote(last)}", headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.last = ""

    def events(self) -> Iterator[tuple[str, dict]]:
        fields: dict[str, str] = {}
        while True:
            line = self.answer.readline()
            if not line:
                return
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                self.last = fields["id"]
                yield fields["event"], json.loads(fields["data"])
                fields = {}

    def close(self) -> None:
        self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def lines_of(events: list[dict]) -> list[str]:
    return [line for part in events for line, _ in part["lines"] if line.startswith("line ")]


def test_a_log_broken_off_again_and_again_comes_whole(cli, visitor):
    job = cli.submit(SLOW.format(lines=60))
    got: list[dict] = []
    last = ""
    for round_ in range(200):
        stream = Stream(visitor, f"log:{job}:0", **({"header": last} if round_ % 2 else {"last": last}))
        for number, (topic, part) in enumerate(stream.events()):
            assert topic == f"log:{job}:0"
            got.append(part)
            if number >= 2 or (part["lines"] and "[anycard] ended" in part["lines"][-1][0]):
                break
        last = stream.last or last
        stream.close()
        if any("[anycard] ended" in line for part in got for line, _ in part["lines"]):
            break
    assert lines_of(got) == [f"line {n}" for n in range(1, 61)]


def test_a_job_tells_of_its_items_and_its_end(cli, visitor):
    job = cli.submit("run: exit $((ANYCARD_INDEX % 2))\nanycard: {foreach: {count: 6}}", options={"held": True})
    stream = Stream(visitor, f"job:{job},queue")
    with cli.client() as client:
        client.release(job)
    states: dict[int, str] = {}
    topics, state = set(), ""
    for topic, news in stream.events():
        topics.add(topic)
        if topic == f"job:{job}":
            states |= dict(news["items"] or ())
            state = news["state"]
        if state == "partly-failed" and "queue" in topics:
            break
    stream.close()
    assert states == {n: "failed" if n % 2 else "succeeded" for n in range(6)}


def test_who_was_away_is_told_to_look_again(cli, visitor):
    job = cli.submit("run: 'true'", options={"held": True})
    stream = Stream(visitor, f"job:{job}")
    with cli.client() as client:
        client.release(job)
    next(stream.events())
    seen = stream.last
    stream.close()
    cli.over(job)
    back = Stream(visitor, f"job:{job}", last=seen)
    _, news = next(back.events())
    back.close()
    assert news["items"] is None and news["state"] == "succeeded"


def test_readings_come_each_second(visitor):
    stream = Stream(visitor, "cards")
    ticks = []
    for _, tick in stream.events():
        ticks.append(tick)
        if len(ticks) == 3:
            break
    stream.close()
    assert len({tick["at"] for tick in ticks}) == 3
    assert all("cpu" in {reading["card"] for reading in tick["readings"]} for tick in ticks)


def test_a_retried_item_goes_on_in_the_log_of_its_next_attempt(cli, visitor):
    job = cli.submit(
        'run: echo "line $ANYCARD_ATTEMPT"; test $ANYCARD_ATTEMPT = 2\nanycard: {retry: {times: 1, wait: 1s}}'
    )
    stream = Stream(visitor, f"log:{job}:0")
    got = []
    for _, part in stream.events():
        got.append(part)
        if "line 2" in lines_of(got):
            break
    stream.close()
    assert lines_of(got) == ["line 1", "line 2"]
    assert [part["attempt"] for part in got] == sorted(part["attempt"] for part in got)


@pytest.mark.parametrize(
    "topics",
    [
        "",
        "nothing",
        "log:1",
        "log:1:x",
        "job:none",
        ",".join(f"job:{n}" for n in range(30)),
        "log:none:0",
        "log:1:9999",
        "log:1:99999999999999999999",
        "log:1:0:99999999999999999999",
    ],
)
def test_topics_that_are_none(visitor, topics):
    assert 400 <= visitor.ask(f"/page/stream?topics={topics}").status < 500


@pytest.mark.parametrize("last", ["x", "log%3A1%3A0=9999999999999999999.1", "=&=;", "queue=%ff", "a" * 3000])
def test_marks_that_are_none_begin_anew(cli, visitor, last):
    job = cli.ran("run: echo line 1")["id"]
    stream = Stream(visitor, f"log:{job}:0", last=last.replace("%3A1%3A", f":{job}:"))
    _, part = next(stream.events())
    stream.close()
    assert lines_of([part]) == ["line 1"]
