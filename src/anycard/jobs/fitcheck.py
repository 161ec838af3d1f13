"""Whether a sized job can fit the cards that it may get: pure, over what was computed at its submission and what this host has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anycard.jobs.spec import Need, Sizing
from anycard.model.demand import Demand
from anycard.model.text import Param, Text
from anycard.scheduling.feasibility import candidates
from anycard.scheduling.plan import HostState
from anycard.sizing.learning import rest_of
from anycard.units import format_bytes


class Fit(StrEnum):
    """``tight``: expected to fit, but not at the upper end of the interval. ``some-cards``: it fits some of the cards that it may get,
    not all of them. ``unlikely``: only at the lower end. ``never``: not even there."""

    FITS = "fits"
    SOME_CARDS = "some-cards"
    TIGHT = "tight"
    UNLIKELY = "unlikely"
    NEVER = "never"
    UNKNOWN = "unknown"


_BEST_FIRST = (Fit.FITS, Fit.SOME_CARDS, Fit.TIGHT, Fit.UNLIKELY, Fit.UNKNOWN, Fit.NEVER)


@dataclass(frozen=True, slots=True)
class Checked:
    """The best that any of the job's alternatives can hope for. ``have_bytes``: memory of the largest card that it may use (of the host,
    on the CPU), None where nobody knows."""

    fit: Fit
    text: Text
    need: Need | None = None
    have_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "fit": self.fit.value,
            **_told(self.text),
            "need_bytes": self.need.total_bytes if self.need else None,
            "low_bytes": self.need.low_bytes if self.need else None,
            "high_bytes": self.need.high_bytes if self.need else None,
            "have_bytes": self.have_bytes,
        }


def check_fit(sizing: Sizing, options: Sequence[Demand], host: HostState, factor: float = 1.0) -> Checked:
    """``factor``: what runs on this host taught of buffers and activations, truth over prediction; the sentence says so."""
    if sizing.unsized is not None or not sizing.needs:
        told: dict[str, Param] = {"model": sizing.ask.name, "why": sizing.unsized or "?"}
        if sizing.unsized_msgid:  # the faces translate it too
            own = {f"why_{name}": value for name, value in sizing.unsized_params.items()}
            told |= {"why_msgid": sizing.unsized_msgid, **own}
        return Checked(Fit.UNKNOWN, Text("{model} could not be sized: {why}", told))
    checked = [_of_option(sizing, demand, host, factor) for demand in options]
    return min(checked, key=lambda one: _BEST_FIRST.index(one.fit))


def _of_option(sizing: Sizing, demand: Demand, host: HostState, factor: float) -> Checked:
    need = sizing.need(demand.card_count)
    assert need is not None, "every number of cards was sized"
    smallest, largest = _memory(demand, host)
    if largest is None:
        params: dict[str, Param] = {"model": sizing.model, "need": format_bytes(need.total_bytes)}
        return Checked(Fit.UNKNOWN, Text("{model} needs about {need} a card, of unknown memory", params), need)
    need = _corrected(need, factor)
    fit = _fit(need, smallest, largest)
    return Checked(fit, _sentence(fit, sizing, need, largest, factor), need, largest)


def _memory(demand: Demand, host: HostState) -> tuple[int | None, int | None]:
    """Memory that the job surely gets and that it gets at best: of the fullest card, where it gets several."""
    if not demand.card_count:
        have = demand.memory_bytes or host.memory_total_bytes
        return have, have
    surely: list[int] = []
    best: list[int] = []
    for group in candidates(host.cards, demand):
        sizes = sorted(card.memory_bytes for card in group.cards if card.memory_bytes is not None)
        if len(sizes) >= demand.card_count:
            surely.append(sizes[0])
            best.append(sizes[-demand.card_count])
    return (min(surely), max(best)) if best else (None, None)


def _corrected(need: Need, factor: float) -> Need:
    """With what was learnt; the low end only ever falls by it, as it is what a job is refused for."""
    change = round((factor - 1) * rest_of(need.parts))
    total = need.total_bytes + change
    low = min(need.low_bytes, total) if change < 0 else need.low_bytes
    return need.model_copy(
        update={"total_bytes": total, "low_bytes": low, "high_bytes": max(total, need.high_bytes + change)}
    )


def _fit(need: Need, smallest: int | None, largest: int) -> Fit:
    if need.low_bytes > largest:
        return Fit.NEVER
    if need.total_bytes > largest:
        return Fit.UNLIKELY
    if smallest is not None and need.total_bytes > smallest:
        return Fit.SOME_CARDS
    return Fit.TIGHT if need.high_bytes > largest else Fit.FITS


def _sentence(fit: Fit, sizing: Sizing, need: Need, have: int, factor: float) -> Text:
    params: dict[str, Param] = {
        "model": sizing.model,
        "low": format_bytes(need.low_bytes),
        "need": format_bytes(need.total_bytes),
        "high": format_bytes(need.high_bytes),
        "have": format_bytes(have),
        "factor": f"{factor:.2f}",
    }
    on_cards = bool(need.cards)
    if fit is Fit.NEVER:
        if on_cards:
            return Text(
                "{model} cannot fit: it needs at least {low} a card, and the largest it may use has {have}", params
            )
        return Text("{model} cannot fit: it needs at least {low} of host memory, and it may use {have}", params)
    if fit is Fit.UNLIKELY:
        return Text("{model} will hardly fit: it needs about {need} (at least {low}), and it may use {have}", params)
    if fit is Fit.SOME_CARDS:
        return Text("{model} needs about {need} a card: some of the cards that it may get are smaller", params)
    if fit is Fit.TIGHT:
        return Text("{model} should fit, with little room: about {need} (up to {high}) of {have}", params)
    if factor != 1.0:
        return Text(
            "{model} fits: about {need} of {have}; buffers {factor} times the formula, as runs here have taught", params
        )
    return Text("{model} fits: about {need} of {have}", params)


def _told(text: Text) -> dict[str, Any]:
    return {"text": str(text), "msgid": text.msgid, "params": dict(text.params)}
