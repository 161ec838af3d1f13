"""Sending: retries, redirects, slow receivers, places in the log, secrets; with a real server and a real store."""

from __future__ import annotations

import json
import logging
import ssl
import stat
import time
from pathlib import Path

import pytest

from anycard.config import Paths
from anycard.errors import UnavailableError
from anycard.jobs.hooks.notice import Notice
from anycard.jobs.hooks.post import post
from anycard.jobs.hooks.sender import Sender, place_file, send
from anycard.jobs.hooks.settings import Hook, Kind, Shape, settings
from anycard.jobs.hooks.shapes import Message, Verdict, message
from anycard.model.text import Text
from anycard.store.changes import Changes
from anycard.store.engine import Store

TOKEN = "s3cr3t-t0ken"


def hook(receiver, **given) -> Hook:
    return settings({"hooks": [{"url": f"{receiver.url}/{TOKEN}", "name": "team", **given}]}).hooks[0]


def lost(number: int) -> Notice:
    return Notice(number, Kind.CARD_LOST, 0.0, Text("card lost on {host}: {model} ({card})", {"host": "h"}))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


@pytest.fixture
def store(paths: Paths):
    opened = Store.open(paths)
    yield opened
    opened.close()


@pytest.fixture
def sending(paths, store):
    """Starts a sender that retries at once; all are stopped at the end."""
    running: list[Sender] = []

    def start(*hooks: Hook, retries_s=(0.01, 0.01)) -> Sender:
        sender = Sender(paths, store, hooks, look_s=0.02, retries_s=retries_s)
        sender.start()
        running.append(sender)
        return sender

    yield start
    for sender in running:
        sender.stop()


def happen(store: Store, *kinds: str, at: float | None = None) -> None:
    changes = Changes()
    for number, kind in enumerate(kinds):
        changes.event(
            {"at": time.time() if at is None else at, "boot_s": 1.0, "boot_id": "b", "kind": kind, "tenant": "default",
             "user": "anycard", "job_id": None, "item": None, "attempt_id": None,
             "data_json": json.dumps({"card": f"nvidia:GPU-{number}", "model": "A100"})}
        )  # fmt: skip
    store.commit(changes)


def followed(paths: Paths, hook: Hook, wait) -> None:
    """Until the hook stands somewhere in the log: what happens now is news to it."""
    wait(lambda: place_file(paths, hook).exists())


def test_only_what_is_new_and_wanted_is_told(receiver, paths, store, sending, wait):
    happen(store, "card.lost")  # before anybody listened
    only_lost = hook(receiver, on=["card-lost"])
    sending(only_lost)
    happen(store, "job.held")
    followed(paths, only_lost, wait)
    happen(store, "card.hot", "card.lost", "item.ended", "card.lost")
    wait(lambda: len(receiver.posts) == 2)
    assert [post.json["kind"] for post in receiver.posts] == ["card-lost", "card-lost"]
    assert [post.json["card"]["id"] for post in receiver.posts] == ["nvidia:GPU-1", "nvidia:GPU-3"]
    assert receiver.posts[0].path == f"/{TOKEN}"


def test_a_place_survives_a_restart_and_nothing_is_lost_between(receiver, paths, store, sending, wait):
    team = hook(receiver)
    happen(store, "job.held")
    first = sending(team)
    followed(paths, team, wait)
    happen(store, "card.lost")
    wait(lambda: place_file(paths, team).read_text() == "2\n")
    first.stop()
    happen(store, "card.hot")
    sending(team)
    wait(lambda: len(receiver.posts) == 2)
    assert [post.json["kind"] for post in receiver.posts] == ["card-lost", "too-hot"]
    assert stat.S_IMODE(place_file(paths, team).stat().st_mode) == 0o600
    assert stat.S_IMODE(place_file(paths, team).parent.stat().st_mode) == 0o700


def test_it_tries_again_and_gives_up_in_the_end(receiver, paths, store, sending, wait, caplog):
    caplog.set_level(logging.INFO, "anycard.hooks")
    place_file(paths, hook(receiver)).parent.mkdir()
    place_file(paths, hook(receiver)).write_text("0\n")
    receiver.answers = [(500, b"", {})] * 2 + [(200, b"", {})] + [(503, b"", {})] * 3
    sending(hook(receiver))
    happen(store, "card.lost", "card.hot", "card.lost")
    wait(lambda: len(receiver.posts) == 7)
    ids = [post.json["id"] for post in receiver.posts]
    assert ids == [1, 1, 1, 2, 2, 2, 3]  # the second is given up, the third is told
    wait(lambda: place_file(paths, hook(receiver)).read_text() == "3\n")
    assert "were not taken: HTTP 503" in caplog.text
    assert TOKEN not in caplog.text and receiver.url.removeprefix("http://") not in caplog.text


def test_what_is_refused_is_not_tried_again(receiver, paths, store, sending, wait):
    receiver.answers = [(404, b"no_team", {}), (302, b"", {"Location": f"{receiver.url}/elsewhere"})]
    place_file(paths, hook(receiver)).parent.mkdir()
    place_file(paths, hook(receiver)).write_text("0\n")
    sending(hook(receiver))
    happen(store, "card.lost", "card.hot", "card.lost")
    wait(lambda: len(receiver.posts) == 3)
    assert [post.json["id"] for post in receiver.posts] == [1, 2, 3]
    assert {post.path for post in receiver.posts} == {f"/{TOKEN}"}  # nobody went to where the redirect points
    assert receiver.asked == []


