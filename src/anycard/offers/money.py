"""Money: Decimal, never float. Lines are rounded first and then added, so a total is exactly the sum of what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from anycard.errors import UsageError

_STEP = Decimal("0.0001")
_ZERO = Decimal(0)


class PriceError(UsageError):
    """A price, rate or currency that cannot be meant."""

    code = "bad-price"


@dataclass(frozen=True, slots=True)
class Rates:
    """Units of each currency for one euro, with the day they held and who says so."""

    per_eur: Mapping[str, Decimal]
    date: str
    source: str

    def convert(self, amount: Decimal, currency: str, wanted: str) -> Decimal:
        """``amount`` in the currency ``wanted``. Raises PriceError where there is no rate."""
        if currency == wanted:
            return amount
        try:
            return amount * self.per_eur[wanted] / self.per_eur[currency]
        except KeyError as missing:
            raise PriceError(
                "there is no exchange rate for {currency}",
                hint="give one: --rate {currency}=UNITS_PER_EUR",
                currency=str(missing.args[0]),
            ) from None


def exact(amount: Decimal) -> Decimal:
    """Rounded to a hundredth of a cent, the resolution of every line. Raises PriceError for what has more digits than any money."""
    try:
        return amount.quantize(_STEP, rounding=ROUND_HALF_UP)
    except InvalidOperation:
        raise PriceError(
            "an amount of {amount} makes no sense",
            hint="look at the prices and rates that were given",
            amount=f"{amount:.3g}",
        ) from None


def shown(amount: Decimal) -> str:
    """At least two decimals, at most four: ``640.00``, ``0.6667``."""
    text = f"{exact(amount):f}"
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def parse_price(text: str, what: str, *, most: Decimal = Decimal(100_000)) -> Decimal | None:
    """A price; empty or 0 means unknown (None). Raises PriceError for what is no number, negative or absurd (above ``most``)."""
    value = parse_decimal(text, what, most=most)
    return None if value is None or value == _ZERO else value


def parse_decimal(text: str, what: str, *, most: Decimal = Decimal(100_000)) -> Decimal | None:
    """As ``parse_price``, but 0 is a value: egress and storage may cost nothing."""
    stripped = text.strip()
    if not stripped:
        return None
    try:
        value = Decimal(stripped)
    except InvalidOperation:
        raise PriceError("{what}: {value} is not a number", what=what, value=stripped[:40]) from None
    if not value.is_finite() or value < 0:
        raise PriceError("{what}: {value} cannot be a price", what=what, value=stripped[:40])
    if value > most:
        raise PriceError(
            "{what}: {value} is far above anything on the market",
            hint="is it a price an hour?",
            what=what,
            value=stripped[:40],
        )
    return value
