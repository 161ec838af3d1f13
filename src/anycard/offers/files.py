"""The edge: the shipped catalogue and rates, what `--refresh` fetched, and tables of the user's own."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from anycard.errors import NotFoundError
from anycard.offers.catalogue import CatalogueError, parse_offers
from anycard.offers.money import PriceError, Rates, parse_price
from anycard.offers.offer import Offer
from anycard.offers.skypilot import merged
from anycard.offers.spot import Availability, availability
from anycard.offers.terms import Figure, parse_terms, with_provider_terms

_TABLE_MAX = 64 * 1024 * 1024
RATES_FILE = "rates.json"
SHIPPED_ON = "2026-11-30"  # the shipped list was put together then: what gives no day of its own is at least so old

TERMS_READ_ON = "2026-12-01"  # likewise for the providers' terms


@cache
def shipped_offers() -> tuple[Offer, ...]:
    """The catalogue that comes with anycard: each row with its source, and its date where the source gives one."""
    return with_provider_terms(parse_offers(_shipped_rows("offers.csv"), known_by=SHIPPED_ON), shipped_terms())


@cache
def shipped_terms() -> tuple[Figure, ...]:
    """Storage, traffic, billing and long terms of providers, each figure with its source, and its date where the source gives one."""
    return parse_terms(_shipped_rows("terms.csv"), known_by=TERMS_READ_ON)


def _shipped_rows(name: str) -> list[dict[str, str]]:
    text = resources.files("anycard.offers").joinpath("data", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def catalogue_file(folder: Path, cloud: str) -> Path:
    """Where `--refresh` keeps a cloud's table, our columns."""
    return folder / f"skypilot-{cloud}.csv"


def known_offers(folder: Path) -> tuple[Offer, ...]:
    """The shipped catalogue with what was fetched into ``folder``, the newer price of each. A damaged table is left out: CatalogueError
    says which, and that fetching it again mends it."""
    fetched: list[Offer] = []
    for path in sorted(folder.glob("skypilot-*.csv")):
        try:
            fetched += load_offers(path)
        except CatalogueError as error:
            raise CatalogueError(
                "what was fetched is damaged: {fault}",
                hint="anycard offers --refresh fetches it again; or remove {file}",
                fault=str(error),
                file=str(path),
            ) from None
    return merged(shipped_offers(), fetched) if fetched else shipped_offers()


def load_offers(path: Path) -> tuple[Offer, ...]:
    """A CSV or JSON (a list of rows, or ``{"offers": [...]}``) of the user's own; what a row leaves open of a provider whose terms we
    know, they say. Raises CatalogueError or NotFoundError."""
    content = _text(path)
    rows: Iterable[Mapping[str, object]]
    if path.suffix.lower() == ".json":
        rows = _json_rows(path, content)
    else:
        rows = list(csv.DictReader(content.splitlines()))
    try:
        offers = parse_offers(rows, source=path.name, known_by=date.fromtimestamp(path.stat().st_mtime).isoformat())
        return with_provider_terms(offers, shipped_terms())
    except CatalogueError as error:
        raise CatalogueError("{file}: {fault}", hint=error.hint, file=path.name, fault=str(error)) from None


def rates(given: Iterable[str] = (), folder: Path | None = None) -> Rates:
    """The shipped rates, or newer ones fetched into ``folder``, overridden by ``given`` pairs such as ``CNY=8.1`` (units for one euro).
    Raises PriceError."""
    shipped = json.loads(resources.files("anycard.offers").joinpath("data/rates.json").read_bytes())
    fetched = _fetched_rates(folder / RATES_FILE) if folder is not None else None
    if fetched is not None and fetched["date"] > shipped["date"]:
        shipped = fetched
    per_eur = {name: Decimal(value) for name, value in shipped["per_eur"].items()}
    changed = False
    for pair in given:
        name, _, value = pair.partition("=")
        rate = parse_price(value, f"rate of {name}")
        if rate is None or not name.strip():
            raise PriceError("{pair} is no rate", hint="write CURRENCY=UNITS_PER_EUR, for example CNY=8.4", pair=pair)
        per_eur[name.strip().upper()] = rate
        changed = True
    return Rates(per_eur, "today" if changed else shipped["date"], "given" if changed else shipped["source"])


def _fetched_rates(path: Path) -> dict[str, Any] | None:
    """None where there are none, or they cannot be read: the shipped ones do."""
    try:
        body = json.loads(path.read_bytes())
        whole = all(Decimal(value) > 0 for value in body["per_eur"].values()) and isinstance(body["date"], str)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidOperation):
        return None
    return body if whole and "source" in body else None


def load_availability(path: Path) -> Availability:
    """A spot record: ``{"metadata": {"gap_seconds": N}, "data": [0, 1, ...]}`` (skypilot-org/spot-traces). Raises CatalogueError."""
    try:
        content = json.loads(_text(path))
        gap, data = content["metadata"]["gap_seconds"], content["data"]
        usable = isinstance(gap, int | float) and gap > 0 and isinstance(data, list)
    except (ValueError, KeyError, TypeError, RecursionError):
        usable, gap, data = False, 0, []
    if not usable or not all(isinstance(value, int | float) for value in data):
        raise CatalogueError("{file} is no record of spot availability", file=path.name)
    return availability([int(value) for value in data], float(gap))


def _json_rows(path: Path, content: str) -> list[Mapping[str, object]]:
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise CatalogueError("{file} is not JSON", file=path.name) from None
    rows = value.get("offers") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CatalogueError("{file} holds no list of offers", file=path.name)
    return rows


def _text(path: Path) -> str:
    if not path.is_file():
        raise NotFoundError("there is no file {path}", path=str(path))
    if path.stat().st_size > _TABLE_MAX:
        raise CatalogueError("{file} is too large for a table of offers", file=path.name)
    return path.read_bytes().decode("utf-8-sig", "replace")
