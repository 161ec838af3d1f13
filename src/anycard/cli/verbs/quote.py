"""quote: the itemised cost of a job on an offer. The lines add up to the total, to the last digit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.bill import bill, sources, today
from anycard.cli.luggage import DownloadGb, Kept, OutGb, Setup, StorageGb, luggage
from anycard.cli.output import document, note, safe, say
from anycard.cli.placing import length, work_of
from anycard.cli.sizingwords import decimal, offers_folder, said
from anycard.errors import UsageError
from anycard.i18n import N_, _
from anycard.jobs.places import AS_FAST
from anycard.model.text import Text
from anycard.units import format_duration

MORE = N_(
    "JOB.yaml is a job file, or a model's name for so many tokens. Prices that nobody knows are listed, not counted as zero."
)


def quote(
    job: Annotated[str, typer.Argument(metavar="JOB.yaml|MODEL", help=_("A job file, or a model's name"))],
    offer: Annotated[
        str | None, typer.Option("--offer", metavar="ID", help=_("An offer; anycard offers lists them"))
    ] = None,
    hours: Annotated[
        str | None, typer.Option("--hours", metavar="LENGTH", help=_("How long an item runs: 160, 10m, 2d"))
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=1, help=_("Tokens that a model generates"))
    ] = None,
    quant: Annotated[str | None, typer.Option("--quant", metavar="FORMAT", help=_("A model's weight format"))] = None,
    offers: Annotated[
        Path | None,
        typer.Option("--offers", metavar="FILE", help=_("A CSV or JSON of your own instead of the catalogue")),
    ] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", metavar="CODE", help=_("Show prices in CNY, USD or EUR"))
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option("--rate", metavar="CODE=UNITS", help=_("An exchange rate, units for one euro"))
    ] = None,
    setup: Setup = None,
    download_gb: DownloadGb = None,
    storage_gb: StorageGb = None,
    kept: Kept = None,
    out_gb: OutGb = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="SHARE", help=_("Share of the work done again, such as 0.1"))
    ] = None,
    forgotten: Annotated[
        str | None, typer.Option("--forgotten", metavar="LENGTH", help=_("Until somebody releases the card"))
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help=_("On a card that may be taken away"))] = False,
    spot_record: Annotated[
        Path | None, typer.Option("--spot-record", metavar="FILE", help=_("When the spot card was to be had"))
    ] = None,
    json: options.Json = False,
) -> int:
    from dataclasses import replace
    from decimal import Decimal

    from anycard.offers.catalogue import find_offer, with_terms
    from anycard.offers.files import known_offers, load_availability, load_offers, rates
    from anycard.offers.quote import quote as make_quote
    from anycard.sizing.cardspec import find_card
    from anycard.sizing.files import card_specs

    work = work_of(job, hours, tokens, quant)
    if offer is None:
        raise UsageError(
            "which offer?",
            hint="--offer ID takes one of those that anycard offers lists; anycard advise {job} compares them all",
            job=job,
        )
    chosen = find_offer(with_terms(load_offers(offers) if offers else known_offers(offers_folder())), offer)
    spec = find_card(chosen.card, card_specs()) if chosen.card else None
    assumed = list(work.assumed)
    item_s = work.seconds_on(spec) if spec else None
    if item_s is None:
        item_s = work.item_s
        unknown = Text("nothing is known to scale the time to {card}: it is taken as given", {"card": chosen.card})
        assumed.append(unknown if chosen.card else AS_FAST)
    if work.card_count:
        at_once = int(chosen.card_count // work.card_count)
    else:
        at_once = work.on_machine(chosen)
    packed = luggage(setup, download_gb, storage_gb, kept, out_gb)
    asked = replace(
        packed.quoted(round(work.total_s(item_s, max(1, at_once)))),
        failed_share=decimal(failed, "--failed") or Decimal(0),
        forgotten_s=0 if forgotten is None else round(length(forgotten, "--forgotten")),
        spot=spot,
    )
    record = load_availability(spot_record) if spot_record else None
    answer = make_quote(asked, chosen, rates=rates(rate or (), offers_folder()), currency=currency, record=record)
    if json:
        document(quote_json(answer, work.name, assumed))
    else:
        _print(answer, work.name, assumed)
    return 0


def quote_json(answer: Any, name: str, assumed: list[Text]) -> dict[str, Any]:
    from anycard.offers.money import shown

    return {
        "schema": "anycard.quote/1",
        "job": name,
        "offer": answer.offer.id,
        "currency": answer.currency,
        "lines": answer.to_json_lines(today()),
        "total": shown(answer.total),
        "total_p90": shown(answer.high),
        "elapsed_s": answer.elapsed_s,
        "elapsed_p90_s": answer.elapsed_high_s,
        "unknown": list(answer.unknown),
        "total_is_whole": not answer.missing,
        "assumed": [str(text) for text in assumed],
        "price_age_days": answer.offer.age_days(today()),
        "price_age_at_least_days": answer.offer.least_age_days(today()),
        "price_source": answer.offer.origin("on_demand_per_h").source,
        "rate_date": answer.rate_date,
    }


def _print(answer: Any, name: str, assumed: list[Text]) -> None:
    from anycard.offers.money import shown

    say(
        _(
            "{job} on {offer}, {length} from start to end",
            job=safe(name),
            offer=safe(answer.offer.id),
            length=format_duration(answer.elapsed_s),
        )
    )
    bill(answer)
    if answer.high > answer.total:
        say(_("  in nine of ten cases at most {high} {currency}", high=shown(answer.high), currency=answer.currency))
    sources(answer)
    for one in assumed:
        note(_("assumed: {text}", text=said(one)))
