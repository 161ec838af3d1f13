"""From inside a real guest: a card that is meant for passthrough, with and without an IOMMU."""

from __future__ import annotations

import json

import pci_guest
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(700)]


@pytest.fixture(autouse=True)
def _can_run():
    wanted = pci_guest.missing()
    if wanted:
        pytest.skip(f"a guest needs: apt-get install {wanted}")


def look(tmp_path, *, iommu: bool) -> dict:
    printed = pci_guest.run_inside(pci_guest.anycard("doctor", "--json") + " | cat", tmp_path, iommu=iommu)
    return json.loads(printed[printed.index('{"schema"') :].splitlines()[0])


def test_without_an_iommu_passthrough_is_named(tmp_path):
    seen = look(tmp_path, iommu=False)
    assert seen["verdict"] == "fault"
    assert seen["findings"][0]["cause"] == "passthrough-without-iommu"
    told = " ".join(seen["findings"][0]["evidence"])
    assert "failed with error -22" in told  # the kernel's own line
    assert "no IOMMU group" in told  # what the bus says


def test_with_an_iommu_the_same_card_is_well_kept(tmp_path):
    seen = look(tmp_path, iommu=True)
    assert "passthrough-without-iommu" not in [finding["cause"] for finding in seen["findings"]]
    assert seen["verdict"] == "healthy"
