"""offers: cards that could be had and their price terms; with --provider a scorecard. Offline: the catalogue ships with anycard."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.bill import age, seen, today
from anycard.cli.output import document, note, safe, say
from anycard.cli.sizingwords import decimal, offers_folder, said
from anycard.cli.tables import table
from anycard.errors import UsageError
from anycard.i18n import _
from anycard.i18n.slugs import slug

if TYPE_CHECKING:
    from anycard.offers.online import Refreshed

_SORTS = ("price", "card", "provider")


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
    most: Annotated[
        str | None,
        typer.Option(
            "--max-price",
            metavar="N",
            help=_("At most so much for an hour of one card, in USD or what --currency says"),
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="WHAT", help=_("price (of an hour of one card), card or provider"))
    ] = "price",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help=_("At most so many"))] = 100,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help=_("Fetch SkyPilot's catalogue and today's exchange rates first")),
    ] = False,
    cloud: Annotated[
        list[str] | None,
        typer.Option("--cloud", metavar="NAME", help=_("With --refresh: only this cloud's, such as aws")),
    ] = None,
    json: options.Json = False,
) -> int:
    from anycard.offers.catalogue import with_terms
    from anycard.offers.files import known_offers, load_offers, rates
    from anycard.offers.money import shown
    from anycard.offers.scorecard import scorecard

    if sort not in _SORTS:
        raise UsageError("--sort {sort} is not known; {sorts} are", sort=sort, sorts=_(", ").join(_SORTS))
    refreshed = _refresh(today().isoformat(), cloud or ()) if refresh else None
    known = with_terms(load_offers(file) if file else known_offers(offers_folder()))
    exchange = rates(rate or (), offers_folder())
    highest = decimal(most, "--max-price")
    chosen = []
    for offer in known:
        price = _card_hour(offer, exchange, currency or "USD")
        if _wanted(offer, card, provider, region) and (highest is None or (price is not None and price <= highest)):
            chosen.append((offer, price))
    chosen.sort(key=lambda one: _order(one[0], one[1], sort))
    facts = scorecard(offer for offer, _price in chosen) if provider and chosen else ()
    shown_offers = [offer for offer, _price in chosen[:limit]]
    if json:
        body: dict[str, Any] = {
            "schema": "anycard.offers/1",
            "offers": [_priced(offer, offer.to_json(today()), exchange, currency) for offer in shown_offers],
            "total": len(chosen),
            "rates": {"date": exchange.date, "source": exchange.source},
            "scorecard": [fact.to_json(today()) for fact in facts] or None,
            "refreshed": refreshed.to_json() if refreshed else None,
        }
        document(body)
        return 0 if chosen else 3
    if not chosen:
        note(_("no offers"))
        return 3
    head = [_("OFFER"), _("CARD"), _("N"), _("AN HOUR"), _("A CARD"), _("SPOT"), _("STEP"), _("AGE")]
    rows = []
    for offer in shown_offers:
        unit = currency or offer.currency
        prices = [
            "?" if price is None else f"{shown(exchange.convert(price, offer.currency, unit))} {unit}"
            for price in (offer.on_demand_per_h, _one_card(offer), offer.spot_per_h)
        ]
        rows.append(
            [
                safe(offer.id),
                safe(offer.card or _("CPU")),
                f"{offer.card_count.normalize():f}",
                *prices,
                "?" if offer.billing_step_s is None else f"{offer.billing_step_s} s",
                age(offer.origin("on_demand_per_h")),
            ]
        )
    several = any(offer.card_count > 1 for offer in shown_offers)
    told = [at for at in range(len(head)) if at < 4 or (any(row[at] != "?" for row in rows) and (at != 4 or several))]
    rows = [[row[at] for at in told] for row in rows]
    for line in table([head[at] for at in told], rows, right=frozenset(range(2, len(told)))):
        say(line)
    if len(chosen) > limit:
        note(_("{more} more: --limit", more=len(chosen) - limit))
    for fact in facts:
        mark = {True: "+", False: "-", None: "?"}[fact.good]
        value = _("{size}; {text}", size=_facts(fact.value), text=said(fact.note))
        if fact.origin is not None:
            value = _("{text} ({source})", text=value, source=seen(fact.origin))
        say(f"  {mark} " + _("{subject}: {text}", subject=slug(fact.name), text=value))
    if currency:
        note(_("exchange rates of {date}, {source}", date=exchange.date, source=exchange.source))
    return 0


def _facts(value: str | None) -> str:
    """A fact's value, each of its words in the reader's language."""
    return _(", ").join(slug(one) for one in value.split(", ")) if value else "?"


def _refresh(day: str, clouds: Sequence[str]) -> Refreshed:
    """Fetches, and says what came and what did not. Raises UnavailableError without a network."""
    from os import environ

    from anycard.offers.online import refresh

    done = refresh(offers_folder(), day, clouds=clouds, url=environ.get("ANYCARD_CATALOGUE_URL"))
    count = sum(done.offers.values())
    note(_("{count} offers of {providers} providers fetched", count=count, providers=len(done.offers)))
    if done.rates_date:
        note(_("exchange rates of {date}", date=done.rates_date))
    for name, why in done.failed.items():
        note(_("not fetched: {name}: {why}", name=safe(name), why=safe(why)))
    if done.unread:
        note(_("{count} rows of the catalogue made no sense and were left out", count=done.unread))
    return done


def _one_card(offer: Any) -> Decimal | None:
    """What an hour costs for each of its cards."""
    price: Decimal | None = offer.on_demand_per_h
    return price if price is None else price / (offer.card_count or 1)


def _card_hour(offer: Any, exchange: Any, currency: str) -> Decimal | None:
    """An hour of one card (of the machine, where it has none), on demand or else spot; None where no price is known."""
    from anycard.offers.money import PriceError, exact

    price: Decimal | None = offer.on_demand_per_h or offer.spot_per_h
    if price is None:
        return None
    try:
        each = exact(exchange.convert(price, offer.currency, currency) / (offer.card_count or 1))
    except PriceError:  # a currency without a rate, in a table of the user's own: it compares with nothing
        return None
    return each


def _order(offer: Any, price: Decimal | None, sort: str) -> tuple[str, bool, Decimal, Decimal]:
    first = {"price": "", "card": offer.card.lower(), "provider": offer.provider.lower()}[sort]
    return first, price is None, price or Decimal(0), offer.card_count


def _wanted(offer: Any, card: str | None, provider: str | None, region: str | None) -> bool:
    if card and not _same_card(offer.card, card):
        return False
    if provider and provider.lower() not in offer.provider.lower():
        return False
    return not region or region.lower() in offer.region.lower()


def _same_card(offered: str, wanted: str) -> bool:
    from anycard.sizing.cardspec import find_card
    from anycard.sizing.files import card_specs

    if wanted.lower() == "cpu":
        return not offered
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
