"""An itemised cost of a job on an offer. Every line is rounded, and the total is the sum of the lines, to the last digit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from anycard.model.text import Text
from anycard.offers.money import PriceError, Rates, exact, shown
from anycard.offers.offer import BY_AMOUNT, HOURS_PER_MONTH, Offer
from anycard.offers.spot import Availability, SpotJob, forecast

_HOUR = Decimal(3600)
_ZERO = Decimal(0)
_LONGEST_S = 100 * 365 * 86400
# What the price of a disk after the work takes for granted, by what a stop costs there.
_STOPS = {
    "billed-in-full": Text("the machine is deleted and its volume kept: stopped, it is billed in full"),
    "no-stop": Text("the machine is deleted and its volume kept: it cannot be stopped"),
}


@dataclass(frozen=True, slots=True)
class QuoteJob:
    """What is to be paid for. Seconds and GB (1e9 bytes).

    ``work_s``: undisturbed run time of the whole job on this offer. ``setup_s``: environment made, each time a card is had.
    ``download_gb`` come in at ``download_mb_s``; ``storage_gb`` kept while it runs and for ``stopped_s`` afterwards; ``data_out_gb``
    leaves the provider. ``failed_share``: share of the work done again after failures. ``forgotten_s``: until somebody notices that it
    is over.
    """

    work_s: int
    setup_s: int = 0
    download_gb: Decimal = _ZERO
    download_mb_s: Decimal = Decimal(100)
    storage_gb: Decimal = _ZERO
    stopped_s: int = 0
    data_out_gb: Decimal = _ZERO
    failed_share: Decimal = _ZERO
    forgotten_s: int = 0
    spot: bool = False
    restart_s: int = 300
    checkpoint_s: int | None = 30


@dataclass(frozen=True, slots=True)
class Line:
    """``quantity`` of ``unit`` at ``rate``; ``amount`` is what counts. ``figure``: the field of the offer that the rate is, which says
    where it comes from."""

    name: str
    amount: Decimal
    quantity: Decimal
    unit: str
    rate: Decimal
    note: Text | None = None
    figure: str = "on_demand_per_h"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "amount": shown(self.amount),
            "quantity": format(self.quantity.normalize(), "f"),
            "unit": self.unit,
            "rate": shown(self.rate),
            "note": str(self.note) if self.note else None,
        }


@dataclass(frozen=True, slots=True)
class Quote:
    """``lines`` add up to ``total`` exactly. ``elapsed_s``: from start to end. ``high`` and ``elapsed_high_s``: at the P90 where spot
    makes it uncertain, else the same. ``unknown``: what the offer does not say and is not in the total."""

    offer: Offer
    currency: str
    lines: tuple[Line, ...]
    elapsed_s: int
    elapsed_high_s: int
    high: Decimal
    unknown: tuple[str, ...]
    rate_date: str | None

    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines), _ZERO)

    @property
    def missing(self) -> tuple[str, ...]:
        """The prices of what is asked for that the offer does not say: the bill is higher than the total, nobody knows how much. Who says
        what leaving costs and nothing of coming in has never been seen to charge for that: it stays unknown, and is no reason to doubt."""
        told = () if self.offer.egress_per_gb is None else ("ingress_per_gb",)
        return tuple(name for name in self.unknown if name in BY_AMOUNT and name not in told)

    def to_json_lines(self, today: date) -> list[dict[str, Any]]:
        """The lines, each with who says its rate and when."""
        return [line.to_json() | {"origin": self.offer.origin(line.figure).to_json(today)} for line in self.lines]

    def line(self, name: str) -> Decimal:
        return sum((line.amount for line in self.lines if line.name == name), _ZERO)


def quote(
    job: QuoteJob, offer: Offer, *, rates: Rates, currency: str | None = None, record: Availability | None = None
) -> Quote:
    """Raises PriceError if the offer has no price for what is asked, or the job's figures make no sense.

    Spot needs ``record``, what the card's availability was; without it the work is priced as if never reclaimed, and that is said.
    """
    _check(job)
    wanted = currency or offer.currency
    price = offer.spot_per_h if job.spot else offer.on_demand_per_h
    if price is None:
        raise PriceError(
            "{offer} has no {kind} price",
            hint="its price is unknown, not zero",
            offer=offer.id,
            kind="spot" if job.spot else "on-demand",
        )
    per_h = rates.convert(price, offer.currency, wanted)
    unknown: list[str] = []
    start_s = _known(offer.start_s, "start_s", unknown)
    download_s = int(job.download_gb * 1000 / job.download_mb_s) if job.download_gb else 0
    setup_s = start_s + job.setup_s + download_s
    failed_s = int(job.work_s * job.failed_share)
    spot_s, spot_high_s, waiting_s, waiting_high_s, reclaims = _spot(job, record, unknown)
    busy_s = setup_s + job.work_s + failed_s + spot_s + job.forgotten_s
    lines = [
        _time("setup", setup_s, per_h, Text("start, environment and download")),
        _time("compute", job.work_s, per_h),
        _time("failed_tries", failed_s, per_h),
        _time(
            "spot_restarts",
            spot_s,
            per_h,
            Text("{count} reclaims on average: restarts and lost work", {"count": round(reclaims, 1)}),
        ),
        _time("forgotten", job.forgotten_s, per_h, Text("until the card is released")),
    ]
    step = offer.billing_step_s
    if step is None:
        unknown.append("billing_step_s")
    billed = max(-(-busy_s // (step or 1)) * (step or 1), offer.minimum_s or 0)
    if billed > busy_s:
        rounding = _time("billing_step", billed - busy_s, per_h, _rounding(billed, busy_s))
        bill = exact(
            Decimal(billed) / _HOUR * per_h
        )  # what is paid; the last line takes the crumbs of the others' rounding
        lines.append(replace(rounding, amount=bill - sum((line.amount for line in lines), _ZERO)))
    lines += _storage(job, offer, busy_s + waiting_s, rates, wanted, unknown)
    lines += _traffic(job, offer, rates, wanted, unknown)
    kept = tuple(line for line in lines if line.amount or line.name == "compute" or line.figure in BY_AMOUNT)
    if job.spot:
        kept = tuple(replace(line, figure="spot_per_h") if line.unit == "h" else line for line in kept)
    total = sum((line.amount for line in kept), _ZERO)
    extra = exact(per_h * Decimal(spot_high_s - spot_s) / _HOUR)
    return Quote(
        offer=offer,
        currency=wanted,
        lines=kept,
        elapsed_s=busy_s - job.forgotten_s + waiting_s,
        elapsed_high_s=busy_s - job.forgotten_s - spot_s + spot_high_s + waiting_high_s,
        high=total + max(_ZERO, extra),
        unknown=tuple(unknown),
        rate_date=None if wanted == offer.currency else rates.date,
    )


def _rounding(billed_s: int, used_s: int) -> Text:
    told: dict[str, str | int | float] = {"billed": billed_s}
    if not used_s:
        return Text("{billed} s are billed", told)
    return Text("{billed} s are billed, {times} times what is used", told | {"times": f"{billed_s / used_s:.3g}"})


def _check(job: QuoteJob) -> None:
    if not 0 <= job.work_s <= _LONGEST_S:
        raise PriceError("a run time of {seconds} s makes no sense", seconds=job.work_s)
    if min(job.setup_s, job.stopped_s, job.forgotten_s, job.restart_s) < 0 or job.failed_share < 0:
        raise PriceError("lengths and shares cannot be negative")
    if min(job.download_gb, job.storage_gb, job.data_out_gb) < 0 or job.download_mb_s <= 0:
        raise PriceError("amounts of data cannot be negative")


def _spot(job: QuoteJob, record: Availability | None, unknown: list[str]) -> tuple[int, int, int, int, float]:
    """Seconds paid and waited beyond the work itself: (paid P50, paid P90, waited P50, waited P90, reclaims)."""
    if not job.spot:
        return 0, 0, 0, 0, 0.0
    if record is None:
        unknown.append("spot_availability")
        return 0, 0, 0, 0, 0.0
    checkpoint = None if job.checkpoint_s is None else float(job.checkpoint_s)
    seen = forecast(record, SpotJob(float(job.work_s), float(job.restart_s), checkpoint))
    if seen is None or seen.elapsed_p50_s == float("inf"):
        raise PriceError("the spot card was never free long enough in the record for this job")
    paid, paid_high = int(seen.paid_p50_s), int(min(seen.paid_p90_s, _LONGEST_S))
    waited = max(0, int(seen.elapsed_p50_s) - paid)
    waited_high = max(0, int(min(seen.elapsed_p90_s, _LONGEST_S)) - paid_high)
    return max(0, paid - job.work_s), max(0, paid_high - job.work_s), waited, waited_high, seen.reclaims_mean


def _time(name: str, seconds: int, per_h: Decimal, note: Text | None = None) -> Line:
    hours = Decimal(seconds) / _HOUR
    return Line(name, exact(hours * per_h), hours, "h", per_h, note)


def _storage(job: QuoteJob, offer: Offer, held_s: int, rates: Rates, wanted: str, unknown: list[str]) -> list[Line]:
    """The disk while the machine is had, and afterwards. What is free of it stays free as long as the machine is there."""
    lines: list[Line] = []
    free = offer.storage_free_gb or _ZERO
    running = Text("{free} GB are free", {"free": f"{free:f}"}) if free else None
    for name, seconds, freed, note in (
        ("storage_running", held_s, free, running),
        ("storage_stopped", job.stopped_s, free if offer.stop == "disk-billed" else _ZERO, _STOPS.get(offer.stop)),
    ):
        if not seconds or not job.storage_gb:
            continue
        figure = f"{name}_per_gb_month"
        price = getattr(offer, figure)
        if price is None:
            unknown.append(figure)
            continue
        months = Decimal(seconds) / _HOUR / HOURS_PER_MONTH
        rate = rates.convert(price, offer.currency, wanted)
        amount = max(_ZERO, job.storage_gb - freed) * months
        lines.append(Line(name, exact(amount * rate), amount, "GB month", rate, note, figure))
    return lines


def _traffic(job: QuoteJob, offer: Offer, rates: Rates, wanted: str, unknown: list[str]) -> list[Line]:
    lines: list[Line] = []
    free = offer.egress_free_gb or _ZERO
    note = Text("the first {free} GB of a month are free", {"free": f"{free:f}"}) if free else None
    for name, gb, freed, figure, told in (
        ("data_in", job.download_gb, _ZERO, "ingress_per_gb", None),
        ("data_out", job.data_out_gb, free, "egress_per_gb", note),
    ):
        price = getattr(offer, figure)
        if not gb:
            continue
        if price is None:
            unknown.append(figure)
            continue
        rate = rates.convert(price, offer.currency, wanted)
        paid = max(_ZERO, gb - freed)
        lines.append(Line(name, exact(paid * rate), paid, "GB", rate, told, figure))
    return lines


def _known(value: int | None, name: str, unknown: list[str]) -> int:
    if value is None:
        unknown.append(name)
        return 0
    return value
