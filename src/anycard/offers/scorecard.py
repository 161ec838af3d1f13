"""Five hard facts about a provider, and the bandwidths a card lives on. A fact that is not known is said to be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from anycard.model.text import Text
from anycard.offers.offer import Offer, Origin

# Below this sequential read a card waits for its data (issue 5; a 224-pixel image pipeline on one A100 reads about as much).
STORAGE_MIN_MB_S = 500.0
NETWORK_MIN_MB_S = 100.0


@dataclass(frozen=True, slots=True)
class Fact:
    """``good`` None: unknown. ``origin``: who says it and when, of what is not measured."""

    name: str
    value: str | None
    good: bool | None
    note: Text
    origin: Origin | None = None

    def to_json(self, today: date) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "good": self.good,
            "note": str(self.note),
            "origin": None if self.origin is None else self.origin.to_json(today),
        }


def scorecard(offers: Iterable[Offer], report: Mapping[str, Any] | None = None) -> tuple[Fact, ...]:
    """The facts of one provider from its ``offers`` and, where there is one, a benchmark ``report``.

    The report's keys: ``card_model``, ``matmul_share`` (of the nominal rate), ``link``, ``storage_read_mb_s``, ``network_mb_s``,
    ``queue_wait_known`` (bool).
    """
    mine = tuple(offers)
    seen = report or {}
    return (
        _card(seen),
        _link(mine, seen),
        _step(mine),
        _queue(seen),
        _persistence(mine),
        _stop(mine),
        _bandwidth("storage_read", mine, seen, STORAGE_MIN_MB_S),
        _bandwidth("network", mine, seen, NETWORK_MIN_MB_S),
    )


def _card(seen: Mapping[str, Any]) -> Fact:
    model, share = seen.get("card_model"), seen.get("matmul_share")
    if not isinstance(model, str) or not isinstance(share, int | float):
        return Fact("card", None, None, Text("whether the card is what it is sold as has not been measured"))
    note = Text("measured {percent} % of the nominal rate", {"percent": round(share * 100)})
    return Fact("card", model, share >= 0.6, note)


def _link(offers: tuple[Offer, ...], seen: Mapping[str, Any]) -> Fact:
    measured = seen.get("link")
    links = sorted({offer.link for offer in offers if offer.link})
    if isinstance(measured, str):
        return Fact("link", measured, True, Text("measured"))
    if links:
        return Fact("link", ", ".join(links), None, Text("as the provider says, not measured"))
    return Fact("link", None, None, Text("how the cards are linked is not said"))


def _step(offers: tuple[Offer, ...]) -> Fact:
    steps = sorted({offer.billing_step_s for offer in offers if offer.billing_step_s})
    if not steps:
        return Fact("billing_step", None, None, Text("the billing step is not said: assume hours until told"))
    origin = _said(offers, "billing_step_s")
    return Fact("billing_step", f"{steps[-1]} s", steps[-1] <= 60, Text("time is rounded up to it"), origin)


def _queue(seen: Mapping[str, Any]) -> Fact:
    known = seen.get("queue_wait_known")
    if not isinstance(known, bool):
        return Fact("queue", None, None, Text("whether one sees how long one waits is not known"))
    return Fact("queue", "open" if known else "closed", known, Text("whether one sees how long one waits for a card"))


def _persistence(offers: tuple[Offer, ...]) -> Fact:
    kinds = sorted({offer.persistence for offer in offers if offer.persistence})
    if not kinds:
        return Fact("persistence", None, None, Text("what outlives a stop is not said"))
    origin = _said(offers, "persistence")
    good = True if "persistent" in kinds else None
    return Fact("persistence", ", ".join(kinds), good, Text("what outlives a stop"), origin)


def _stop(offers: tuple[Offer, ...]) -> Fact:
    kinds = sorted({offer.stop for offer in offers if offer.stop})
    if not kinds:
        return Fact("stop", None, None, Text("what a stopped machine costs is not said"))
    note = Text("what a stopped machine costs")
    return Fact("stop", ", ".join(kinds), kinds == ["disk-billed"], note, _said(offers, "stop"))


def _bandwidth(name: str, offers: tuple[Offer, ...], seen: Mapping[str, Any], least: float) -> Fact:
    """As measured, else as the provider says it, the lowest of its offers."""
    figure = f"{name}_mb_s"
    value = seen.get(figure)
    if isinstance(value, int | float) and not isinstance(value, bool):
        note = Text("below {least} MB/s a card waits for its data", {"least": f"{least:g}"})
        return Fact(name, f"{value:g} MB/s", value >= least, note)
    told = [said for offer in offers if (said := getattr(offer, figure)) is not None]
    if told:
        note = Text(
            "as the provider says, not measured; below {least} MB/s a card waits for its data", {"least": f"{least:g}"}
        )
        return Fact(name, f"{min(told):f} MB/s", min(told) >= least, note, _said(offers, figure))
    return Fact(
        name, None, None, Text("not measured; below {least} MB/s a card waits for its data", {"least": f"{least:g}"})
    )


def _said(offers: tuple[Offer, ...], figure: str) -> Origin | None:
    return next((offer.origin(figure) for offer in offers if getattr(offer, figure) not in (None, "")), None)
