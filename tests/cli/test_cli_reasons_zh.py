"""A reason inside a reason, a state inside a sentence, a job over although held: all in the reader's language."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anycard import i18n
from anycard.cli.help import _words
from anycard.cli.output import sentence
from anycard.i18n import words
from anycard.model.text import Text

_FAILED = "{failed} of {items} items failed, the first of them item {item}: {why}"


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    i18n.use("zh")
    yield
    i18n.use("en")


def _reason(**why: str) -> str:
    return words.reason({"reason_msgid": _FAILED, "reason_params": {"failed": 1, "items": 10, "item": 3, **why}})


def test_the_reason_of_the_first_failed_item_is_translated() -> None:
    missing = Text("could not start: the program {program} was not found", {"program": "'x'"})
    nested = _reason(why=str(missing), why_msgid=missing.msgid, why_program="'x'")
    assert nested == "10 个子任务中有 1 个失败，第一个是子任务 3：无法启动：找不到程序 'x'"
    assert _reason(why="time-limit").endswith("：超过时限")
    assert _reason(why="said by a program").endswith("：said by a program")


def test_a_state_in_a_sentence_is_translated() -> None:
    told = sentence("job {job}, which it waits for, ended as {state}", {"job": 48, "state": "failed"})
    assert told == "它所等待的任务 48 的结果是“失败”"


def test_held_is_said_of_open_jobs_alone() -> None:
    assert words.state("queued", held=True) == "排队中，暂缓"
    assert words.state("cancelled", held=True) == "已取消"


def test_help_says_a_default_once_and_no_range() -> None:
    assert _words("最多列出多少个  [default: 100; x>=1]") == "最多列出多少个  [默认 100]"
    assert _words("名称  [required]") == "名称  [必填]"
    assert _words("见 [1] 和 [2]") == "见 [1] 和 [2]"
