"""Families that order their layers in their own ways: published parameter counts, and what the cache grows by a token.

``families.json`` has the fields of published configurations that decide memory; billions of weights, and those active for a token, as the
model cards or the checkpoints' indexes say; bytes that a token of context adds once every window is full, at 16 bits.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anycard.sizing.cache import cache_bytes
from anycard.sizing.config import ConfigError, shape_from_config
from anycard.sizing.weight_format import scheme_from_config

FAMILIES = json.loads((Path(__file__).parent / "families.json").read_bytes())


@pytest.mark.parametrize("row", FAMILIES.values(), ids=FAMILIES)
def test_published_sizes(row):
    shape = shape_from_config(row["config"])
    assert shape.params / 1e9 == pytest.approx(row["billions"], rel=0.011)
    if row["active_billions"]:
        assert shape.active_params / 1e9 == pytest.approx(row["active_billions"], rel=0.15)
    if row["bytes_a_token"] is not None:
        assert cache_bytes(shape, 200_001) - cache_bytes(shape, 200_000) == row["bytes_a_token"]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.one_of(st.integers(-2, 99), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(
        st.sampled_from(("num_heads", "head_dim", "full_attn_layers", "hidden_size")), st.integers(), max_size=3
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.data())
def test_any_damage_is_a_shape_or_a_config_error(name, data):
    config = json.loads(json.dumps(FAMILIES[name]["config"]))
    for _ in range(data.draw(st.integers(1, 3))):
        part = config
        inner = [key for key, value in config.items() if isinstance(value, dict) and value]
        if inner and data.draw(st.booleans()):
            part = config[data.draw(st.sampled_from(inner))]
        part[data.draw(st.sampled_from(sorted(part)))] = data.draw(JUNK)
    try:
        shape = shape_from_config(config, name)
    except ConfigError:
        return
    assert shape.params > 0
    assert cache_bytes(shape, 10) >= 0
    scheme_from_config(config)
