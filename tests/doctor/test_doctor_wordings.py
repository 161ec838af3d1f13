"""Many short wordings of the same causes: most are met the first time, all are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose

FILE = Path(__file__).parent / "wordings.tsv"
ROWS = [line.split("\t") for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("platform", "cause", "text"), ROWS, ids=[f"{n}-{row[1]}" for n, row in enumerate(ROWS)])
def test_wording(platform, cause, text):
    lines = text.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
    found = diagnose([text_source("log.txt", lines)], platform).findings
    assert [finding.cause for finding in found[:1]] == [cause]
