"""What belongs to a provider rather than to one of its machines: storage, traffic, billing step, what a stop costs, long terms.

One figure a row, each with who says it and when, joined to the offers that do not say it themselves. Pure: rows in, offers out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from anycard.offers.catalogue import CatalogueError, parse_leases, parse_seconds, parse_step, parse_stop
from anycard.offers.money import PriceError, parse_decimal
from anycard.offers.offer import BY_AMOUNT, OWN, Offer, Origin

_LEASES = "terms"


def _amount(text: str) -> Decimal | None:
    return parse_decimal(text, "value", most=Decimal(10_000_000))


_READERS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(BY_AMOUNT, _amount),
    **dict.fromkeys(("storage_free_gb", "egress_free_gb", "storage_read_mb_s", "network_mb_s"), _amount),
    **dict.fromkeys(("minimum_s", "start_s"), parse_seconds),
    "billing_step_s": parse_step,
    "stop": parse_stop,
    "persistence": str.strip,
    _LEASES: str.strip,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a provider's terms. ``region`` and ``instance``: the start of those that it is of, empty for all. ``value`` None: the
    provider has no such figure, and the origin's note says why. ``currency``: of money, empty otherwise."""

    provider: str
    region: str
    instance: str
    what: str
    value: Any
    currency: str
    origin: Origin


def parse_terms(rows: Iterable[Mapping[str, str]], known_by: str = "") -> tuple[Figure, ...]:
    """``known_by``: the day of the table, ISO. Raises CatalogueError for a figure without a source, or one that cannot be."""
    figures = []
    for number, row in enumerate(rows, start=2):
        try:
            figures.append(_figure(row, known_by))
        except PriceError as error:
            raise CatalogueError("row {row}: {fault}", row=number, fault=str(error)) from None
    return tuple(figures)


def with_provider_terms(offers: Iterable[Offer], figures: Iterable[Figure]) -> tuple[Offer, ...]:
    """``offers`` with what their providers' terms say and they do not say themselves, and who says it. Own hardware has no provider."""
    by_provider: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures:
        by_provider[figure.provider].append(figure)
    kinds = {name: {one.instance for one in told} for name, told in by_provider.items()}
    nearest: dict[
        tuple[str, str, frozenset[str]], Mapping[str, Figure]
    ] = {}  # a catalogue has many machines of a kind in a region
    joined = []
    for offer in offers:
        if offer.place == OWN or offer.provider not in by_provider:
            joined.append(offer)
            continue
        kind = frozenset(start for start in kinds[offer.provider] if offer.instance.startswith(start))
        key = (offer.provider, offer.region, kind)
        if key not in nearest:
            nearest[key] = _nearest(offer, by_provider[offer.provider])
        joined.append(_joined(offer, nearest[key]))
    return tuple(joined)


def _figure(row: Mapping[str, str], known_by: str) -> Figure:
    told = {
        name: (row.get(name) or "").strip() for name in ("provider", "region", "instance", "what", "currency", "source")
    }
    if told["what"] not in _READERS:
        raise PriceError("{what} is no figure of a provider's terms", what=told["what"][:40])
    if not told["provider"] or not told.pop("source"):
        raise PriceError("a figure needs its provider and its source")
    value = (row.get("value") or "").strip()
    origin = Origin(
        source=(row.get("source") or "").strip(),
        source_date=(row.get("source_date") or "").strip(),
        note=(row.get("note") or "").strip(),
        known_by=known_by,
    )
    return Figure(**told, value=_READERS[told["what"]](value) if value else None, origin=origin)


def _nearest(offer: Offer, figures: Sequence[Figure]) -> Mapping[str, Figure]:
    """Of each figure the one that is of the least beside ``offer``."""
    best: dict[str, Figure] = {}
    for figure in figures:
        if _applies(figure, offer) and (figure.what not in best or _nearer(figure, best[figure.what], offer)):
            best[figure.what] = replace(figure, origin=_where(figure, offer))
    return best


def _joined(offer: Offer, figures: Mapping[str, Figure]) -> Offer:
    changes: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for what, figure in figures.items():
        if getattr(offer, what) not in (None, "", ()):
            continue
        if figure.value and what in BY_AMOUNT and figure.currency != offer.currency:
            continue  # a row in another currency than its provider's list: nothing is converted behind one's back
        origins[what] = figure.origin
        if figure.value is not None:
            changes[what] = parse_leases(figure.value, offer.on_demand_per_h) if what == _LEASES else figure.value
    return replace(offer, **changes, origins={**origins, **offer.origins}) if origins else offer


def _applies(figure: Figure, offer: Offer) -> bool:
    """A region's figure holds for an offer that names no region too: it is told then whose it is."""
    if not offer.instance.startswith(figure.instance):
        return False
    return not offer.region or offer.region.startswith(figure.region)


def _nearer(figure: Figure, other: Figure, offer: Offer) -> bool:
    """Of two that apply the one that is of less: of the machine, then of the region. Where the offer names no region, one of none."""

    def rank(one: Figure) -> tuple[int, int]:
        return len(one.instance), (len(one.region) if offer.region else int(not one.region))

    return rank(figure) > rank(other)


def _where(figure: Figure, offer: Offer) -> Origin:
    if not figure.region or offer.region:
        return figure.origin
    note = "; ".join(filter(None, (f"as in {figure.region}", figure.origin.note)))
    return replace(figure.origin, note=note)
