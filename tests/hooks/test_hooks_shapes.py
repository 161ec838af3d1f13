"""What is sent in each shape, and what an answer means."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.jobs.hooks.notice import Notice, notice
from anycard.jobs.hooks.settings import Hook, Kind, Shape
from anycard.jobs.hooks.shapes import LINES_MAX, Verdict, message, verdict
from anycard.model.text import Text

NOW = 1_700_000_000.25
CHATS = (Shape.SLACK, Shape.FEISHU, Shape.DINGTALK, Shape.WECOM)


def hook(shape: Shape, **more) -> Hook:
    return Hook("h", "example.com", shape, url="https://example.com/hook?access_token=abc", **more)


def made(name: str = "train", number: int = 7) -> Notice:
    text = Text("job {job} ({name}) of {user} on {host} failed after {length}",
                {"job": number, "name": name, "user": "ann", "host": "box", "length": "3 s"})  # fmt: skip
    return Notice(
        number, Kind.FAILED, NOW, text, Text("its program ended with exit code {code}", {"code": 1}), {"id": number}
    )


def text_of(shape: Shape, body: bytes) -> str:
    sent = json.loads(body)
    match shape:
        case Shape.SLACK:
            return sent["text"]
        case Shape.FEISHU:
            assert sent["msg_type"] == "text"
            return sent["content"]["text"]
        case _:
            assert sent["msgtype"] == "text"
            return sent["text"]["content"]


@pytest.mark.parametrize("shape", CHATS)
def test_a_chat_gets_a_line_of_text(shape):
    sent = message(hook(shape), [made()], NOW)
    assert sent.url == "https://example.com/hook?access_token=abc"
    assert text_of(shape, sent.body) == (
        "[anycard] job 7 (train) of ann on box failed after 3 s: its program ended with exit code 1"
    )


def test_the_json_shape_says_all_of_it_and_is_signed():
    sent = message(hook(Shape.JSON, secret="s3cret"), [made()], NOW)
    told = json.loads(sent.body)
    assert told["schema"] == "anycard.hook/1"
    assert (told["id"], told["kind"], told["at"], told["job"]) == (7, "failed", "2023-11-14T22:13:20.250Z", {"id": 7})
    assert told["msgid"].format_map(told["params"]) in told["text"]
    stamp = sent.headers["X-Anycard-Timestamp"]
    right = hmac.new(b"s3cret", f"{stamp}.".encode() + sent.body, hashlib.sha256).hexdigest()
    assert sent.headers["X-Anycard-Signature"] == f"sha256={right}"
    assert "X-Anycard-Signature" not in message(hook(Shape.JSON), [made()], NOW).headers


def test_dingtalk_signs_in_the_address():
    sent = message(hook(Shape.DINGTALK, secret="SECabc"), [made()], NOW)
    asked = parse_qs(urlsplit(sent.url).query)
    stamp = asked["timestamp"][0]
    assert stamp == "1700000000250"  # milliseconds
    right = base64.b64encode(hmac.new(b"SECabc", f"{stamp}\nSECabc".encode(), hashlib.sha256).digest()).decode()
    assert asked["sign"] == [right]
    assert asked["access_token"] == ["abc"]


def test_feishu_signs_in_the_body():
    told = json.loads(message(hook(Shape.FEISHU, secret="abc"), [made()], NOW).body)
    assert told["timestamp"] == "1700000000"  # seconds
    right = base64.b64encode(hmac.new(b"1700000000\nabc", b"", hashlib.sha256).digest()).decode()
    assert told["sign"] == right


def test_in_chinese():
    told = text_of(Shape.WECOM, message(hook(Shape.WECOM, language="zh"), [made()], NOW).body)
    assert "任务 7" in told and "失败" in told


@pytest.mark.parametrize("shape", CHATS)
def test_many_are_one_message_of_bounded_length(shape):
    sent = message(hook(shape), [made("n" * 200, number) for number in range(500)], NOW)
    lines = text_of(shape, sent.body).splitlines()
    shown = len(lines) - 1
    assert 1 <= shown <= LINES_MAX
    assert lines[-1] == f"[anycard] and {500 - shown} more"
    assert len(text_of(shape, sent.body).encode()) <= {Shape.WECOM: 2048, Shape.SLACK: 4000}.get(shape, 20_000)


@given(st.sampled_from(CHATS), st.text(max_size=300), st.integers(1, 40))
def test_no_name_calls_anybody_or_begins_a_line(shape, name, count):
    sent = message(hook(shape), [made(f'<!channel> <at user_id="all"> @all \n{name}', n) for n in range(count)], NOW)
    text = text_of(shape, sent.body)
    assert all(line.startswith("[anycard] ") for line in text.split("\n"))
    assert "<" not in text
    assert shape is Shape.SLACK or "@" not in text
    assert text.isprintable() or "\n" in text
    sent.body.decode("ascii")


@pytest.mark.parametrize("shape", list(Shape))
def test_names_that_are_no_text_are_sent_too(shape):
    """A job may be called after a file whose name is no UTF-8."""
    json.loads(message(hook(shape), [made("caf\udce9.csv")], NOW).body)


TABLE = [
    (Shape.SLACK, 200, b"ok", Verdict.TAKEN),
    (Shape.JSON, 204, b"", Verdict.TAKEN),
    (Shape.JSON, 302, b"", Verdict.REFUSED),
    (Shape.SLACK, 404, b"no_service", Verdict.REFUSED),
    (Shape.SLACK, 429, b"", Verdict.LATER),
    (Shape.JSON, 503, b"", Verdict.LATER),
    (Shape.FEISHU, 200, b'{"StatusCode":0,"StatusMessage":"success","code":0,"msg":"success"}', Verdict.TAKEN),
    (Shape.FEISHU, 200, b'{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}', Verdict.REFUSED),
    (Shape.FEISHU, 200, b'{"code":11232,"msg":"frequency limited"}', Verdict.LATER),
    (Shape.DINGTALK, 200, b'{"errcode":0,"errmsg":"ok"}', Verdict.TAKEN),
    (Shape.DINGTALK, 200, b'{"errcode":310000,"errmsg":"sign not match"}', Verdict.REFUSED),
    (Shape.DINGTALK, 200, b'{"errcode":130101,"errmsg":"send too fast"}', Verdict.LATER),
    (Shape.DINGTALK, 200, b'{"errcode":-1,"errmsg":"system busy"}', Verdict.LATER),
    (Shape.WECOM, 200, b'{"errcode":0,"errmsg":"ok"}', Verdict.TAKEN),
    (Shape.WECOM, 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}', Verdict.REFUSED),
    (Shape.WECOM, 200, b'{"errcode":45009,"errmsg":"api freq out of limit"}', Verdict.LATER),
    (Shape.WECOM, 200, b"<html>login</html>", Verdict.REFUSED),
    (Shape.WECOM, 200, b"[]", Verdict.REFUSED),
    (Shape.WECOM, 200, b'{"errcode":"0"}', Verdict.REFUSED),
]


@pytest.mark.parametrize(("shape", "status", "body", "expected"), TABLE)
def test_what_an_answer_means(shape, status, body, expected):
    assert verdict(shape, status, body)[0] is expected


@given(st.sampled_from(Shape), st.integers(100, 599), st.binary(max_size=200))
def test_any_answer_means_something(shape, status, body):
    took, why = verdict(shape, status, body)
    assert (why == "") is (took is Verdict.TAKEN)


JOB = {"id": 3, "name": "n", "user": "u", "n_items": 1, "state": "failed", "first_granted_at": NOW - 60,
       "submitted_at": NOW - 70, "reason_json": None}  # fmt: skip


def event(kind: str, **data):
    return {"seq": 9, "at": NOW, "kind": kind, "data_json": json.dumps(data) if data else None}


def test_which_events_become_what():
    ended = event("job.ended", state="succeeded", succeeded=1, failed=0, cancelled=0)
    assert notice(ended, JOB, "box").kind is Kind.DONE
    assert "1m" in str(notice(ended, JOB, "box").text)
    batch = notice(event("job.ended", state="partly-failed", succeeded=2, failed=3), {**JOB, "n_items": 5}, "box")
    assert batch.kind is Kind.FAILED and "3 of 5 items failed" in str(batch.text)
    assert notice(event("job.ended", state="cancelled"), JOB, "box") is None
    about = {"card": "nvidia:GPU-1", "model": "A100"}
    lost = notice(event("card.lost", **about), JOB, "box")
    assert lost.kind is Kind.CARD_LOST and "A100" in str(lost.text) and "job 3" in str(lost.why)
    assert notice(event("card.idle", **about, idle_s=660), JOB, "box").kind is Kind.CARD_IDLE
    hot = notice(event("card.hot", **about, temperature_c=93.0, limit_c=90.0, throttled=True), None, "box")
    assert hot.kind is Kind.TOO_HOT and "93 °C" in str(hot.text) and hot.why is None
    assert notice(event("item.started"), JOB, "box") is None


def test_a_reason_within_a_reason_is_said_in_the_hooks_language():
    reason = {"msgid": "{failed} of {items} items failed, the first of them item {item}: {why}",
              "params": {"failed": 1, "items": 2, "item": 0, "why": "x", "why_msgid": "card lost on {host}: {model} ({card})",
                         "why_host": "h", "why_model": "m", "why_card": "c"}}  # fmt: skip
    row = {**JOB, "n_items": 2, "reason_json": json.dumps(reason)}
    told = notice(event("job.ended", state="partly-failed", succeeded=1, failed=1), row, "box")
    text = text_of(Shape.WECOM, message(hook(Shape.WECOM, language="zh"), [told], NOW).body)
    assert "掉卡" in text
