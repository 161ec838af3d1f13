"""Where a job should run: here, on a rented card or on the CPU; ranked, with the reason in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from anycard.model.text import Text
from anycard.offers.money import Rates, shown
from anycard.offers.offer import OWN
from anycard.offers.own import Hardware, break_even_hours_a_week
from anycard.offers.quote import Quote
from anycard.units import format_duration

HERE, RENTED, CPU = "here", "rented", "cpu"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place where the job could run. ``cost`` None: a local run whose price nobody has given counts as free at the margin."""

    place: str
    name: str
    hours: float
    cost: Decimal
    hours_high: float
    card: str = ""
    vendor: str = ""
    region: str = ""
    quote: Quote | None = None
    note: Text | None = None

    @property
    def is_whole(self) -> bool:
        """False where a price of what is asked for is not known: it costs more than ``cost``."""
        return self.quote is None or not self.quote.missing

    def to_json(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "name": self.name,
            "card": self.card or None,
            "region": self.region or None,
            "hours": round(self.hours, 3),
            "hours_high": round(self.hours_high, 3),
            "cost": shown(self.cost),
            "offer": self.quote.offer.id if self.quote else None,
            "price_date": (self.quote.offer.source_date or None) if self.quote else None,
            "price_source": self.quote.offer.source if self.quote else None,
            "unknown": list(self.quote.unknown) if self.quote else [],
            "cost_is_whole": self.is_whole,
            "note": str(self.note) if self.note else None,
        }


