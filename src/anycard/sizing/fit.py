"""Does it fit, how fast is it, and what would help: one question, one answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec
from anycard.sizing.estimate import Estimate
from anycard.sizing.inference import Serving
from anycard.sizing.options import Option, serving_options, training_options
from anycard.sizing.parallel import Split, estimate_split
from anycard.sizing.recipe import Recipe
from anycard.sizing.shape import ModelShape
from anycard.sizing.speed import Speed, decode_speed, prefill_speed, training_speed
from anycard.sizing.training import estimate_training
from anycard.sizing.weights import Weights


class Verdict(StrEnum):
    """``tight``: the expected need fits, the upper end of the interval does not."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does-not-fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CardFit:
    """One card's answer. ``speed``: tokens a second, of generation or of training; None where the card's figures are unknown."""

    card: CardSpec
    cards: int
    verdict: Verdict
    estimate: Estimate
    free_bytes: int | None
    speed: Speed | None = None
    prefill: Speed | None = None
    options: tuple[Option, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "card": self.card.model,
            "vendor": self.card.vendor,
            "cards": self.cards,
            "usable_bytes": self.card.usable_bytes,
            "verdict": str(self.verdict),
            "fits": None if self.verdict is Verdict.UNKNOWN else self.verdict is not Verdict.DOES_NOT_FIT,
            "needs_bytes": self.estimate.total_bytes,
            "free_bytes": self.free_bytes,
            "tokens_per_s": _speed_json(self.speed),
            "prompt_tokens_per_s": _speed_json(self.prefill),
            "options": [option.to_json() for option in self.options],
        }


def fit_serving(
    shape: ModelShape, weights: Weights, serving: Serving, card: CardSpec, cards: int = 1, split: Split | None = None
) -> CardFit:
    """Whether ``serving`` fits ``cards`` cards of this kind, and how fast it would be."""
    estimate = estimate_split(shape, weights, serving, cards, split)
    verdict = judge(estimate, card)
    usable = card.usable_bytes
    helping = (
        serving_options(shape, weights, serving, usable, cards, split) if usable and verdict is not Verdict.FITS else ()
    )
    return CardFit(
        card,
        cards,
        verdict,
        estimate,
        None if usable is None else usable - estimate.total_bytes,
        decode_speed(shape, weights, card, cards=cards, context=serving.context // 2),
        prefill_speed(shape, weights, card),
        helping,
    )


def fit_training(shape: ModelShape, weights: Weights, recipe: Recipe, card: CardSpec) -> CardFit:
    """Whether ``recipe`` fits its cards of this kind, and how many tokens a second it would train."""
    estimate = estimate_training(shape, weights, recipe)
    verdict = judge(estimate, card)
    usable = card.usable_bytes
    helping = training_options(shape, weights, recipe, usable) if usable and verdict is not Verdict.FITS else ()
    return CardFit(
        card,
        recipe.cards,
        verdict,
        estimate,
        None if usable is None else usable - estimate.total_bytes,
        training_speed(shape, recipe, card),
        None,
        helping,
    )


def judge(estimate: Estimate, card: CardSpec) -> Verdict:
    """The largest single buffer must fit one card by itself: cards do not add up for it."""
    usable = card.usable_bytes
    if usable is None:
        return Verdict.UNKNOWN
    if estimate.total_bytes > usable or (estimate.cards == 1 and estimate.largest_buffer_bytes > usable):
        return Verdict.DOES_NOT_FIT
    return Verdict.TIGHT if estimate.high_bytes > usable else Verdict.FITS


def sentence(fit: CardFit, model: str) -> Text:
    """The answer in a line."""
    params: dict[str, str | int | float] = {"model": model, "card": fit.card.model, "cards": fit.cards}
    if fit.verdict is Verdict.FITS:
        return Text("{model} fits {cards} x {card}", params)
    if fit.verdict is Verdict.TIGHT:
        return Text("{model} should fit {cards} x {card}, with little room", params)
    if fit.verdict is Verdict.DOES_NOT_FIT:
        return Text("{model} does not fit {cards} x {card}", params)
    return Text("the memory of {card} is not in the table: it cannot be said whether {model} fits", params)


def _speed_json(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {
        "expected": round(speed.tokens_per_s, 2),
        "low": round(speed.low, 2),
        "high": round(speed.high, 2),
        "basis": str(speed.basis),
    }