def test_a_chat_that_was_away_gets_one_message(receiver, paths, store, sending, wait):
    chat = hook(receiver, shape="wecom")
    receiver.body = b'{"errcode":0,"errmsg":"ok"}'
    place_file(paths, chat).parent.mkdir()
    place_file(paths, chat).write_text("0\n")
    happen(store, *["card.lost"] * 30)
    sending(chat)
    wait(lambda: place_file(paths, chat).read_text() == "30\n")
    (only,) = receiver.posts
    assert only.json["text"]["content"].splitlines()[-1].endswith("more")


def test_old_news_is_not_told(receiver, paths, store, sending, wait):
    place_file(paths, hook(receiver)).parent.mkdir()
    place_file(paths, hook(receiver)).write_text("0\n")
    happen(store, *["card.lost"] * 250, at=time.time() - 7200)
    happen(store, "card.hot")
    sending(hook(receiver))
    wait(lambda: receiver.posts)
    assert receiver.posts[0].json["kind"] == "too-hot"


def test_a_place_beyond_the_log_is_one_of_another_store(receiver, paths, store, sending, wait):
    place_file(paths, hook(receiver)).parent.mkdir()
    place_file(paths, hook(receiver)).write_text("4711\n")
    sending(hook(receiver))
    happen(store, "job.held")
    wait(lambda: place_file(paths, hook(receiver)).read_text() == "1\n")
    happen(store, "card.lost")
    wait(lambda: receiver.posts)


def test_one_that_hangs_keeps_no_other_from_its_news(receiver, paths, store, sending, wait):
    dead = Hook("dead", "127.0.0.1:9", url="http://127.0.0.1:9/x")
    for one in (dead, hook(receiver)):
        place_file(paths, one).parent.mkdir(exist_ok=True)
        place_file(paths, one).write_text("0\n")
    sender = sending(dead, hook(receiver), retries_s=(3600.0,))
    happen(store, "card.lost", "card.hot")
    wait(lambda: len(receiver.posts) == 2)
    sender.stop()  # ends also the one that waits for an hour
    wait(lambda: not any(thread.is_alive() for thread in sender._threads))
    assert place_file(paths, dead).read_text() == "0\n"  # told after the restart


def test_an_answer_without_end_is_cut_off(receiver):
    sent = message(hook(receiver), [lost(1)], 0.0)
    receiver.drips = "head"
    with pytest.raises(UnavailableError, match=r"none within 0\.5 s") as error:
        post(sent, time_limit_s=0.5)
    assert TOKEN not in str(error.value)
    receiver.drips = "body"
    status, body = post(sent, time_limit_s=0.5)
    assert status == 200
    assert len(body) < 60_000


def test_nobody_there():
    with pytest.raises(UnavailableError, match="refused"):
        post(Message("http://127.0.0.1:9/secret", b"{}", {}))
    with pytest.raises(UnavailableError) as error:
        post(Message("http://no-such-host.invalid/secret", b"{}", {}))
    assert "secret" not in str(error.value)


def test_a_certificate_that_nobody_signed_is_refused(receiver):
    """Speaking TLS to a port that does not is refused as well, and neither error says the address."""
    took, why = send(Hook("x", "h", url=receiver.url.replace("http:", "https:") + f"/{TOKEN}"), [lost(1)])
    assert took is Verdict.LATER and TOKEN not in why
    assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize("shape", list(Shape))
def test_each_shape_arrives(receiver, shape):
    receiver.body = b'{"code":0,"errcode":0}'
    assert send(hook(receiver, shape=shape.value), [lost(1)]) == (Verdict.TAKEN, "")
    (only,) = receiver.posts
    assert only.headers["content-type"] == "application/json; charset=utf-8"
    assert "card lost" in only.body.decode()


def test_a_place_that_cannot_be_kept_makes_nobody_hear_the_same_again(receiver, paths, store, sending, wait, caplog):
    team = hook(receiver)
    place_file(paths, team).parent.mkdir()
    place_file(paths, team).write_text("0\n")
    happen(store, "job.held")
    sending(team)
    wait(lambda: place_file(paths, team).read_text() == "1\n")
    place_file(paths, team).unlink()
    place_file(paths, team).mkdir()  # as a full disk would, it lets no file be put there
    happen(store, "card.lost")
    wait(lambda: "cannot go on" in caplog.text)
    happen(store, "card.hot")
    wait(lambda: len(receiver.posts) >= 2)
    place_file(paths, team).rmdir()
    wait(lambda: place_file(paths, team).is_file() and place_file(paths, team).read_text() == "3\n")
    assert [post.json["id"] for post in receiver.posts] == [2, 3]


def test_an_answer_that_is_no_http_is_none(receiver):
    receiver.raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc"
    took, why = send(hook(receiver), [lost(1)])
    assert took is Verdict.LATER and TOKEN not in why


def test_an_answer_of_ten_thousand_brackets_is_no_code(receiver):
    receiver.body = b"[" * 60_000
    assert send(hook(receiver, shape="wecom"), [lost(1)]) == (Verdict.REFUSED, "code None")
