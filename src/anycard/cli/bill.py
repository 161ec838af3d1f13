"""A quote as a bill for a person: its lines, the age of each rate, who says them; what nobody says."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from anycard.cli.output import note, safe, say
from anycard.cli.sizingwords import said
from anycard.cli.tables import table
from anycard.i18n import _
from anycard.i18n.slugs import slug


def today() -> date:
    return datetime.now(UTC).date()


def bill(answer: Any) -> None:
    """The lines and their sum."""
    from anycard.offers.money import shown

    rows = [
        [
            slug(line.name),
            f"{shown(line.amount)} {answer.currency}",
            f"{line.quantity:.4g} {slug(line.unit)}",
            shown(line.rate),
            age(answer.offer.origin(line.figure)),
            said(line.note) if line.note else "",
        ]
        for line in answer.lines
    ]
    rest = " + ?" if answer.missing else ""
    rows.append([_("total"), f"{shown(answer.total)} {answer.currency}{rest}", "", "", "", ""])
    head = [_("LINE"), _("AMOUNT"), _("FOR"), _("AT"), _("AGE"), ""]
    for text in table(head, rows, indent="  ", right=frozenset((1, 2, 3, 4))):
        say(text)


def sources(answer: Any) -> None:
    """Who says the rates of the bill and when; and what nobody says, so that it isn't counted."""
    from anycard.offers.offer import BY_AMOUNT

    note(price_seen(answer.offer))
    for figure in dict.fromkeys(line.figure for line in answer.lines if line.figure in BY_AMOUNT):
        note(_("{subject}: {text}", subject=slug(figure), text=seen(answer.offer.origin(figure))))
    if answer.unknown:
        names = [_unsaid(answer.offer, name) for name in answer.unknown]
        note(_("the offer does not say, so not counted: {names}", names=_(", ").join(names)))


def price_seen(offer: Any) -> str:
    """How old a price is and who says so."""
    origin = offer.origin("on_demand_per_h")
    days, least = origin.age_days(today()), origin.least_age_days(today())
    if days is None and least:
        return _(
            "price of an unknown day, at least {days} days ago, from {source}", days=least, source=safe(origin.source)
        )
    if days is None:
        return _("price of an unknown day, from {source}", source=safe(origin.source))
    return _("price of {days} days ago, from {source}", days=days, source=safe(origin.source))


def age(origin: Any) -> str:
    """Of a figure, in days; with a plus where it is at least so old."""
    days, least = origin.age_days(today()), origin.least_age_days(today())
    if days is not None:
        return _("{days} days", days=days)
    return "?" if least is None else _("{days}+ days", days=least)


def seen(origin: Any) -> str:
    """How old a figure is, who says it, and what it is of."""
    told = _("{age} old, from {source}", age=age(origin), source=safe(origin.source))
    return _("{subject}: {text}", subject=told, text=safe(origin.note)) if origin.note else told


def _unsaid(offer: Any, name: str) -> str:
    """What is missing, and why where the provider's terms say that."""
    origin = offer.origins.get(name)
    return f"{slug(name)} ({safe(origin.note)})" if origin is not None and origin.note else slug(name)
