"""offers: cards that could be had and their price terms; with --provider a scorecard. Offline: the catalogue ships with anycard."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.sizingwords import said
from anycard.cli.tables import table
from anycard.i18n import _


def offers(
    card: Annotated[str | None, typer.Option("--card", metavar="NAME", help=_("Only offers of this card"))] = None,
    provider: Annotated[str | None, typer.Option("--provider", metavar="NAME", help=_("Only this provider's"))] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help=_("Only in this region"))] = None,
    file: Annotated[
        Path | None,
        typer.Option("--offers", metavar="FILE", help=_("A CSV or JSON of your own instead of the catalogue")),
    ] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", metavar="CODE", help=_("Show prices in CNY, USD or EUR"))
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option("--rate", metavar="CODE=UNITS", help=_("An exchange rate, units for one euro"))
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help=_("At most so many (100 unless told)"))
    ] = 100,
    json: options.Json = False,
) -> int:
    from anycard.offers.files import load_offers, rates, shipped_offers
    from anycard.offers.money import shown
    from anycard.offers.scorecard import scorecard

    known = load_offers(file) if file else shipped_offers()
    exchange = rates(rate or ())
    chosen = [offer for offer in known if _wanted(offer, card, provider, region)]
    today = datetime.now(UTC).date()
    facts = scorecard(chosen) if provider and chosen else ()
    shown_offers = chosen[:limit]
    if json:
        body: dict[str, Any] = {
            "schema": "anycard.offers/1",
            "offers": [_priced(offer, offer.to_json(today), exchange, currency) for offer in shown_offers],
            "total": len(chosen),
            "rates": {"date": exchange.date, "source": exchange.source},
            "scorecard": [fact.to_json() for fact in facts] or None,
        }
        document(body)
        return 0 if chosen else 3
    if not chosen:
        note(_("no offers"))
        return 3
    head = [_("OFFER"), _("CARD"), _("N"), _("AN HOUR"), _("SPOT"), _("STEP"), _("AGE")]
    rows = []
    for offer in shown_offers:
        unit = currency or offer.currency
        prices = [
            "?" if price is None else f"{shown(exchange.convert(price, offer.currency, unit))} {unit}"
            for price in (offer.on_demand_per_h, offer.spot_per_h)
        ]
        age = offer.age_days(today)
        rows.append(
            [
                safe(offer.id),
                safe(offer.card or _("CPU")),
                f"{offer.card_count.normalize():f}",
                *prices,
                "?" if offer.billing_step_s is None else f"{offer.billing_step_s} s",
                "?" if age is None else _("{days} days", days=age),
            ]
        )
    for line in table(head, rows, right=frozenset((2, 3, 4, 5, 6))):
        say(line)
    if len(chosen) > limit:
        note(_("{more} more: --limit", more=len(chosen) - limit))
    for fact in facts:
        mark = {True: "+", False: "-", None: "?"}[fact.good]
        say(f"  {mark} {fact.name}: {safe(fact.value or '?')}; {said(fact.note)}")
    if currency:
        note(_("exchange rates of {date}, {source}", date=exchange.date, source=exchange.source))
    return 0


def _wanted(offer: Any, card: str | None, provider: str | None, region: str | None) -> bool:
    if card and not _same_card(offer.card, card):
        return False
    if provider and provider.lower() not in offer.provider.lower():
        return False
    return not region or region.lower() in offer.region.lower()


def _same_card(offered: str, wanted: str) -> bool:
    from anycard.sizing.cardspec import find_card
    from anycard.sizing.files import card_specs

    if wanted.lower().replace(" ", "") in offered.lower().replace(" ", ""):
        return True
    known = find_card(wanted, card_specs())
    return known is not None and bool(offered) and find_card(offered, card_specs()) == known


def _priced(offer: Any, body: dict[str, Any], exchange: Any, currency: str | None) -> dict[str, Any]:
    if currency is None:
        return body
    from anycard.offers.money import shown

    for name in ("on_demand_per_h", "spot_per_h"):
        price = getattr(offer, name)
        body[name] = None if price is None else shown(exchange.convert(price, offer.currency, currency))
    body["currency"] = currency
    return body
