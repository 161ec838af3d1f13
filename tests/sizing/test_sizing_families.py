"""Families that order their layers in their own ways: published parameter counts, and what the cache grows by a token.

``families.json`` has the fields of published configurations that decide memory; billions of weights, and those active for a token, as the
model cards or the checkpoints' indexes say; bytes that a token of context adds once every window is full, at 16 bits.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anycard.sizing.cache import cache_bytes
from anycard.sizing.config import shape_from_config

FAMILIES = json.loads((Path(__file__).parent / "families.json").read_bytes())


@pytest.mark.parametrize("row", FAMILIES.values(), ids=FAMILIES)
def test_published_sizes(row):
    shape = shape_from_config(row["config"])
    assert shape.params / 1e9 == pytest.approx(row["billions"], rel=0.011)
    if row["active_billions"]:
        assert shape.active_params / 1e9 == pytest.approx(row["active_billions"], rel=0.15)
    if row["bytes_a_token"] is not None:
        assert cache_bytes(shape, 200_001) - cache_bytes(shape, 200_000) == row["bytes_a_token"]
