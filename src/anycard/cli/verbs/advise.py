"""advise: here, rented or on the CPU, ranked by cost, time or deadline, with the reason and the break-even of buying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.placing import Work, length, work_of
from anycard.cli.sizingwords import cpu_spec, decimal, local_specs, said
from anycard.cli.tables import table
from anycard.cli.verbs.quote import price_seen
from anycard.errors import UsageError
from anycard.i18n import N_, _
from anycard.units import format_duration

MORE = N_("The answer counts start, billing step and storage; what would be bought instead is given with --buy.")
_BY = ("cost", "time", "deadline")


def advise(
    job: Annotated[str, typer.Argument(metavar="JOB.yaml|MODEL", help=_("A job file, or a model's name"))],
    by: Annotated[str, typer.Option("--by", metavar="WHAT", help=_("cost, time or deadline"))] = "cost",
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="LENGTH", help=_("It must end within this"))
    ] = None,
    hours: Annotated[
        str | None, typer.Option("--hours", metavar="LENGTH", help=_("How long an item runs: 160, 10m, 2d"))
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=1, help=_("Tokens that a model generates"))
    ] = None,
    quant: Annotated[str | None, typer.Option("--quant", metavar="FORMAT", help=_("A model's weight format"))] = None,
    data_stays: Annotated[bool, typer.Option("--data-stays", help=_("The data must not leave this machine"))] = False,
    vendor: Annotated[
        list[str] | None, typer.Option("--vendor", metavar="NAME", help=_("Only cards of this vendor"))
    ] = None,
    region: Annotated[list[str] | None, typer.Option("--region", metavar="NAME", help=_("Only in this region"))] = None,
    most: Annotated[str | None, typer.Option("--max-cost", metavar="N", help=_("It may cost so much at most"))] = None,
    here_per_h: Annotated[
        str | None, typer.Option("--here-per-h", metavar="N", help=_("What an hour on this machine costs; electricity"))
    ] = None,
    runs: Annotated[float, typer.Option("--runs-a-week", metavar="N", min=0, help=_("How often the job runs"))] = 1.0,
    buy: Annotated[
        str | None, typer.Option("--buy", metavar="PRICE", help=_("Price of a machine that you might buy"))
    ] = None,
    life: Annotated[str, typer.Option("--life", metavar="YEARS", help=_("Years that it is used"))] = "4",
    watts: Annotated[str, typer.Option("--watts", metavar="N", help=_("Watts that it draws at work"))] = "0",
    kwh: Annotated[str, typer.Option("--kwh", metavar="PRICE", help=_("Price of a kilowatt-hour"))] = "0",
    offers: Annotated[
        Path | None,
        typer.Option("--offers", metavar="FILE", help=_("A CSV or JSON of your own instead of the catalogue")),
    ] = None,
    currency: Annotated[
        str, typer.Option("--currency", metavar="CODE", help=_("Show prices in CNY, USD or EUR"))
    ] = "USD",
    rate: Annotated[
        list[str] | None, typer.Option("--rate", metavar="CODE=UNITS", help=_("An exchange rate, units for one euro"))
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help=_("At most so many places (10 unless told)"))
    ] = 10,
    json: options.Json = False,
) -> int:
    from anycard.offers.advice import Wish
    from anycard.offers.advice import advise as rank
    from anycard.offers.files import load_offers, rates, shipped_offers

    if by not in _BY:
        raise UsageError("--by {by} is not known; cost, time and deadline are", by=by)
    if by == "deadline" and deadline is None:
        raise UsageError("--by deadline needs --deadline LENGTH")
    work = work_of(job, hours, tokens, quant)
    exchange = rates(rate or ())
    wish = Wish(
        by="deadline" if deadline is not None and by == "cost" else by,
        deadline_h=None if deadline is None else length(deadline, "--deadline") / 3600,
        data_stays=data_stays,
        vendors=frozenset(name.lower() for name in vendor or ()),
        regions=frozenset(region or ()),
        cost_max=decimal(most, "--max-cost"),
        runs_a_week=runs,
    )
    candidates = [*_here(work, decimal(here_per_h, "--here-per-h")), *_cpu(work)]
    candidates += _rented(work, load_offers(offers) if offers else shipped_offers(), exchange, currency)
    hardware, told = _hardware(candidates, buy, life, watts, kwh, exchange, currency)
    answer = rank(candidates, wish, currency=currency, hardware=hardware, rates=exchange)
    if json:
        body = answer.to_json()
        body["ranked"] = body["ranked"][:limit]
        body["rejected"] = body["rejected"][:limit]
        document(
            {"schema": "anycard.advice/1", "job": work.name, "by": wish.by, "assumed": [*work.assumed, *told], **body}
        )
    else:
        _print(answer, [*work.assumed, *told], limit)
    return 0 if answer.choice else 3


def _here(work: Work, per_h: Any) -> list[Any]:
    from decimal import Decimal

    from anycard.offers.advice import HERE, Candidate

    found = []
    for spec, count in local_specs():
        seconds = work.seconds_on(spec) if count >= work.card_count and work.card_count and work.fits(spec) else None
        if seconds is None:
            continue
        hours = work.total_s(seconds, count // work.card_count) / 3600
        cost = (per_h or Decimal(0)) * Decimal(str(hours))
        found.append(
            Candidate(
                HERE, f"here, {work.card_count} x {spec.model}", hours, cost, hours * 1.15, spec.model, spec.vendor
            )
        )
    return found


def _cpu(work: Work) -> list[Any]:
    from decimal import Decimal

    from anycard.offers.advice import CPU, Candidate

    spec = cpu_spec()
    seconds = work.seconds_on(spec) if work.may_use_cpu and work.fits(spec) else None
    if seconds is None:
        return []
    hours = work.total_s(seconds) / 3600
    return [Candidate(CPU, "here, on the CPU", hours, Decimal(0), hours * 1.4, "CPU", "cpu")]


def _rented(work: Work, offers: Any, exchange: Any, currency: str) -> list[Any]:
    from anycard.offers.advice import RENTED, Candidate
    from anycard.offers.money import PriceError
    from anycard.offers.quote import QuoteJob, quote
    from anycard.sizing.cardspec import find_card
    from anycard.sizing.files import card_specs

    found = []
    specs: dict[tuple[str, Any], Any] = {}
    for offer in offers:
        if offer.on_demand_per_h is None or offer.card_count < max(1, work.card_count) or not work.card_count:
            continue
        sold = (offer.card, offer.card_memory_gib)
        if sold not in specs:
            with_size = f"{offer.card} {offer.card_memory_gib}GB" if offer.card_memory_gib else offer.card
            specs[sold] = find_card(with_size, card_specs()) or find_card(offer.card, card_specs())
        spec = specs[sold]
        seconds = work.seconds_on(spec) if spec is not None and work.fits(spec) else None
        if seconds is None:
            continue
        total_s = work.total_s(seconds, int(offer.card_count // work.card_count))
        try:
            priced = quote(QuoteJob(work_s=round(total_s)), offer, rates=exchange, currency=currency)
        except PriceError as error:
            note(_("left out: {text}", text=safe(error)))
            continue
        hours = priced.elapsed_s / 3600
        name = f"{offer.provider}, {work.card_count} x {offer.card}"
        found.append(
            Candidate(RENTED, name, hours, priced.total, hours * 1.15, spec.model, spec.vendor, offer.region, priced)
        )
    return found


def _hardware(
    candidates: list[Any], buy: str | None, life: str, watts: str, kwh: str, exchange: Any, currency: str
) -> tuple[Any, list[str]]:
    """What would be bought instead, and what was assumed of it. Without --buy the cheapest rented card at its launch price."""
    from decimal import Decimal

    from anycard.offers.own import Hardware
    from anycard.sizing.files import card_by_name

    rented = sorted((one for one in candidates if one.quote is not None), key=lambda one: one.cost)
    if not rented:
        return None, []
    price, assumed = decimal(buy, "--buy"), []
    spec = card_by_name(rented[0].card)
    if price is None:
        priced = [found for one in rented if (found := card_by_name(one.card)).msrp_usd is not None]
        if not priced:
            return None, []
        spec = priced[0]
        price = exchange.convert(Decimal(str(spec.msrp_usd)), "USD", currency)
        assumed.append(f"buying: a {spec.model} at its launch price, nothing else around it (--buy)")
    drawn = decimal(watts, "--watts") or Decimal(str(spec.tdp_w or 0))
    hardware = Hardware(
        card=spec.model,
        card_count=1,
        card_price=price,
        currency=currency,
        life_years=decimal(life, "--life") or Decimal(4),
        watts=drawn,
        electricity_per_kwh=decimal(kwh, "--kwh") or Decimal(0),
    )
    return hardware, assumed


def _print(answer: Any, assumed: list[str], limit: int) -> None:
    from anycard.offers.money import shown

    say(said(answer.reason))
    rows = [
        [
            str(place),
            safe(one.name),
            format_duration(one.hours * 3600),
            f"{shown(one.cost)} {answer.currency}",
            safe(one.quote.offer.id if one.quote else ""),
        ]
        for place, one in enumerate(answer.ranked[:limit], 1)
    ]
    if rows:
        for line in table(
            ["", _("WHERE"), _("TIME"), _("COST"), _("OFFER")], rows, indent="  ", right=frozenset((2, 3))
        ):
            say(line)
    say(said(answer.break_even_note))
    if answer.choice and answer.choice.quote:
        note(price_seen(answer.choice.quote.offer))
    rule = {"rent": _("rent"), "local": _("stay local and quantise")}[answer.rule_of_thumb]
    if answer.rule_agrees is not None:
        agrees = _("as computed") if answer.rule_agrees else _("unlike what was computed")
        say(_("the rule of thumb says: {rule}, {agrees}", rule=rule, agrees=agrees))
    for text in assumed:
        note(_("assumed: {text}", text=safe(text)))
    for one in answer.rejected[:limit]:
        note(_("ruled out: {name}: {reason}", name=safe(one.name), reason=said(one.reason)))
