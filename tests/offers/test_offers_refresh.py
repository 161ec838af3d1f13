"""`anycard offers --refresh`: SkyPilot's tables and the ECB's rates from a real HTTP server, and what is left without one."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anycard.errors import UnavailableError, UsageError
from anycard.offers.catalogue import CatalogueError, parse_offers
from anycard.offers.files import SHIPPED_ON, catalogue_file, known_offers, rates, shipped_offers
from anycard.offers.money import shown
from anycard.offers.online import refresh
from anycard.offers.skypilot import COLUMNS, catalogue_rows, merged
from anycard.sizing.cardspec import find_card
from anycard.sizing.files import card_specs

# The three layouts that the catalogue has: JSON, a Python dictionary with GiB where it says MiB (RunPod), and zones (AWS).
VERDA = """InstanceType,UpstreamCloudId,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,Price,SpotPrice
1B200.30V,1B200.30V,30.0,184.0,B200,1.0,"{""Gpus"": [{""Count"": 1, ""MemoryInfo"": {""SizeInMiB"": 184320}}]}",FIN-03,4.89,1.7
2B200.60V,2B200.60V,60.0,368.0,B200,2.0,"{""Gpus"": [{""Count"": 2, ""MemoryInfo"": {""SizeInMiB"": 184320}}]}",FIN-03,,3.4
CPU.4V.16G,CPU.4V.16G,4.0,16.0,,,,FIN-01,0.0279,0.0098
CPU.4V.16G,CPU.4V.16G,4.0,16.0,,,,FIN-02,0.0269,0.0098
"""
RUNPOD = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,SpotPrice,Price,AvailabilityZone,GpuInfo
1x_A100-80GB_SECURE,A100-80GB,1.0,8.0,117.0,SE,1.29,1.39,EU-SE-1,"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 80}}], 'TotalGpuMemoryInMiB': 80}"
1x_A100-80GB_SECURE,A100-80GB,1.0,8.0,117.0,SE,1.19,1.39,EU-SE-2,"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 80}}], 'TotalGpuMemoryInMiB': 80}"
1x_A100-80GB_SECURE,A100-80GB,1.0,8.0,117.0,US,-5,1.39,US-1,
,A100-80GB,1.0,8.0,117.0,US,1,1.39,US-1,
"""
FIXTURES = (
    Path(__file__).parent / "fixtures"
)  # lines of the catalogue as they stand there, skypilot-org/skypilot-catalog
ECB = """<?xml version="1.0" encoding="UTF-8"?><gesmes:Envelope><Cube><Cube time='2099-01-02'>
<Cube currency='USD' rate='1.25'/><Cube currency='CNY' rate='7.5'/></Cube></Cube></gesmes:Envelope>"""
DAY = "2026-11-30"


@pytest.fixture
def web() -> Iterator[dict[str, str]]:
    """Pages by path; ``url`` is where they are."""
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    pages["url"] = f"http://127.0.0.1:{server.server_port}"
    yield pages
    server.shutdown()
    server.server_close()


def fetch(web: dict[str, str], folder: Path, **more: object):
    return refresh(folder, DAY, url=web["url"] + "/c", rates_url=web["url"] + "/ecb.xml", **more)  # type: ignore[arg-type]


def test_a_refresh_is_kept_and_used(web, tmp_path):
    web |= {"/c/verda/vms.csv": VERDA, "/c/runpod/vms.csv": RUNPOD, "/ecb.xml": ECB}
    done = fetch(web, tmp_path)
    assert done.offers == {"RunPod": 1, "Verda (DataCrunch)": 3}
    assert done.unread == 2 and done.rates_date == "2099-01-02" and "AWS EC2" in done.failed
    known = {offer.id: offer for offer in known_offers(tmp_path)}
    b200 = known["verda-datacrunch-1b200.30v-fin-03"]
    assert (b200.on_demand_per_h, b200.spot_per_h, b200.card_memory_gib) == (Decimal("4.89"), Decimal("1.7"), 180)
    assert b200.source_date == DAY and "as fetched" in b200.source
    a100 = known["runpod-1x-a100-80gb-secure-se"]
    assert (a100.spot_per_h, a100.card_memory_gib) == (Decimal("1.19"), 80)  # the cheaper zone; GiB where it says MiB
    cpu = [offer for offer in known.values() if offer.instance == "CPU.4V.16G"]
    assert [(one.region, one.on_demand_per_h) for one in cpu] == [("FIN-02", Decimal("0.0269"))]
    stale = [one for one in shipped_offers() if one.provider == "RunPod" and "skypilot-catalog" in one.source]
    assert all(one.id not in known or known[one.id].source_date == DAY for one in stale)
    assert any(one.provider == "Nebius" for one in known.values())  # not fetched: ours stay
    assert rates((), tmp_path).per_eur["USD"] == Decimal("1.25")
    assert rates(("CNY=8",), tmp_path).per_eur["CNY"] == 8
    assert (catalogue_file(tmp_path, "verda").stat().st_mode & 0o777) == 0o600


