"""Every code with which the supervisor refuses a start has a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import anycard.engines.local as local
from anycard.engines.local.startwords import start_failure

_FOLDER = Path(local.__file__).parent


def _codes() -> list[str]:
    shim = re.findall(r"_anycard_refuse ([a-z-]+)", (_FOLDER / "shim.sh").read_text())
    source = (_FOLDER / "supervisor" / "spawn.py").read_text()
    steps = re.search(r"_STEPS = \((.*?)\)", source)
    assert steps is not None
    return [
        *shim,
        *re.findall(r'"([a-z]+)"', steps[1]),
        *re.findall(r'SpawnError\(code="([a-z-]+)"', source),
        "unrecorded",
    ]


@pytest.mark.parametrize("code", sorted(set(_codes())))
def test_code_has_its_own_sentence(code: str) -> None:
    text = start_failure({"code": code, "params": {"cwd": "C", "program": "P", "uid": 7, "reason": "R"}})
    assert text is not None
    assert text.msgid != "could not start: {reason}"
    assert "{" not in str(text)


def test_an_unknown_code_and_an_older_supervisor_keep_what_they_said() -> None:
    assert str(start_failure({"code": "new-code", "params": {}})) == "could not start: new-code"
    assert str(start_failure({"code": "system", "params": {"reason": "x: Not a directory"}})).endswith(
        "Not a directory"
    )
    assert str(start_failure("the program was not found")) == "could not start: the program was not found"
    assert start_failure(None) is None
