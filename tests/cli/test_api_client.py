"""The Python client against a real daemon."""

from __future__ import annotations

import threading

import pytest

from anycard.api.client import Client
from anycard.api.submission import submission
from anycard.api.transport import NoDaemonError
from anycard.errors import ConflictError, ForbiddenError, NotFoundError, UsageError


@pytest.fixture(scope="module")
def up(cli):
    assert cli("up", "-d").returncode == 0
    return cli


@pytest.fixture
def client(up):
    with Client(up.home) as connected:
        yield connected


def test_the_same_submission_twice_is_one_job(client):
    body = submission(command=["true"], options={"held": True})
    first, second = client.submit_body(body), client.submit_body(body)
    assert first["jobs"] == second["jobs"]
    assert client.cancel(first["jobs"][0]["id"])["state"] == "cancelled"


def test_many_submissions_are_answered_in_order(client):
    bodies = [submission(command=["true"], name=f"many-{number}", options={"held": True}) for number in range(40)]
    answers = client.submit_many(bodies)
    assert [answer["jobs"][0]["name"] for answer in answers] == [body["name"] for body in bodies]
    assert client.submit_many([]) == []


def test_of_many_submissions_the_first_error_is_raised_and_the_others_are_in(client):
    good = submission(command=["true"], name="good-one", options={"held": True})
    bad = submission(text="no_such_key: 1", file="bad.yaml")
    with pytest.raises(UsageError) as raised:
        client.submit_many([good, bad, bad])
    assert raised.value.faults[0]["line"] == 1
    assert client.job("good-one")["held"] is True


def test_a_kept_connection_survives_a_new_daemon(up, client):
    job = client.submit(command=["true"], options={"held": True})["jobs"][0]["id"]
    up("down")
    assert up("up", "-d").returncode == 0
    assert client.job(job)["id"] == job
    up("down")
    with pytest.raises(NoDaemonError) as none:
        client.jobs()
    assert (none.value.code, none.value.exit_code) == ("unavailable", 125)
    assert up("up", "-d").returncode == 0
    assert client.hold(job)["held"] is True


def test_a_watched_job_ends_the_stream(client):
    job = client.submit(command=["sh", "-c", "echo one; echo two"])["jobs"][0]["id"]
    states = [line["job"]["state"] for line in client.watch(job)]
    assert states[-1] == "succeeded"
    assert b"one\ntwo\n" in b"".join(client.log(job))
    assert b"".join(client.log(job, tail=2)).startswith(b"two\n")
    assert [event["job_id"] for event in client.events(job)["events"]]


def test_a_log_is_followed_while_it_is_written(up, client):
    go = up.folder / "go"
    job = client.submit(command=["sh", "-c", f"echo one; while [ ! -e {go} ]; do sleep 0.1; done; echo two"])["jobs"][
        0
    ]["id"]
    seen = b""
    for chunk in client.log(job, follow=True):
        seen += chunk
        if b"one\n" in seen:
            go.touch()
    assert b"one\ntwo\n" in seen


def test_items_come_page_by_page(client):
    answer = client.submit(text="run: 'true'\nanycard: {foreach: {count: 1203}}\n", options={"held": True})
    job = answer["jobs"][0]
    assert job["n_items"] == 1203
    assert [item["item"] for item in client.all_items(job["id"])] == list(range(1203))
    assert client.cancel(job["id"], item=7)["counts"]["cancelled"] == 1
    client.cancel(job["id"])
    with pytest.raises(ConflictError):
        client.hold(job["id"])


def test_errors_are_anycards(client):
    with pytest.raises(NotFoundError) as missing:
        client.job("no such job")
    assert missing.value.params == {"ref": "no such job"}
    assert "no such job" in str(missing.value)
    with pytest.raises(UsageError):
        client.submit()
    with pytest.raises(UsageError):
        client.submit(command=["true"], cwd="relative")


def test_what_is_no_command_or_path_is_refused_before_it_is_sent(client):
    with pytest.raises(UsageError, match="list of arguments"):
        client.submit(command="echo hi")
    with pytest.raises(UsageError, match="path of a job file"):
        client.submit("name: x\nrun: echo hi\n")


def test_names_in_an_address_are_names(client):
    for name in ("../status", "a/b", "?x", "日本", "%2e"):
        with pytest.raises(NotFoundError):
            client.job(name)


def test_each_thread_may_have_its_own_client(up):
    found: list[int] = []

    def look() -> None:
        with Client(up.home) as own:
            found.append(own.status()["pid"])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_loopback_needs_the_token(fresh):
    told = fresh.json("up", "-d", "--port", "0")
    url, token = told["url"], told["token"]
    assert token not in (fresh.home / "daemon.log").read_text()
    with Client(url=url, token=token) as client:
        assert client.status()["home"] == str(fresh.home)
    with Client(url=url, token="wrong") as client, pytest.raises(ForbiddenError):
        client.status()
    over_tcp = fresh("status", "--json", env={"ANYCARD_URL": url, "ANYCARD_TOKEN": token})
    assert over_tcp.returncode == 0
    with pytest.raises(UsageError):
        Client(url="ftp://x", token=token).status()


def test_what_is_sent_of_the_environment(tmp_path):
    env = {"PATH": "/bin", "SECRET_TOKEN": "x", "LC_TIME": "C", "VIRTUAL_ENV": "/v", "HOME": "/h\udcff"}
    body = submission(command=["true"], cwd=tmp_path, env=env)
    assert body["env"] == {"PATH": "/bin", "LC_TIME": "C", "VIRTUAL_ENV": "/v"}
    with pytest.raises(UsageError):
        submission(command=["\udcff"], cwd=tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError):
        submission(tmp_path / "binary")
    with pytest.raises(NotFoundError):
        submission(tmp_path / "missing")
