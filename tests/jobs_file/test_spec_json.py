"""A job's specification as the store keeps it."""

from __future__ import annotations

import json

import pytest

from anycard.jobs.admit import spec_json
from anycard.jobs.file.resolve import from_command
from anycard.jobs.spec import JobSpec


@pytest.mark.parametrize("word", ["plain", "é 卡 \n\"'", "\U0001f600"])
@pytest.mark.parametrize(
    "options", [{}, {"cpus": "0.25", "memory": "2+", "accelerators": "A100:2", "time_limit": "2h", "retry": 3}]
)
def test_it_is_read_back_as_it_was(word, options, tmp_path):
    spec = from_command([word, "--x"], cwd=str(tmp_path), environ={"LANG": word}, options=options).spec
    kept = spec_json(spec)
    assert JobSpec(**json.loads(kept)) == spec
    assert " " not in kept.replace(json.dumps(word, ensure_ascii=False)[1:-1], "")


def test_a_script_that_is_not_utf8_is_kept():
    spec = JobSpec(name="x", run="cat caf\udce9", workdir="/", environment={}, umask=0o022, options=())
    kept = spec_json(spec)
    assert kept.isascii(), "the store keeps text"
    assert JobSpec(**json.loads(kept)) == spec
