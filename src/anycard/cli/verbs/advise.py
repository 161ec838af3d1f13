"""advise: here, rented or on the CPU, ranked by cost, time or deadline, with the reason and the break-even of buying."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.bill import bill, price_seen, sources, today
from anycard.cli.luggage import DownloadGb, Kept, OutGb, Setup, StorageGb, luggage
from anycard.cli.output import document, note, safe, say
from anycard.cli.placing import length, work_of
from anycard.cli.sizingwords import decimal, local_cpu, local_specs, offers_folder, said
from anycard.cli.tables import table
from anycard.errors import UsageError
from anycard.i18n import N_, _
from anycard.jobs.places import AS_FAST, Luggage, Words, Work, bought_instead
from anycard.model.text import Text
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
    setup: Setup = None,
    download_gb: DownloadGb = None,
    storage_gb: StorageGb = None,
    kept: Kept = None,
    out_gb: OutGb = None,
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
    from anycard.offers.files import rates

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
    packed = luggage(setup, download_gb, storage_gb, kept, out_gb)
    candidates, rented, left_out = _candidates(
        work, packed, decimal(here_per_h, "--here-per-h"), offers, exchange, currency, words
    )
    possible = rank(
        candidates, wish, currency=currency
    ).ranked  # what a constraint rules out is nothing to compare with
    hardware, told = bought_instead(
        possible,
        decimal(buy, "--buy"),
        life_years=decimal(life, "--life"),
        watts=decimal(watts, "--watts"),
        per_kwh=decimal(kwh, "--kwh"),
        rates=exchange,
        currency=currency,
        machine=words(N_("a machine")),
        card_count=work.card_count,
    )
    if rented and not work.card_count:
        told.append(AS_FAST)
    answer = rank(candidates, wish, currency=currency, hardware=hardware, rates=exchange)
    if json:
        body = answer.to_json()
        body["ranked"] = body["ranked"][:limit]
        for name, one in (("choice", answer.choice), ("runner_up", answer.runner_up)):
            if one is not None and one.quote is not None:
                body[name]["lines"] = one.quote.to_json_lines(today())
        body["rejected"] = body["rejected"][:limit]
        assumed = [str(text) for text in (*work.assumed, *told)]
        document(
            {
                "schema": "anycard.advice/1",
                "job": work.name,
                "by": wish.by,
                "assumed": assumed,
                "left_out": left_out,
                **body,
            }
        )
    else:
        _print(answer, work, [*work.assumed, *told], limit)
    for why in left_out:
        note(_("left out: {text}", text=safe(why)))
    return 0 if answer.choice else 3


def _candidates(
    work: Work,
    packed: Luggage,
    here_per_h: Any,
    table_of: Path | None,
    exchange: Any,
    currency: str,
    words: Words,
) -> tuple[list[Any], list[Any], list[str]]:
    """(every place, the rented ones among them, why others are not)."""
    import os

    from anycard.jobs.places import here, on_cpu, rented
    from anycard.offers.files import known_offers, load_offers

    cpu = local_cpu()
    offers = load_offers(table_of) if table_of else known_offers(offers_folder())
    found, left_out = rented(work, offers, cpu, exchange, currency, words, packed)
    local = [*here(work, local_specs(), here_per_h, words), *on_cpu(work, cpu, float(os.cpu_count() or 1), words)]
    return [*local, *found], found, left_out


def _english(msgid: str, /, **params: object) -> str:
    """Names in JSON stay English."""
    return msgid.format_map(params)


def _print(answer: Any, work: Work, assumed: list[Text], limit: int) -> None:
    from anycard.offers.money import shown

    say(said(answer.reason))
    rows = [
        [
            str(place),
            safe(one.name),
            format_duration(one.hours * 3600),
            f"{shown(one.cost)} {answer.currency}" + ("" if one.is_whole else " + ?"),
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
    _print_bill(answer.choice)
    partly = sum(1 for one in answer.ranked if not one.is_whole)
    if partly:
        note(_("places that do not say what all of it costs (+ ?), by cost they come last: {count}", count=partly))
    if answer.rule_agrees is not None and work.card_count:  # the rule is about cards
        stay = _("stay local and quantise") if work.of_model else _("stay local")
        rule = _("rent") if answer.rule_of_thumb == "rent" else stay
        agrees = _("as computed") if answer.rule_agrees else _("unlike what was computed")
        say(_("the rule of thumb says: {rule}, {agrees}", rule=rule, agrees=agrees))
    for text in assumed:
        note(_("assumed: {text}", text=said(text)))
    for one in answer.rejected[:limit]:
        note(_("ruled out: {name}: {reason}", name=safe(one.name), reason=said(one.reason)))


def _print_bill(choice: Any) -> None:
    """What the choice costs, line by line where there is more than its time, and who says so."""
    from anycard.offers.offer import BY_AMOUNT

    if choice is None or choice.quote is None:
        return
    if any(line.figure in BY_AMOUNT for line in choice.quote.lines) or choice.quote.missing:
        bill(choice.quote)
        sources(choice.quote)
    else:
        note(price_seen(choice.quote.offer))
