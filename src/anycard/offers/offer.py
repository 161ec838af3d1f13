"""An offer: a card that could be had, with its price terms. What a provider does not say is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from anycard.offers.money import shown

HOURS_PER_MONTH = Decimal(730)
# Prices of data kept and moved, not of time.
BY_AMOUNT = ("storage_running_per_gb_month", "storage_stopped_per_gb_month", "egress_per_gb", "ingress_per_gb")
OWN = "own"  # the place of what one has bought


@dataclass(frozen=True, slots=True)
class Term:
    """A longer lease: ``name`` ("monthly", "1-year"), its length in months and its price an hour, paid whether used or not."""

    name: str
    months: Decimal
    per_h: Decimal


@dataclass(frozen=True, slots=True)
class Origin:
    """Who says a figure and when: an address, the day it was seen (empty: not told), and what it is of. ``known_by``: the day of the
    table that it stands in, ISO: it was seen on that day at the latest."""

    source: str = ""
    source_date: str = ""
    note: str = ""
    known_by: str = ""

    def age_days(self, today: date) -> int | None:
        """Days since the figure was seen; None where its source gives no day."""
        day = _day(self.source_date)
        return None if day is None else (today - day).days

    def least_age_days(self, today: date) -> int | None:
        """Days since the figure was seen, at least: by the day of the table, where the figure has none."""
        age = self.age_days(today)
        day = _day(self.known_by)
        return age if age is not None or day is None else max(0, (today - day).days)

    def to_json(self, today: date) -> dict[str, Any]:
        return {
            "source": self.source,
            "source_date": self.source_date or None,
            "age_days": self.age_days(today),
            "age_at_least_days": self.least_age_days(today),
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class Offer:
    """Prices are for the whole instance, an hour, in ``currency``; storage a GB and month, egress (out) and ingress (in) a GB.

    ``billing_step_s``: time is rounded up to it; ``minimum_s``: the least that is billed. ``place``: ``rented``, ``own`` or ``here``.
    ``card_count`` may be a fraction (a slice) or 0 (CPU only). ``storage_free_gb`` and ``egress_free_gb`` (a month) cost nothing.
    ``stop``: what a stopped machine costs: ``disk-billed`` (its disk alone), ``billed-in-full``, or ``no-stop`` (it can only be deleted).
    ``persistence``: what outlives a stop: ``persistent`` (its disk) or ``volumes-only``. Bandwidths as the provider says them, MB a second.
    ``origins``: of the figures that somebody else says than the row's own source, by field (a provider's terms).
    """

    id: str
    provider: str
    instance: str
    card: str
    card_count: Decimal
    currency: str
    card_memory_gib: Decimal | None = None
    link: str = ""
    cpus: Decimal | None = None
    memory_gib: Decimal | None = None
    region: str = ""
    on_demand_per_h: Decimal | None = None
    spot_per_h: Decimal | None = None
    billing_step_s: int | None = None
    minimum_s: int | None = None
    storage_running_per_gb_month: Decimal | None = None
    storage_stopped_per_gb_month: Decimal | None = None
    storage_free_gb: Decimal | None = None
    egress_per_gb: Decimal | None = None
    egress_free_gb: Decimal | None = None
    ingress_per_gb: Decimal | None = None
    storage_read_mb_s: Decimal | None = None
    network_mb_s: Decimal | None = None
    start_s: int | None = None
    stop: str = ""
    persistence: str = ""
    terms: tuple[Term, ...] = ()
    source: str = ""
    source_date: str = ""
    note: str = ""
    place: str = "rented"
    known_by: str = ""  # the day of the table that it stands in: its price was seen on that day at the latest
    origins: Mapping[str, Origin] = field(default_factory=dict, hash=False)

    def origin(self, name: str) -> Origin:
        """Who says the figure ``name``: the provider's terms, else the row itself."""
        own = Origin(self.source, self.source_date, self.note, self.known_by)
        return self.origins.get(name, own)

    def least_age_days(self, today: date) -> int | None:
        """Days since the price was seen, at least: by the day of the table, where the row gives none."""
        return self.origin("on_demand_per_h").least_age_days(today)

    def age_days(self, today: date) -> int | None:
        """Days since the price was seen; None where its source gives no day."""
        return self.origin("on_demand_per_h").age_days(today)

    def to_json(self, today: date) -> dict[str, Any]:
        def text(value: Decimal | None) -> str | None:
            return None if value is None else shown(value)

        return {
            "id": self.id,
            "provider": self.provider,
            "instance": self.instance,
            "card": self.card or None,
            "card_count": float(self.card_count),
            "card_memory_gib": None if self.card_memory_gib is None else float(self.card_memory_gib),
            "link": self.link or None,
            "cpus": None if self.cpus is None else float(self.cpus),
            "memory_gib": None if self.memory_gib is None else float(self.memory_gib),
            "region": self.region or None,
            "currency": self.currency,
            "on_demand_per_h": text(self.on_demand_per_h),
            "spot_per_h": text(self.spot_per_h),
            "billing_step_s": self.billing_step_s,
            "minimum_s": self.minimum_s,
            "storage_running_per_gb_month": text(self.storage_running_per_gb_month),
            "storage_stopped_per_gb_month": text(self.storage_stopped_per_gb_month),
            "storage_free_gb": text(self.storage_free_gb),
            "egress_per_gb": text(self.egress_per_gb),
            "egress_free_gb": text(self.egress_free_gb),
            "ingress_per_gb": text(self.ingress_per_gb),
            "storage_read_mb_s": None if self.storage_read_mb_s is None else float(self.storage_read_mb_s),
            "network_mb_s": None if self.network_mb_s is None else float(self.network_mb_s),
            "start_s": self.start_s,
            "stop": self.stop or None,
            "persistence": self.persistence or None,
            "terms": [
                {"name": term.name, "months": str(term.months), "per_h": shown(term.per_h)} for term in self.terms
            ],
            "place": self.place,
            "source": self.source,
            "source_date": self.source_date or None,
            "age_days": self.age_days(today),
            "age_at_least_days": self.least_age_days(today),
            "note": self.note or None,
            "origins": {name: origin.to_json(today) for name, origin in self.origins.items()},
        }


def _day(text: str) -> date | None:
    """``2026-09-20``, ``2026-03`` (its first day), ``2023Q3``, ``2025``: the earliest day that it can mean."""
    parts = text.replace("Q", "-Q").split("-")
    try:
        year = int(parts[0])
        month = 1
        if len(parts) > 1 and parts[1]:
            month = int(parts[1][1:]) * 3 - 2 if parts[1].startswith("Q") else int(parts[1])
        elif len(parts) > 2 and parts[2].startswith("Q"):
            month = int(parts[2][1:]) * 3 - 2
        return date(year, month, int(parts[2]) if len(parts) > 2 and parts[2].isdigit() else 1)
    except (ValueError, IndexError):
        return None
