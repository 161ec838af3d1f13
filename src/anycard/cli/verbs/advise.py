"""advise: here, rented or on the CPU, ranked by cost, time or deadline, with the reason and the break-even of buying."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.placing import Work, length, work_of
from anycard.cli.sizingwords import cpu_spec, decimal, local_specs, offers_folder, said
from anycard.cli.tables import table
from anycard.cli.verbs.quote import AS_FAST, cpu_items, price_seen
from anycard.errors import UsageError
from anycard.i18n import N_, _
from anycard.model.text import Text
from anycard.units import format_duration

MORE = N_("The answer counts start, billing step and storage; what would be bought instead is given with --buy.")
Words = Callable[..., str]
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
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help=_("At most so many places"))] = 10,
    json: options.Json = False,
) -> int:
    from anycard.offers.advice import Wish
    from anycard.offers.advice import advise as rank
    from anycard.offers.files import known_offers, load_offers, rates

    if by not in _BY:
        raise UsageError("--by {by} is not known; cost, time and deadline are", by=by)
    if by == "deadline" and deadline is None:
        raise UsageError("--by deadline needs --deadline LENGTH")
    work = work_of(job, hours, tokens, quant)
    exchange = rates(rate or (), offers_folder())
    wish = Wish(
        by="deadline" if deadline is not None and by == "cost" else by,
        deadline_h=None if deadline is None else length(deadline, "--deadline") / 3600,
        data_stays=data_stays,
        vendors=frozenset(name.lower() for name in vendor or ()),
        regions=frozenset(region or ()),
        cost_max=decimal(most, "--max-cost"),
        runs_a_week=runs,
    )
    words = _english if json else _
    candidates = [*_here(work, decimal(here_per_h, "--here-per-h"), words), *_cpu(work, words)]
    rented = _rented(work, load_offers(offers) if offers else known_offers(offers_folder()), exchange, currency, words)
    candidates += rented
    hardware, told = _hardware(candidates, buy, life, watts, kwh, exchange, currency, words)
    if rented and not work.card_count:
        told.append(AS_FAST)
    answer = rank(candidates, wish, currency=currency, hardware=hardware, rates=exchange)
    if json:
        body = answer.to_json()
        body["ranked"] = body["ranked"][:limit]
        body["rejected"] = body["rejected"][:limit]
        assumed = [str(text) for text in (*work.assumed, *told)]
        document({"schema": "anycard.advice/1", "job": work.name, "by": wish.by, "assumed": assumed, **body})
    else:
        _print(answer, work, [*work.assumed, *told], limit)
    return 0 if answer.choice else 3


def _english(msgid: str, /, **params: object) -> str:
    """Names in JSON stay English."""
    return msgid.format_map(params)


def _here(work: Work, per_h: Any, words: Words) -> list[Any]:
    from decimal import Decimal

    from anycard.offers.advice import HERE, Candidate

    found = []
    for spec, count in local_specs():
        seconds = work.seconds_on(spec) if count >= work.card_count and work.card_count and work.fits(spec) else None
        if seconds is None:
            continue
        hours = work.total_s(seconds, count // work.card_count) / 3600
        cost = (per_h or Decimal(0)) * Decimal(str(hours))
        name = words(N_("here, {count} x {card}"), count=work.card_count, card=spec.model)
        found.append(Candidate(HERE, name, hours, cost, hours * 1.15, spec.model, spec.vendor))
    return found


def _cpu(work: Work, words: Words) -> list[Any]:
    import os
    from decimal import Decimal

    from anycard.offers.advice import CPU, Candidate

    spec = cpu_spec()
    seconds = work.seconds_on(spec) if work.may_use_cpu and work.fits(spec) else None
    at_once = work.at_once(float(os.cpu_count() or 1), spec.memory_bytes)
    if seconds is None or not at_once:
        return []
    hours = work.total_s(seconds, at_once) / 3600
    return [Candidate(CPU, words(N_("here, on the CPU")), hours, Decimal(0), hours * 1.4, "CPU", "cpu")]


def _rented(work: Work, offers: Any, exchange: Any, currency: str, words: Words) -> list[Any]:
    from anycard.offers.advice import RENTED, Candidate
    from anycard.offers.money import PriceError
    from anycard.offers.quote import QuoteJob, quote
    from anycard.sizing.cardspec import find_card
    from anycard.sizing.files import card_specs

    found = []
    specs: dict[tuple[str, Any], Any] = {}
    on_cpu = cpu_spec()
    for offer in offers:
        if offer.on_demand_per_h is None:
            continue
        if work.card_count:
            sold = (offer.card, offer.card_memory_gib)
            if sold not in specs:
                with_size = f"{offer.card} {offer.card_memory_gib}GB" if offer.card_memory_gib else offer.card
                specs[sold] = find_card(with_size, card_specs()) or find_card(offer.card, card_specs())
            spec, at_once = specs[sold], int(offer.card_count // work.card_count)
            name = words(
                N_("{provider}, {count} x {card}"), provider=offer.provider, count=work.card_count, card=offer.card
            )
        else:
            spec, at_once = on_cpu, 0 if offer.card or offer.cpus is None else cpu_items(work, offer)
            name = words(N_("{provider}, {count} CPUs"), provider=offer.provider, count=f"{offer.cpus or 0:g}")
        seconds = work.seconds_on(spec) if spec is not None and at_once and work.fits(spec) else None
        if seconds is None:
            continue
        total_s = work.total_s(seconds, at_once)
        try:
            priced = quote(QuoteJob(work_s=round(total_s)), offer, rates=exchange, currency=currency)
        except PriceError as error:
            note(_("left out: {text}", text=safe(error)))
            continue
        hours = priced.elapsed_s / 3600
        found.append(
            Candidate(RENTED, name, hours, priced.total, hours * 1.15, spec.model, spec.vendor, offer.region, priced)
        )
    return found


def _hardware(
    candidates: list[Any],
    buy: str | None,
    life: str,
    watts: str,
    kwh: str,
    exchange: Any,
    currency: str,
    words: Words,
) -> tuple[Any, list[Text]]:
    """What would be bought instead, and what was assumed of it. Without --buy the cheapest rented card at its launch price."""
    from decimal import Decimal

    from anycard.offers.own import Hardware
    from anycard.sizing.files import card_by_name

    rented = sorted((one for one in candidates if one.quote is not None), key=lambda one: one.cost)
    if not rented:
        return None, []
    price, assumed = decimal(buy, "--buy"), []
    specs = [card_by_name(one.card) for one in rented if one.card != "CPU"]
    spec = specs[0] if specs else None
    if price is None:
        priced = [one for one in specs if one.msrp_usd is not None]
        if not priced:
            return None, []
        spec = priced[0]
        price = exchange.convert(Decimal(str(spec.msrp_usd)), "USD", currency)
        bought = Text("a {card} is bought at its launch price, nothing else around it (--buy)", {"card": spec.model})
        assumed.append(bought)
    drawn = decimal(watts, "--watts") or Decimal(str(spec.tdp_w or 0) if spec else 0)
    hardware = Hardware(
        card=spec.model if spec else words(N_("a machine")),
        card_count=1,
        card_price=price,
        currency=currency,
        life_years=decimal(life, "--life") or Decimal(4),
        watts=drawn,
        electricity_per_kwh=decimal(kwh, "--kwh") or Decimal(0),
    )
    return hardware, assumed


def _print(answer: Any, work: Work, assumed: list[Text], limit: int) -> None:
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
    if any(one.quote for one in answer.ranked):
        say(said(answer.break_even_note))
    if answer.choice and answer.choice.quote:
        note(price_seen(answer.choice.quote.offer))
    if answer.rule_agrees is not None and work.card_count:  # the rule is about cards
        stay = _("stay local and quantise") if work.of_model else _("stay local")
        rule = _("rent") if answer.rule_of_thumb == "rent" else stay
        agrees = _("as computed") if answer.rule_agrees else _("unlike what was computed")
        say(_("the rule of thumb says: {rule}, {agrees}", rule=rule, agrees=agrees))
    for text in assumed:
        note(_("assumed: {text}", text=said(text)))
    for one in answer.rejected[:limit]:
        note(_("ruled out: {name}: {reason}", name=safe(one.name), reason=said(one.reason)))