def test_cards_are_called_as_we_know_them(web, tmp_path):
    web |= {f"/c/{cloud}/vms.csv": (FIXTURES / f"skypilot-{cloud}.csv").read_text() for cloud in ("hyperstack", "cudo")}
    done = fetch(web, tmp_path, clouds=["hyperstack", "cudo"])
    assert done.offers == {"Hyperstack": 8, "Cudo Compute": 6} and not done.unread
    known = {offer.id: offer for offer in known_offers(tmp_path) if offer.source_date == DAY}
    linked = known["hyperstack-n3-a100x8-nvlink-canada-1"]
    assert (linked.card, linked.link, linked.card_memory_gib, linked.egress_per_gb) == (
        "A100-80G-PCIe",
        "NVLink",
        80,
        0,
    )
    assert {"hyperstack-n3-h100-sxm5x8-canada-1", "hyperstack-n3-h100-sxm5x8-us-1"} < known.keys()
    cudo = known["cudo-compute-ice-lake-rtx-a5000-1x2v4gb-ca-montreal-3"]
    assert cudo.card == "RTX A5000" and shown(cudo.on_demand_per_h) == "0.3098"
    assert all(find_card(offer.card, card_specs()) for offer in known.values())


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("RTXA6000", "RTX A6000"),
        ("RTXPRO6000", "RTX PRO 6000 Blackwell"),
        ("RTX6000Ada", "RTX 6000 Ada Generation"),
        ("RTX6000-Ada", "RTX 6000 Ada Generation"),
        ("RTX5090", "GeForce RTX 5090"),
        ("RTX3090-Ti", "GeForce RTX 3090 Ti"),
        ("H100-SXM", "H100 SXM5 80 GB"),
    ],
)
def test_its_names_of_cards(theirs, ours):
    row = {"InstanceType": "x", "AcceleratorName": theirs, "AcceleratorCount": "1", "Price": "1", "Region": "r"}
    (kept,), _ = catalogue_rows([row], "cudo", DAY)
    assert find_card(kept["card"], card_specs()).model == ours


def test_one_cloud_alone(web, tmp_path):
    web |= {"/c/verda/vms.csv": VERDA}
    done = fetch(web, tmp_path, clouds=["verda"])
    assert list(done.offers) == ["Verda (DataCrunch)"] and done.rates_date is None
    assert list(done.failed) == ["exchange rates"]
    with pytest.raises(UsageError, match="banana"):
        fetch(web, tmp_path, clouds=["banana"])


def test_without_a_network_it_says_so_and_changes_nothing(tmp_path):
    with pytest.raises(UnavailableError, match="cannot be reached"):
        refresh(tmp_path, DAY, url="http://127.0.0.1:9", rates_url="http://127.0.0.1:9", clouds=["verda"])
    assert known_offers(tmp_path) == shipped_offers()
    with pytest.raises(UsageError, match="no web address"):
        refresh(tmp_path, DAY, url="file:///etc")


def test_answers_that_are_no_tables(web, tmp_path):
    web |= {"/c/verda/vms.csv": "<html>log in</html>", "/c/aws/vms.csv": "", "/c/gcp/vms.csv": VERDA, "/ecb.xml": "<x>"}
    done = fetch(web, tmp_path, clouds=["verda", "aws", "gcp"])
    assert list(done.offers) == ["Google Cloud"]
    assert set(done.failed) == {"Verda (DataCrunch)", "AWS EC2", "exchange rates"}


def test_a_damaged_table_is_named(tmp_path):
    catalogue_file(tmp_path, "verda").write_text("provider,instance,on_demand_per_h\nx,y,-1\n")
    with pytest.raises(CatalogueError, match="damaged"):
        known_offers(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"date": 1, "per_eur": {}}', '{"date": "2099-01-01", "per_eur": {"USD": "x"}}']
)
def test_damaged_rates_fall_back_to_the_shipped_ones(tmp_path, text):
    (tmp_path / "rates.json").write_text(text)
    assert rates((), tmp_path) == rates()


def test_what_is_fetched_has_its_providers_terms(web, tmp_path):
    web |= {"/c/verda/vms.csv": VERDA, "/c/runpod/vms.csv": RUNPOD, "/ecb.xml": ECB}
    fetch(web, tmp_path)
    known = {offer.id: offer for offer in known_offers(tmp_path)}
    pod, verda = known["runpod-1x-a100-80gb-secure-se"], known["verda-datacrunch-1b200.30v-fin-03"]
    assert (pod.storage_running_per_gb_month, pod.storage_stopped_per_gb_month, pod.egress_per_gb) == (
        Decimal("0.10"),
        Decimal("0.20"),
        0,
    )
    assert "runpod.io" in pod.origin("egress_per_gb").source and pod.origin("spot_per_h").source_date == DAY
    assert verda.billing_step_s == 600 and [term.name for term in verda.terms][-1] == "2-year"


def test_offers_without_a_day_are_at_least_as_old_as_their_table():
    from datetime import date

    today = date.fromisoformat(SHIPPED_ON).replace(year=2027)
    undated = [offer for offer in shipped_offers() if offer.age_days(today) is None]
    assert undated and all(offer.least_age_days(today) == 365 for offer in undated)


SKY_COLUMNS = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo", "Region", "Price", "SpotPrice",
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(SKY_COLUMNS), st.text(max_size=12))))
def test_whatever_a_table_holds_our_own_reader_takes_what_is_kept(rows):
    kept, unread = catalogue_rows(rows, "verda", DAY)
    assert len(kept) + unread <= len(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows(kept)
    assert len(parse_offers(csv.DictReader(io.StringIO(out.getvalue())))) == len(kept)


def test_merging_keeps_the_newer_price():
    ours = parse_offers(
        [{"provider": "P", "instance": "a", "on_demand_per_h": "2"}, {"provider": "P", "instance": "b"}]
    )
    new = parse_offers([{"provider": "P", "instance": "a", "on_demand_per_h": "1"}])
    assert {one.id: one.on_demand_per_h for one in merged(ours, new)} == {"p-a": Decimal(1), "p-b": None}
