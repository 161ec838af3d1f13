"""Whatever comes in: never a 500, always {"error": ..., "faults": [...]}, and the daemon goes on."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rawhttp import ask, connect, read_answer

BASE = {"cwd": "/tmp", "command": ["true"], "options": {"held": True}}
HUGE = 10**30


def submission(**changed):
    made = {**BASE, "submit_key": os.urandom(8).hex(), **changed}
    return {name: value for name, value in made.items() if value is not None}


def refused(answer) -> bool:
    found = answer.json
    assert answer.status < 500, found
    assert answer.status >= 400, found
    assert set(found) == {"error", "faults"}
    assert found["error"]["message"]
    assert isinstance(found["faults"], list)
    return True


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("DELETE", "/v1/jobs", 405),
        ("GET", "/v1/jobs?limit=-1", 422),
        ("GET", "/v1/jobs?limit=0", 422),
        ("GET", f"/v1/jobs?limit={HUGE}", 422),
        ("GET", "/v1/jobs?cursor=-5", 400),
        ("GET", f"/v1/jobs?cursor={HUGE}", 400),
        ("GET", "/v1/jobs?state=zz", 400),
        ("GET", "/v1/jobs/%00", 404),
        ("GET", "/v1/jobs/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/v1/jobs/../../etc/passwd", 404),
        ("GET", "/v1/jobs/%ff%fe", 404),
        ("GET", f"/v1/jobs/{HUGE}", 404),
        ("GET", "/v1/jobs/-1", 404),
        ("GET", f"/v1/jobs/1/log?item={HUGE}", 422),
        ("GET", "/v1/jobs/1/log?item=-5", 422),
        ("GET", f"/v1/jobs/1/log?attempt={HUGE}", 422),
        ("GET", "/v1/jobs/1/log?attempt=9007199254740992", 404),
        ("GET", "/v1/jobs/1/log?tail=-1", 422),
        ("GET", f"/v1/jobs/1/events?after={HUGE}", 422),
        ("GET", "/v1/jobs/1/events?after=-1", 422),
        ("GET", "/v1/jobs/none/items?cursor=x", 404),
    ],
)
def test_addresses(cli, method, path, status):
    answer = ask(cli.home, method, path)
    assert refused(answer)
    assert answer.status == status


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"\\ud800": 1}', b"1" * 10_000, b"NaN"],
    ids=lambda body: ascii(body[:12]),
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/prune", "/v1/backup", "/v1/jobs/1/retry"])
def test_bodies_that_are_no_request(cli, path, body):
    assert refused(ask(cli.home, "POST", path, body))


@pytest.mark.parametrize(
    "changed",
    [
        {"bogus": 1},
        {"name": "\ud800"},
        {"name": "a\0b"},
        {"command": ["x\0y"]},
        {"command": []},
        {"command": "true"},
        {"env": {"PATH": "\0"}},
        {"env": {"PATH": 5}},
        {"given": {"\ud800": "x"}},
        {"cwd": "relative"},
        {"cwd": "/\0"},
        {"cwd": "/no/such/folder"},
        {"umask": -1},
        {"umask": HUGE},
        {"submit_key": "../../../../tmp/x"},
        {"submit_key": "a/b/c/d/e/f"},
        {"submit_key": "x"},
        {"options": {"nope": 1}},
        {"options": {"cpus": -1}},
        {"options": {"cpus": float("nan")}},
        {"options": {"cpus": float("inf")}},
        {"options": {"priority": HUGE}},
        {"options": {"held": "maybe"}},
        {"options": []},
        {"file": "run: true", "command": ["true"]},
        {"command": None},
        {"command": None, "file": "run: [\n"},
        {"command": None, "file": "\0"},
        {"command": None, "file": "a: " * 2000},
        {"command": None, "file": "{" * 5000},
        {"command": None, "file": "run: x\nanycard: {foreach: {lines: /dev/zero}}"},
    ],
    ids=lambda changed: ascii(changed)[:60],
)
def test_submissions(cli, changed):
    with cli.client() as client:
        before = client.jobs(limit=1)["jobs"][:1]
        assert refused(ask(cli.home, "POST", "/v1/jobs", submission(**changed)))
        assert client.jobs(limit=1)["jobs"][:1] == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/jobs/1/cancel", {"item": -1}),
        ("/v1/jobs/1/cancel", {"item": "1"}),
        ("/v1/jobs/1/cancel", {"x": 1}),
        ("/v1/jobs/1/retry", {"items": [HUGE]}),
        ("/v1/jobs/1/retry", {"items": []}),
        ("/v1/prune", {"older_than_s": -1}),
        ("/v1/prune", {"older_than_s": float("inf")}),
        ("/v1/prune", {"older_than_s": 1e6, "dry_run": 0}),
        ("/v1/prune", {"older_than_s": 1e6, "dry-run": True}),
        ("/v1/backup", {"path": "relative"}),
        ("/v1/backup", {"path": "/"}),
        ("/v1/backup", {"path": "/etc/passwd"}),
        ("/v1/backup", {"path": "/tmp/x\0"}),
        ("/v1/backup", {"path": "/no/such/folder/x"}),
        ("/v1/down", {"attempts": "kill"}),
    ],
    ids=str,
)
def test_actions(cli, path, body):
    cli.over(cli.submit("run: 'true'\n"))
    assert refused(ask(cli.home, "POST", path, body))


def test_a_job_whose_name_is_a_number_does_not_hide_the_job_of_that_number(cli):
    first = cli.submit("run: 'true'\n", options={"held": True})
    answer = ask(cli.home, "POST", "/v1/jobs", submission(name=str(first)))
    if answer.status == 201:
        assert ask(cli.home, "GET", f"/v1/jobs/{first}").json["id"] == first
    else:
        assert refused(answer)


def test_a_body_has_a_limit_whether_its_length_is_told_or_not(cli):
    told = ask(cli.home, "POST", "/v1/jobs", b" ", headers="")
    assert told.status in (400, 422)
    with connect(cli.home) as connection:
        connection.sendall(
            b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n{"
        )
        answer = read_answer(connection)
    assert answer is not None
    assert refused(answer)
    assert answer.status == 413
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with connect(cli.home) as connection:
        connection.sendall(
            b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        try:
            for _ in range(60):
                connection.sendall(chunk)
        except OSError:
            pass  # it has heard enough
        answer = read_answer(connection)
    assert answer is not None
    assert answer.status == 413


@pytest.mark.parametrize("endless", [b"GET /v1/status HTTP/1.1\r\nX: ", b"GET /", b"GET / HTTP/1.1\r\n"])
def test_a_head_has_an_end(cli, endless):
    filling = b"X: y\r\n" * 10_000 if endless.endswith(b"\r\n") else b"a" * 60_000
    with connect(cli.home) as connection:
        connection.sendall(endless)
        try:
            for _ in range(200):
                connection.sendall(filling)
        except OSError:
            return  # closed on us
        answer = read_answer(connection)
    assert answer is None or answer.status == 400


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /v1/jobs/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET http://[::1/v1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n\r\n",
    ],
    ids=lambda noise: ascii(noise[:20]),
)
def test_noise_is_a_bad_request(cli, noise):
    with connect(cli.home) as connection:
        connection.sendall(noise)
        answer = read_answer(connection)
    assert answer is None or answer.status == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("file", "file_name", "command", "name", "cwd", "env", "umask", "options", "given", "submit_key", "other")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1, max_size=2))
def test_any_value_in_any_field(cli, changes):
    answer = ask(cli.home, "POST", "/v1/jobs", json.dumps({**submission(), **changes}).encode())
    assert answer.status == 201 or refused(answer)


NAMES = ("cpus", "memory", "accelerators", "priority", "time_limit", "held", "name", "parallel", "retry", "x")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=st.dictionaries(st.sampled_from(NAMES), JSON, min_size=1, max_size=2))
def test_any_option(cli, options):
    answer = ask(cli.home, "POST", "/v1/jobs", json.dumps(submission(options={**options, "held": True})).encode())
    assert answer.status == 201 or refused(answer)


def test_after_all_that_it_still_works(cli):
    assert cli.ran("run: 'true'\n")["state"] == "succeeded"