@dataclass(frozen=True, slots=True)
class Wish:
    """What must hold (constraints) and what counts. ``by``: ``cost``, ``time`` or ``deadline`` (cheapest that ends in time, P90)."""

    by: str = "cost"
    deadline_h: float | None = None
    data_stays: bool = False
    vendors: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    cost_max: Decimal | None = None
    patience: float = 10.0  # places so many times as slow as the fastest rank last, however little they cost
    runs_a_week: float = 1.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that a constraint rules out, and which."""

    name: str
    reason: Text


@dataclass(frozen=True, slots=True)
class Advice:
    """``ranked``: best first. ``break_even_h_week``: hours a week from which buying beats the best rented offer, None if never or if
    there is nothing to compare (``compared``: the offer that it was compared with). ``rule_of_thumb``: what the usual rule says (``rent``
    or ``local``), beside what was computed."""

    ranked: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    reason: Text
    break_even_h_week: Decimal | None
    break_even_note: Text
    rule_of_thumb: str
    rule_agrees: bool | None
    currency: str
    compared: Candidate | None = None

    @property
    def choice(self) -> Candidate | None:
        return self.ranked[0] if self.ranked else None

    @property
    def runner_up(self) -> Candidate | None:
        return self.ranked[1] if len(self.ranked) > 1 else None

    def to_json(self) -> dict[str, Any]:
        return {
            "choice": self.choice.to_json() if self.choice else None,
            "runner_up": self.runner_up.to_json() if self.runner_up else None,
            "ranked": [candidate.to_json() for candidate in self.ranked],
            "rejected": [{"name": one.name, "reason": str(one.reason)} for one in self.rejected],
            "reason": str(self.reason),
            "break_even": {
                "hours_per_week": None if self.break_even_h_week is None else f"{self.break_even_h_week:.1f}",
                "note": str(self.break_even_note),
            },
            "rule_of_thumb": {"says": self.rule_of_thumb, "agrees": self.rule_agrees},
            "currency": self.currency,
        }


def advise(
    candidates: Iterable[Candidate],
    wish: Wish,
    *,
    currency: str,
    hardware: Hardware | None = None,
    rates: Rates | None = None,
) -> Advice:
    """Ranks what the constraints leave. ``hardware``: what would be bought instead, for the break-even."""
    kept: list[Candidate] = []
    rejected: list[Rejected] = []
    for candidate in candidates:
        reason = _forbidden(candidate, wish)
        if reason is None:
            kept.append(candidate)
        else:
            rejected.append(Rejected(candidate.name, reason))
    fastest = min((candidate.hours for candidate in kept), default=0.0)
    ranked = tuple(sorted(kept, key=lambda candidate: _order(candidate, wish, fastest)))
    compared = _comparable(ranked, hardware)
    even, note = _break_even(compared, hardware, rates)
    rule = _rule_of_thumb(ranked, wish)
    chosen = ranked[0].place if ranked else None
    agrees = None if chosen is None else (chosen == RENTED) == (rule == "rent")
    reason = _reason(ranked, wish, currency)
    return Advice(ranked, tuple(rejected), reason, even, note, rule, agrees, currency, compared)


def _forbidden(candidate: Candidate, wish: Wish) -> Text | None:
    local = candidate.place in (HERE, CPU, OWN)
    if wish.data_stays and not local:
        return Text("the data must stay here")
    if wish.vendors and candidate.vendor and candidate.vendor not in wish.vendors:
        return Text("{vendor} is not among the vendors asked for", {"vendor": candidate.vendor})
    if wish.regions and not local and not any(region in candidate.region for region in wish.regions):
        return Text("region {region} is not among those asked for", {"region": candidate.region or "?"})
    if wish.cost_max is not None and candidate.cost > wish.cost_max:
        return Text("it costs {cost}, more than {most}", {"cost": shown(candidate.cost), "most": shown(wish.cost_max)})
    if wish.by == "deadline" and wish.deadline_h is not None and candidate.hours_high > wish.deadline_h:
        return Text(
            "it may take {time}, the deadline is {limit}",
            {"time": _time(candidate.hours_high), "limit": _time(wish.deadline_h)},
        )
    return None


def _order(candidate: Candidate, wish: Wish, fastest_h: float) -> tuple[bool, bool, Decimal | float, Decimal | float]:
    """What a place does not say is not free: by cost, those whose bill is not wholly known come after those whose is."""
    if wish.by == "time":
        return (False, False, candidate.hours_high, candidate.cost)
    slow = wish.by == "cost" and candidate.hours > fastest_h * wish.patience
    return (slow, not candidate.is_whole, candidate.cost, candidate.hours_high)


def _reason(ranked: Sequence[Candidate], wish: Wish, currency: str) -> Text:
    if not ranked:
        return Text("nothing is left that meets the constraints")
    best = ranked[0]
    told: dict[str, str | int | float] = {
        "name": best.name,
        "cost": _cost(best),
        "currency": currency,
        "time": _time(best.hours),
    }
    if len(ranked) == 1:
        return Text("{name} is all that is left: {cost} {currency}, {time}", told)
    second = ranked[1]
    told |= {"other": second.name, "other_cost": _cost(second), "other_time": _time(second.hours)}
    if wish.by == "time":
        return Text("{name} ends first, after {time} for {cost} {currency}; {other} needs {other_time}", told)
    if wish.by == "deadline":
        return Text(
            "{name} is the cheapest that ends in time: {cost} {currency}, {time}; {other} costs {other_cost} {currency}",
            told,
        )
    return Text(
        "{name} costs least: {cost} {currency} in {time}; {other} costs {other_cost} {currency} in {other_time}", told
    )


def _cost(candidate: Candidate) -> str:
    """With what is missing of it."""
    return shown(candidate.cost) + ("" if candidate.is_whole else " + ?")


def _comparable(ranked: Sequence[Candidate], hardware: Hardware | None) -> Candidate | None:
    """The best rented offer; like is compared with like where the same card is for rent."""
    offers = [one for one in ranked if one.place == RENTED and one.quote is not None]
    same = [one for one in offers if hardware is not None and one.card == hardware.card]
    return next(iter(same or offers), None)


def _break_even(
    rented: Candidate | None, hardware: Hardware | None, rates: Rates | None
) -> tuple[Decimal | None, Text]:
    if rented is None or rented.quote is None:
        return None, Text("there is no rented offer to compare with")
    if hardware is None:
        return None, Text("give the price of what you would buy (--buy PRICE) for the break-even")
    price = rented.quote.offer.on_demand_per_h
    if price is None:
        return None, Text("{offer} has no on-demand price to compare with", {"offer": rented.quote.offer.id})
    rent = price if rates is None else rates.convert(price, rented.quote.offer.currency, hardware.currency)
    hours = break_even_hours_a_week(hardware, rent)
    told: dict[str, str | int | float] = {"offer": rented.quote.offer.id, "card": hardware.card}
    if hours is None:
        return None, Text("renting {offer} stays cheaper than buying, even around the clock", told)
    return hours, Text(
        "from {hours} h a week over {years} years buying {card} beats renting {offer}",
        told | {"hours": round(float(hours), 1), "years": f"{hardware.life_years:g}"},
    )


def _time(hours: float) -> str:
    return format_duration(hours * 3600)


def _rule_of_thumb(ranked: Sequence[Candidate], wish: Wish) -> str:
    """Rent when a task runs over an hour several times a week; else local and quantised."""
    longest_local = min((one.hours for one in ranked if one.place != RENTED), default=None)
    hours = longest_local if longest_local is not None else (ranked[0].hours if ranked else 0.0)
    return "rent" if hours > 1 and wish.runs_a_week >= 3 else "local"
