"""Own hardware as an offer: what an hour truly costs, and from how many hours a week buying beats renting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from anycard.offers.money import PriceError, parse_decimal
from anycard.offers.offer import Offer

_WEEKS_A_YEAR = Decimal(365) / Decimal(7)
_HOURS_A_WEEK = Decimal(168)
_LIFE_MIN, _LIFE_MAX = Decimal("0.08"), Decimal(100)  # years


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is bought, in one currency. ``watts``: cards and their share of the machine at work; ``idle_watts`` when nothing runs.

    ``idle_share``: of the hours in its life that it stands idle, 0..1. ``wage_per_h`` pays ``setup_hours`` and ``upkeep_hours_month``.
    """

    card: str
    card_count: int
    card_price: Decimal
    currency: str = "USD"
    host_price: Decimal = Decimal(0)  # board, processor, memory, disks, case
    power_supply_price: Decimal = Decimal(0)
    cooling_price: Decimal = Decimal(0)
    setup_hours: Decimal = Decimal(0)
    upkeep_hours_month: Decimal = Decimal(0)
    wage_per_h: Decimal = Decimal(0)
    life_years: Decimal = Decimal(4)
    resale: Decimal = Decimal(0)
    watts: Decimal = Decimal(0)
    idle_watts: Decimal = Decimal(0)
    electricity_per_kwh: Decimal = Decimal(0)
    idle_share: Decimal = Decimal("0.5")

    @property
    def capital(self) -> Decimal:
        """Paid before the first hour, less what it is sold for at the end."""
        things = self.card_price * self.card_count + self.host_price + self.power_supply_price + self.cooling_price
        return things + self.setup_hours * self.wage_per_h - self.resale

    @property
    def standing_per_week(self) -> Decimal:
        """A week without any work: capital over its life, upkeep, idle power."""
        upkeep = self.upkeep_hours_month * self.wage_per_h * 12 / _WEEKS_A_YEAR
        idle = self.idle_watts / 1000 * _HOURS_A_WEEK * self.electricity_per_kwh
        return self.capital / (self.life_years * _WEEKS_A_YEAR) + upkeep + idle

    @property
    def marginal_per_h(self) -> Decimal:
        """What one more busy hour costs: electricity."""
        return max(Decimal(0), self.watts - self.idle_watts) / 1000 * self.electricity_per_kwh

    @property
    def per_busy_hour(self) -> Decimal:
        """Everything, over the hours that it works."""
        busy = _HOURS_A_WEEK * (1 - self.idle_share)
        return self.standing_per_week / busy + self.marginal_per_h


def own_offer(hardware: Hardware, offer_id: str = "own") -> Offer:
    """The machine as an offer at its true price a busy hour. Raises PriceError for figures that cannot be."""
    _check(hardware)
    return Offer(
        id=offer_id,
        provider="own",
        instance="own hardware",
        card=hardware.card,
        card_count=Decimal(hardware.card_count),
        currency=hardware.currency,
        on_demand_per_h=hardware.per_busy_hour,
        billing_step_s=1,
        egress_per_gb=Decimal(0),
        ingress_per_gb=Decimal(0),
        storage_running_per_gb_month=Decimal(0),
        storage_stopped_per_gb_month=Decimal(0),
        start_s=0,
        persistence="persistent",
        place="own",
        source="own figures",
    )


# Columns of a table of offers that describe own hardware: a row that has ``card_price`` is priced by them.
_COLUMNS = (
    "card_price", "host_price", "power_supply_price", "cooling_price", "setup_hours", "upkeep_hours_month", "wage_per_h", "life_years",
    "resale", "watts", "idle_watts", "electricity_per_kwh", "idle_share",
)  # fmt: skip


def hardware_of_row(row: Mapping[str, str], currency: str) -> Hardware | None:
    """The hardware that a row of a table describes; None if it names no ``card_price``. Raises PriceError for what cannot be."""
    figures = {name: parse_decimal(row.get(name, ""), name, most=Decimal(100_000_000)) for name in _COLUMNS}
    if figures["card_price"] is None:
        return None
    count = parse_decimal(row.get("card_count", ""), "card_count", most=Decimal(100_000)) or Decimal(1)
    given = {name: value for name, value in figures.items() if value is not None}
    return Hardware(card=row.get("card", "").strip(), card_count=max(1, int(count)), currency=currency, **given)


def break_even_hours_a_week(hardware: Hardware, rent_per_h: Decimal) -> Decimal | None:
    """Busy hours a week from which owning is cheaper than renting at ``rent_per_h`` (same currency). None: never, even at 168."""
    _check(hardware)
    saved = rent_per_h - hardware.marginal_per_h
    if saved <= 0:
        return None
    hours = hardware.standing_per_week / saved
    return hours if hours <= _HOURS_A_WEEK else None


def _check(hardware: Hardware) -> None:
    if hardware.card_count < 1 or not _LIFE_MIN <= hardware.life_years <= _LIFE_MAX or not 0 <= hardware.idle_share < 1:
        raise PriceError("own hardware needs at least one card, a life of a month to a century and some hours of work")
    prices = (
        hardware.card_price,
        hardware.host_price,
        hardware.power_supply_price,
        hardware.cooling_price,
        hardware.wage_per_h,
    )
    if min(*prices, hardware.watts, hardware.electricity_per_kwh, hardware.resale) < 0:
        raise PriceError("prices and watts cannot be negative")
