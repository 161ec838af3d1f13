"""The bars on public measurements, held by the very benchmark that reports them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVAL = Path(os.environ.get("ANYCARD_EVAL") or ROOT.parent / "shared" / "eval")
pytestmark = pytest.mark.skipif(
    not (EVAL / "sizing" / "measured.csv").is_file(),
    reason=f"no measurements under {EVAL}: set ANYCARD_EVAL to their folder",
)


@pytest.fixture(scope="module")
def result() -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy", "--json"],
        cwd=ROOT,
        env={**os.environ, "ANYCARD_EVAL": str(EVAL)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_inference_memory(result):
    assert result["bf16"]["mean"] <= 1 and result["bf16"]["max"] <= 5 and result["bf16"]["worst_under"] >= -2
    assert result["quant"]["mean"] <= 4


@pytest.mark.slow
def test_finetune_memory(result):
    assert (
        result["finetune"]["mean"] <= 15
        and result["finetune"]["p90"] <= 25
        and result["finetune"]["under5_share"] <= 0.1
    )


@pytest.mark.slow
def test_speed_fits_and_spot(result):
    assert result["decode"]["mean"] <= 12
    assert result["fits"]["right"] >= 0.98
    assert result["spot"]["p90_cover"] >= 0.85


@pytest.mark.slow
def test_nothing_is_left_out(result):
    import csv

    with (EVAL / "sizing" / "measured.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for name in ("bf16", "quant", "finetune"):
        assert result[name]["n"] == sum(row["set"] == name and bool(row["mem_mib"]) for row in rows)
    for name in ("decode", "fits"):
        assert result[name]["n"] == sum(row["set"] == name for row in rows)
