"""SkyPilot's public catalogue as rows of ours: zones merged, GPU memory read. Pure.

Source: skypilot-org/skypilot-catalog, ``catalogs/v8/CLOUD/vms.csv``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from anycard.offers.money import PriceError, parse_price
from anycard.offers.offer import Offer

VERSION = "v8"
# Folder of the catalogue -> provider, as our own list calls it.
CLOUDS: dict[str, str] = {
    "aws": "AWS EC2", "azure": "Microsoft Azure", "cudo": "Cudo Compute", "do": "DigitalOcean", "fluidstack": "Fluidstack",
    "gcp": "Google Cloud", "hyperbolic": "Hyperbolic", "hyperstack": "Hyperstack", "ibm": "IBM Cloud", "jarvislabs": "JarvisLabs",
    "lambda": "Lambda", "lium": "Lium", "mithril": "Mithril", "nebius": "Nebius", "oci": "Oracle OCI", "paperspace": "Paperspace",
    "primeintellect": "Prime Intellect", "runpod": "RunPod", "scp": "Samsung Cloud", "seeweb": "Seeweb", "shadeform": "Shadeform",
    "spheron": "Spheron", "vast": "Vast.ai", "verda": "Verda (DataCrunch)", "yotta": "Yotta",
}  # fmt: skip
COLUMNS = (
    "provider", "instance", "card", "card_count", "link", "card_memory_gib", "cpus", "memory_gib", "region", "currency", "on_demand_per_h",
    "spot_per_h", "source", "source_date",
)  # fmt: skip
_MEMORY = re.compile(r"""['"]SizeInMiB['"]\s*:\s*(\d{1,9}(?:\.\d+)?)""")
_RTX = re.compile(r"^RTX(A|PRO|)(\d{4})(-?Ada|)\b")
_GIB_INSTEAD = Decimal(1000)  # RunPod's rows give GiB under SizeInMiB: no card has less than 1000 MiB
_NAME_MAX = 100


def catalogue_rows(rows: Iterable[Mapping[str, str]], cloud: str, day: str) -> tuple[list[dict[str, str]], int]:
    """(rows with our columns, how many could not be read). Of a region's zones the lowest price counts, of each kind; of machines without
    cards the cheapest region alone is kept: there are thousands, and they differ by little."""
    best: dict[tuple[str, str, str, str], dict[str, str]] = {}
    unread = 0
    for raw in rows:
        row = _row(raw, cloud, day)
        if row is None:
            unread += 1
            continue
        place = (row["instance"], row["card"], row["card_count"], row["region"] if row["card"] else "")
        known = best.get(place)
        best[place] = row if known is None else _cheaper(known, row)
    return list(best.values()), unread


def merged(ours: Sequence[Offer], fetched: Sequence[Offer]) -> tuple[Offer, ...]:
    """``ours`` with what was fetched: the same id is the newer price; a row of ours that came from this catalogue and is not in it any
    more is gone, when its provider was fetched at all."""
    ids = {offer.id for offer in fetched}
    renewed = {offer.provider for offer in fetched}
    kept = [
        offer
        for offer in ours
        if offer.id not in ids and not (offer.provider in renewed and "skypilot-catalog" in offer.source)
    ]
    return (*kept, *fetched)


def _row(raw: Mapping[str, str], cloud: str, day: str) -> dict[str, str] | None:
    instance, region = _text(raw, "InstanceType"), _text(raw, "Region")
    card, link = _card(_text(raw, "AcceleratorName"))
    count = _text(raw, "AcceleratorCount")
    try:
        on_demand = parse_price(_text(raw, "Price"), "Price")
        spot = parse_price(_text(raw, "SpotPrice"), "SpotPrice")
        cards = parse_price(count, "AcceleratorCount") if card else None
    except PriceError:
        return None
    if not instance or (on_demand is None and spot is None) or (card and cards is None):
        return None
    return {
        "provider": CLOUDS[cloud],
        "instance": instance,
        "card": card,
        "card_count": "0" if cards is None else f"{cards.normalize():f}",
        "link": link,
        "card_memory_gib": _memory(_text(raw, "GpuInfo") or _text(raw, "GPUInfo")) if card else "",
        "cpus": _number(raw, "vCPUs"),
        "memory_gib": _number(raw, "MemoryGiB"),
        "region": region,
        "currency": "USD",
        "on_demand_per_h": "" if on_demand is None else str(on_demand),
        "spot_per_h": "" if spot is None else str(spot),
        "source": f"skypilot-org/skypilot-catalog catalogs/{VERSION}/{cloud}/vms.csv, as fetched",
        "source_date": day,
    }


def _cheaper(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    """The cheaper row by its price on demand (else spot), with the lower spot price when both are of the same region."""

    def price(row: Mapping[str, str]) -> Decimal:
        return Decimal(row["on_demand_per_h"] or row["spot_per_h"])

    chosen, rest = (other, one) if price(other) < price(one) else (one, other)
    if chosen["region"] != rest["region"]:
        return chosen
    spots = [Decimal(row["spot_per_h"]) for row in (one, other) if row["spot_per_h"]]
    return {**chosen, "spot_per_h": str(min(spots)) if spots else ""}


def _card(name: str) -> tuple[str, str]:
    """(the card, its link): ``RTXA5000`` is the RTX A5000, ``A100-80G-PCIe-NVLink`` an A100-80G-PCIe linked by NVLink."""
    linked = name.removesuffix("-NVLink")
    return _RTX.sub(_rtx, linked), "NVLink" if linked != name else ""


def _rtx(found: re.Match[str]) -> str:
    line, number, ada = found.groups()
    model = f"{line}{number}" if line in ("", "A") else f"{line} {number}"
    return f"RTX {model} Ada" if ada else f"RTX {model}"


def _memory(info: str) -> str:
    """GiB of one card, from the catalogue's JSON or Python dictionary."""
    found = _MEMORY.search(info[:4096])
    if not found:
        return ""
    size = Decimal(found[1])
    gib = size if size < _GIB_INSTEAD else size / 1024
    return f"{round(gib, 1).normalize():f}" if gib else ""


def _number(raw: Mapping[str, str], column: str) -> str:
    try:
        value = parse_price(_text(raw, column), column)
    except PriceError:
        return ""
    return "" if value is None else f"{value.normalize():f}"


def _text(raw: Mapping[str, str], column: str) -> str:
    return (raw.get(column) or "").strip()[: _NAME_MAX if "Info" not in column and "INFO" not in column else None]
