"""What is sent, and what the answer means: plain JSON, Slack, Feishu, DingTalk, WeCom. Pure.

Formats and signatures are those of the receivers' own pages on custom bots (incoming webhooks):
Slack "Sending messages using incoming webhooks", Feishu "Custom bot guide", DingTalk "Custom robots: security settings", WeCom "Group
robot configuration".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import quote_plus

from anycard.i18n import N_, show_in
from anycard.jobs.hooks.notice import SCHEMA, Notice
from anycard.jobs.hooks.settings import Hook, Shape
from anycard.model.instant import rfc3339
from anycard.model.text import Text

LINES_MAX = 20  # of one chat message; of the rest only the number is told
_AND_MORE = N_("[anycard] and {count} more")
_LINE_MAX = 400  # characters
_TEXT_BYTES_MAX = {  # of the message's text, by the receivers' pages, with room for the last line
    Shape.SLACK: 3_800,
    Shape.FEISHU: 15_000,
    Shape.DINGTALK: 15_000,
    Shape.WECOM: 2_000,
}
PACE_S = {Shape.DINGTALK: 3.0, Shape.WECOM: 3.0, Shape.SLACK: 1.0, Shape.FEISHU: 1.0}  # 20 a minute, and 1 a second
_CODE_FIELDS = {Shape.FEISHU: ("code", "StatusCode"), Shape.DINGTALK: ("errcode",), Shape.WECOM: ("errcode",)}
_TOO_MANY_CODES = {Shape.FEISHU: (11232,), Shape.DINGTALK: (130101, 410100), Shape.WECOM: (45009,)}
_BUSY_CODES = {Shape.DINGTALK: (-1,), Shape.WECOM: (-1,)}


@dataclass(frozen=True, slots=True)
class Message:
    """One POST. ``url`` and ``headers`` may hold secrets."""

    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(repr=False)


class Verdict(Enum):
    TAKEN = "taken"
    LATER = "later"  # trying again makes sense
    REFUSED = "refused"


def message(hook: Hook, notices: Sequence[Notice], now_s: float) -> Message:
    """``notices`` are one of the JSON shape, any number of the others. ``now_s``: UTC seconds, which signatures are made over."""
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "anycard"}
    if hook.shape is Shape.JSON:
        body = _encoded(plain(hook, notices[0]))
        if hook.secret:
            stamp = str(int(now_s))
            signed = hmac.new(hook.secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
            headers |= {"X-Anycard-Timestamp": stamp, "X-Anycard-Signature": f"sha256={signed}"}
        return Message(hook.url, body, headers)
    text = chat_text(hook, notices)
    url = hook.url
    content: dict[str, Any]
    match hook.shape:
        case Shape.SLACK:
            content = {"text": text}
        case Shape.FEISHU:
            content = {"msg_type": "text", "content": {"text": text}}
            if hook.secret:
                stamp = str(int(now_s))  # seconds
                content = {"timestamp": stamp, "sign": _signed(f"{stamp}\n{hook.secret}", ""), **content}
        case Shape.DINGTALK:
            content = {"msgtype": "text", "text": {"content": text}}
            if hook.secret:
                stamp = str(int(now_s * 1000))  # milliseconds
                sign = quote_plus(_signed(hook.secret, f"{stamp}\n{hook.secret}"))
                url += f"{'&' if '?' in url else '?'}timestamp={stamp}&sign={sign}"
        case Shape.WECOM:
            content = {"msgtype": "text", "text": {"content": text}}
    return Message(url, _encoded(content), headers)


def plain(hook: Hook, notice: Notice) -> dict[str, Any]:
    """The JSON shape's document (docs/webhooks.md)."""
    return {
        "schema": SCHEMA,
        "id": notice.id,
        "kind": notice.kind.value,
        "at": rfc3339(notice.at),
        "text": sentence(hook.language, notice),
        "msgid": notice.text.msgid,
        "params": dict(notice.text.params),
        "job": notice.job,
        "card": notice.card,
    }


def chat_text(hook: Hook, notices: Sequence[Notice]) -> str:
    """A line a notice; names come from strangers, so that none of them may mention people, make links or begin a line."""
    room = _TEXT_BYTES_MAX[hook.shape]
    lines: list[str] = []
    for notice in notices[:LINES_MAX]:
        line = "[anycard] " + _tamed(hook.shape, _one_line(sentence(hook.language, notice)))
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    left = len(notices) - len(lines)
    if left:
        lines.append(show_in(hook.language, _AND_MORE, {"count": left}))
    return "\n".join(lines)


def sentence(language: str, notice: Notice) -> str:
    said = _said(language, notice.text)
    if notice.why is None:
        return said
    return show_in(language, "{subject}: {text}", {"subject": said, "text": _said(language, notice.why)})


def _said(language: str, text: Text) -> str:
    """A sentence may hold another as its ``why``, see jobs/lifecycle.py."""
    params = dict(text.params)
    if "why_msgid" in params:
        own = {name.removeprefix("why_"): value for name, value in params.items() if name.startswith("why_")}
        params["why"] = show_in(language, str(params["why_msgid"]), own)
    return show_in(language, text.msgid, params)


def _one_line(text: str) -> str:
    """What could steer a terminal or begin a line is left out; lone surrogates (file names that are no text) cannot be sent."""
    kept = "".join(character if character.isprintable() else " " for character in text)
    return kept if len(kept) <= _LINE_MAX else kept[: _LINE_MAX - 1] + "…"


def _tamed(shape: Shape, text: str) -> str:
    """``<!channel>`` of Slack and ``<at user_id="all">`` of Feishu call everybody: a job's name must not."""
    if shape is Shape.SLACK:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("<", "‹").replace(">", "›").replace("@", "＠")


def _signed(key: str, data: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), data.encode(), hashlib.sha256).digest()).decode()


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def verdict(shape: Shape, status: int, body: bytes) -> tuple[Verdict, str]:
    """What became of a message, and in words why. The Chinese services answer 200 also when they refuse: a code in the body tells."""
    if status in (408, 425, 429) or status >= 500:
        return Verdict.LATER, f"HTTP {status}"
    if 300 <= status < 400:
        return Verdict.REFUSED, f"HTTP {status}: redirects are not followed"
    if not 200 <= status < 300:
        return Verdict.REFUSED, f"HTTP {status}"
    if shape not in _CODE_FIELDS:
        return Verdict.TAKEN, ""
    code = _code(body, _CODE_FIELDS[shape])
    if code == 0:
        return Verdict.TAKEN, ""
    if code in _TOO_MANY_CODES[shape] or code in _BUSY_CODES.get(shape, ()):
        return Verdict.LATER, f"code {code}"
    return Verdict.REFUSED, f"code {code}"


def _code(body: bytes, fields: Sequence[str]) -> int | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    codes = [answer[name] for name in fields if isinstance(answer.get(name), int)]
    return codes[0] if codes else None
