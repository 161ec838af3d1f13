"""Offers from tables: the shipped one, a CSV or JSON of the user's own, SkyPilot's catalogue rows. Pure: rows in, offers out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from anycard.errors import UsageError
from anycard.offers.money import PriceError, parse_decimal, parse_price
from anycard.offers.offer import HOURS_PER_MONTH, OWN, Offer, Origin, Term
from anycard.offers.own import hardware_of_row, own_offer

_CURRENCY = re.compile(r"^[A-Z]{3}$")
# Other spellings of our columns, SkyPilot's among them.
_COLUMNS = {
    "instancetype": "instance",
    "acceleratorname": "card",
    "acceleratorcount": "card_count",
    "gpu": "card",
    "gpu_count": "card_count",
    "gpu_mem_gib": "card_memory_gib",
    "vcpus": "cpus",
    "vcpu": "cpus",
    "memorygib": "memory_gib",
    "mem_gib": "memory_gib",
    "price": "on_demand_per_h",
    "spotprice": "spot_per_h",
    "storage_per_gb_month": "storage_running_per_gb_month",
}
_MONTHS_MAX = Decimal(600)
STOPS = ("disk-billed", "billed-in-full", "no-stop")  # what a stopped machine costs
_STEPS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


class CatalogueError(UsageError):
    """A table of offers that cannot be read; says the row and what is wrong with it."""

    code = "bad-catalogue"


def parse_offers(rows: Iterable[Mapping[str, object]], source: str = "", known_by: str = "") -> tuple[Offer, ...]:
    """One offer a row, with ids that stay the same as long as provider, instance and region do. ``known_by``: the day of the table, ISO.

    Raises CatalogueError for negative or absurd prices, unknown currencies, missing columns. A price of 0.00 means unknown.
    """
    offers: list[Offer] = []
    taken: dict[str, int] = {}
    for number, raw in enumerate(rows, start=2):
        row = {_column(str(key)): "" if value is None else str(value) for key, value in raw.items() if key is not None}
        try:
            offer = _offer(row, source, known_by)
        except PriceError as error:
            raise CatalogueError(
                "row {row}: {fault}", hint="correct it or leave it out", row=number, fault=str(error)
            ) from None
        count = taken[offer.id] = taken.get(offer.id, 0) + 1
        if count > 1:
            offer = replace(offer, id=f"{offer.id}-{count}")
        offers.append(offer)
    return tuple(offers)


def find_offer(offers: Iterable[Offer], offer_id: str) -> Offer:
    """Raises CatalogueError with the nearest ids."""
    known = {offer.id: offer for offer in offers}
    if offer_id in known:
        return known[offer_id]
    import difflib

    near = difflib.get_close_matches(offer_id, list(known), n=3, cutoff=0.4)
    raise CatalogueError(
        "no offer is called {offer}",
        hint="near it: {near}; anycard offers lists them" if near else "anycard offers lists them",
        offer=offer_id,
        near=", ".join(near),
    )


def _offer(row: Mapping[str, str], source: str, known_by: str) -> Offer:
    provider, instance = row.get("provider", "").strip(), row.get("instance", "").strip()
    if not provider and not instance:
        raise PriceError("it names neither provider nor instance")
    currency = (row.get("currency", "") or "USD").strip().upper()
    if not _CURRENCY.match(currency):
        raise PriceError("{currency} is no currency", currency=currency[:20])
    region = row.get("region", "").strip()
    offer = _priced(row, provider, instance, region, currency, source, known_by)
    owned = hardware_of_row(row, currency)
    if owned is None:
        return offer
    figures = own_offer(owned)
    return replace(
        offer,
        place=OWN,
        card_count=figures.card_count,
        on_demand_per_h=figures.on_demand_per_h,
        billing_step_s=offer.billing_step_s or figures.billing_step_s,
        egress_per_gb=offer.egress_per_gb or figures.egress_per_gb,
        ingress_per_gb=offer.ingress_per_gb or figures.ingress_per_gb,
        storage_running_per_gb_month=offer.storage_running_per_gb_month or figures.storage_running_per_gb_month,
        storage_stopped_per_gb_month=offer.storage_stopped_per_gb_month or figures.storage_stopped_per_gb_month,
        start_s=offer.start_s or figures.start_s,
        persistence=offer.persistence or figures.persistence,
    )


def with_terms(offers: Iterable[Offer]) -> Iterator[Offer]:
    """Each offer, and after it its longer leases as offers of their own (``ID:monthly``): billed by the whole term, used or not."""
    for offer in offers:
        yield offer
        for term in offer.terms:
            length_s = round(term.months * HOURS_PER_MONTH * 3600)
            yield replace(
                offer,
                id=f"{offer.id}:{term.name}",
                on_demand_per_h=term.per_h,
                spot_per_h=None,
                billing_step_s=length_s,
                minimum_s=length_s,
                terms=(),
                origins=_of_a_lease(offer.origins),
            )


def _of_a_lease(origins: Mapping[str, Origin]) -> Mapping[str, Origin]:
    """The price of a lease is what whoever tells the terms says."""
    said = origins.get("terms")
    return origins if said is None else {**origins, "on_demand_per_h": said}


def _priced(
    row: Mapping[str, str], provider: str, instance: str, region: str, currency: str, source: str, known_by: str
) -> Offer:
    on_demand = parse_price(row.get("on_demand_per_h", ""), "on_demand_per_h")
    return Offer(
        id=row.get("id", "").strip() or _slug(provider, instance, region),
        provider=provider or "own",
        instance=instance or "-",
        card=row.get("card", "").strip(),
        card_count=_count(row),
        currency=currency,
        card_memory_gib=_number(row, "card_memory_gib"),
        link=row.get("link", "").strip(),
        cpus=_number(row, "cpus"),
        memory_gib=_number(row, "memory_gib"),
        region=region,
        on_demand_per_h=on_demand,
        spot_per_h=parse_price(row.get("spot_per_h", ""), "spot_per_h"),
        billing_step_s=parse_step(row.get("billing_step_s", "") or row.get("billing_granularity", "")),
        minimum_s=parse_seconds(row.get("minimum_s", "")),
        storage_running_per_gb_month=_number(row, "storage_running_per_gb_month"),
        storage_stopped_per_gb_month=_number(row, "storage_stopped_per_gb_month"),
        storage_free_gb=_number(row, "storage_free_gb"),
        egress_per_gb=_number(row, "egress_per_gb"),
        egress_free_gb=_number(row, "egress_free_gb"),
        ingress_per_gb=_number(row, "ingress_per_gb"),
        storage_read_mb_s=_number(row, "storage_read_mb_s"),
        network_mb_s=_number(row, "network_mb_s"),
        start_s=parse_seconds(row.get("start_s", "")),
        stop=parse_stop(row.get("stop", "")),
        persistence=row.get("persistence", "").strip(),
        terms=parse_leases(row.get("terms", ""), on_demand),
        source=row.get("source", "").strip() or source,
        source_date=row.get("source_date", "").strip(),
        note=row.get("note", "").strip(),
        known_by=known_by,
        place=row.get("place", "").strip() or "rented",
    )


def _count(row: Mapping[str, str]) -> Decimal:
    """Where a row does not say how many: one, if it names a card."""
    said = _number(row, "card_count")
    return Decimal(1 if row.get("card", "").strip() else 0) if said is None else said


def _column(name: str) -> str:
    plain = name.strip().lower().replace(" ", "_")
    return _COLUMNS.get(plain, plain)


def _number(row: Mapping[str, str], column: str) -> Decimal | None:
    return parse_decimal(row.get(column, ""), column, most=Decimal(10_000_000))


def parse_seconds(text: str) -> int | None:
    """Raises PriceError."""
    value = parse_decimal(text, "seconds", most=Decimal(366 * 86400))
    return None if value is None else int(value)


def parse_step(text: str) -> int | None:
    """Seconds, of ``60`` or ``per minute``; None where it is not said. Raises PriceError."""
    stripped = text.strip().lower()
    match = re.search(r"(second|minute|hour|day)", stripped)
    if match:
        return _STEPS[match[1]]
    step = parse_seconds(stripped)
    return step if step else None


def parse_stop(text: str) -> str:
    """One of STOPS, or nothing. Raises PriceError."""
    stop = text.strip().lower()
    if stop and stop not in STOPS:
        raise PriceError("{stop} is no way to stop", hint=", ".join(STOPS), stop=stop[:40])
    return stop


def parse_leases(text: str, on_demand: Decimal | None) -> tuple[Term, ...]:
    """``monthly=1200; 1-year=-8%``: a length with its price for the whole of it, or what is taken off ``on_demand`` (an hour; what is
    taken off an unknown price is unknown, and left out). Raises PriceError."""
    terms: list[Term] = []
    for piece in filter(None, (part.strip() for part in text.split(";"))):
        name, _, price = (part.strip() for part in piece.partition("="))
        months = _months(name)
        if months is None or not 0 < months <= _MONTHS_MAX:
            raise PriceError("{name} is no length of a lease", hint="monthly, 6-month, 1-year", name=name[:40])
        per_h = _discounted(price, name, on_demand) if price.endswith("%") else _per_hour(price, name, months)
        if per_h is not None:
            terms.append(Term(name, months, per_h))
    return tuple(terms)


def _per_hour(price: str, name: str, months: Decimal) -> Decimal | None:
    total = parse_price(price, name, most=Decimal(100_000_000))
    return None if total is None else total / (months * HOURS_PER_MONTH)


def _discounted(price: str, name: str, on_demand: Decimal | None) -> Decimal | None:
    off = parse_decimal(price.removeprefix("-").removesuffix("%"), name, most=Decimal(99))
    if off is None or not price.startswith("-"):
        raise PriceError("{price} takes nothing off", hint="write -8%", price=price[:20])
    return None if on_demand is None else on_demand * (100 - off) / 100


def _months(name: str) -> Decimal | None:
    match = re.search(r"(\d*)\s*-?\s*(month|year|week)", name.lower())
    if not match:
        return None
    count = Decimal(match[1] or 1)
    return count * {"month": Decimal(1), "year": Decimal(12), "week": Decimal(7) / Decimal(30)}[match[2]]


def _slug(*pieces: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(piece for piece in pieces if piece).lower()).strip("-")
