"""Offers from tables: the shipped one, a CSV or JSON of the user's own, SkyPilot's catalogue rows. Pure: rows in, offers out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from anycard.errors import UsageError
from anycard.offers.money import PriceError, parse_decimal, parse_price
from anycard.offers.offer import HOURS_PER_MONTH, OWN, Offer, Term
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
            )


def _priced(
    row: Mapping[str, str], provider: str, instance: str, region: str, currency: str, source: str, known_by: str
) -> Offer:
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
        on_demand_per_h=parse_price(row.get("on_demand_per_h", ""), "on_demand_per_h"),
        spot_per_h=parse_price(row.get("spot_per_h", ""), "spot_per_h"),
        billing_step_s=_step(row.get("billing_step_s", "") or row.get("billing_granularity", "")),
        minimum_s=_seconds(row.get("minimum_s", "")),
        storage_running_per_gb_month=_number(row, "storage_running_per_gb_month"),
        storage_stopped_per_gb_month=_number(row, "storage_stopped_per_gb_month"),
        egress_per_gb=_number(row, "egress_per_gb"),
        start_s=_seconds(row.get("start_s", "")),
        persistence=row.get("persistence", "").strip(),
        terms=_terms(row.get("terms", "")),
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


def _seconds(text: str) -> int | None:
    value = parse_decimal(text, "seconds", most=Decimal(366 * 86400))
    return None if value is None else int(value)


def _step(text: str) -> int | None:
    """``60`` or ``per minute``; None where it is not said."""
    stripped = text.strip().lower()
    match = re.search(r"(second|minute|hour|day)", stripped)
    if match:
        return _STEPS[match[1]]
    step = _seconds(stripped)
    return step if step else None


def _terms(text: str) -> tuple[Term, ...]:
    """``monthly=1200; 1-year=9000``: a name with its price for the whole term."""
    terms: list[Term] = []
    for piece in filter(None, (part.strip() for part in text.split(";"))):
        name, _, price = piece.partition("=")
        months = _months(name)
        if months is None or not 0 < months <= _MONTHS_MAX:
            raise PriceError("{name} is no length of a lease", hint="monthly, 6-month, 1-year", name=name.strip()[:40])
        total = parse_price(price, name.strip(), most=Decimal(100_000_000))
        if total is not None:
            terms.append(Term(name.strip(), months, total / (months * HOURS_PER_MONTH)))
    return tuple(terms)


def _months(name: str) -> Decimal | None:
    match = re.search(r"(\d*)\s*-?\s*(month|year|week)", name.lower())
    if not match:
        return None
    count = Decimal(match[1] or 1)
    return count * {"month": Decimal(1), "year": Decimal(12), "week": Decimal(7) / Decimal(30)}[match[2]]


def _slug(*pieces: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(piece for piece in pieces if piece).lower()).strip("-")
