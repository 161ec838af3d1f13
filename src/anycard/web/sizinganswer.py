"""What the sizing page answers: a model's memory on cards, places to run it with their cost, buying against renting."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from anycard.errors import NotFoundError, UsageError
from anycard.i18n import _
from anycard.i18n.slugs import slug
from anycard.jobs.places import (
    Luggage,
    Work,
    bought_instead,
    cpu_spec,
    here,
    model_work,
    on_cpu,
    rented,
    spec_of,
    work_of_model,
)
from anycard.model.card import Card
from anycard.model.text import Text
from anycard.offers.advice import Advice, Wish, advise
from anycard.offers.files import known_offers, rates
from anycard.offers.money import shown
from anycard.offers.offer import Origin
from anycard.offers.own import Hardware
from anycard.offers.quote import Line, Quote
from anycard.sizing.cardspec import CardSpec
from anycard.sizing.files import Model, card_by_name, known_models, load_model, named_model
from anycard.sizing.fit import CardFit, fit_serving, fit_training, sentence
from anycard.sizing.inference import Server, Serving
from anycard.sizing.quantization import CACHE_BYTES
from anycard.sizing.quantization import names as formats
from anycard.sizing.recipe import Method, Recipe
from anycard.sizing.speed import training_speed
from anycard.sizing.training import estimate_training
from anycard.units import parse_duration
from anycard.web.svgcharts import WIDTH, Curve, Stack, curve, stack
from anycard.web.visit import Visit

TASKS = ("infer", "lora", "qlora", "full", "train")
USUAL = ("RTX 3060 12GB", "RTX 4090", "L40S", "A100 80GB", "H100 SXM")  # where this machine has no accelerator
_PLACES, _HOURS_A_WEEK, _DAY_TICKS = 10, 168.0, 24.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The form. Numbers that are none are a UsageError."""

    model: str
    task: str = "infer"
    context: int = 4096
    batch: int = 1
    quant: str = ""
    server: str = ""
    cache: str = "f16"
    card: str = ""
    cards: int = 1
    tokens: int = 1_000_000
    buy: Decimal | None = None
    watts: Decimal | None = None
    kwh: Decimal | None = None
    currency: str = "USD"
    luggage: Luggage = field(default_factory=Luggage)


@dataclass(frozen=True, slots=True)
class Bill:
    """A quote line by line: (line, how old its rate is, who says it), and what nobody says."""

    quote: Quote
    lines: tuple[tuple[Line, str, Origin], ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that the page shows of a model."""

    model: Model
    fits: tuple[CardFit, ...]
    memory: Stack
    advice: Advice
    bill: Bill | None  # of the best place that is rented
    assumed: tuple[Text, ...]
    bars: tuple[tuple[Any, float, str], ...]  # (place, width of its bar, how old its price is)
    buying: Curve | None
    hardware: Hardware | None
    rent_per_h: str | None
    rates_date: str


def choices() -> dict[str, Any]:
    """What the form offers, and what its template says things with."""
    return {
        "models": known_models(),
        "tasks": TASKS,
        "formats": formats(),
        "servers": [str(server) for server in Server],
        "caches": list(CACHE_BYTES),
        "slug": slug,
        "width": WIDTH,
        "shown": shown,
        "sentence_of": sentence,
    }


def answer_of(given: Mapping[str, str], host: Sequence[Card], who: Visit) -> Answer:
    """To the form as it was filled in; takes a fraction of a second. ``host``: its cards that work. Raises AnycardError."""
    asked = _asked(given)
    return _answer(asked, _model(asked, who), host, who)


def _asked(given: Mapping[str, str]) -> Asked:
    task, cache, server = given["task"] or "infer", given["cache"] or "f16", given["server"]
    if task not in TASKS or cache not in CACHE_BYTES or (server and server not in list(Server)):
        raise UsageError("{given} is not among the choices", given=" ".join((task, cache, server)))
    return Asked(
        model=given["model"].strip(),
        task=task,
        context=_whole(given["context"], 4096, 100_000_000),
        batch=_whole(given["batch"], 1, 1_000_000),
        quant=given["quant"].strip(),
        server=server,
        cache=cache,
        card=given["card"].strip(),
        cards=_whole(given["cards"], 1, 4096),
        tokens=_whole(given["tokens"], 1_000_000, 10**15),
        buy=_decimal(given["buy"]),
        watts=_decimal(given["watts"]),
        kwh=_decimal(given["kwh"]),
        currency=given["currency"].strip().upper() or "USD",
        luggage=Luggage(
            download_gb=_decimal(given["download_gb"]) or Decimal(0),
            storage_gb=_decimal(given["storage_gb"]) or Decimal(0),
            stopped_s=_length(given["kept"]),
            data_out_gb=_decimal(given["out_gb"]) or Decimal(0),
        ),
    )


def _whole(text: str, default: int, most: int) -> int:
    if not text.strip():
        return default
    if not (text.strip().isascii() and text.strip().isdigit() and 1 <= int(text.strip()[:20]) <= most):
        raise UsageError("{value} is no whole number from 1 to {most}", value=text, most=most)
    return int(text.strip())


def _length(text: str) -> int:
    """Seconds of ``10d``, ``5h``; a bare number is days. Raises UsageError."""
    plain = text.strip()
    if not plain:
        return 0
    try:
        return round(parse_duration(f"{plain}d" if plain.isdecimal() else plain))
    except (ValueError, OverflowError):
        raise UsageError("{value} is no length of time", hint="write 10d or 5h", value=text) from None


def _decimal(text: str) -> Decimal | None:
    if not text.strip():
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise UsageError("{value} is not a number", value=text) from None
    if not value.is_finite() or not 0 <= value <= 10**9:
        raise UsageError("{value} cannot be a price", value=text)
    return value


def _model(asked: Asked, who: Visit) -> Model:
    """A name of the table; a file or folder too where the visitor is who the daemon runs as, and so may read what it reads."""
    try:
        if who.caller.uid == os.getuid():
            return load_model(asked.model, asked.quant or None, environ=os.environ)
        return named_model(asked.model, asked.quant or None)
    except OSError as error:
        raise NotFoundError(
            "{name} cannot be read: {why}", name=asked.model, why=error.strerror or str(error)
        ) from None


def _answer(asked: Asked, model: Model, host: Sequence[Card], who: Visit) -> Answer:
    owned = _owned(host)
    cards = [(card_by_name(asked.card), asked.cards)] if asked.card else _asked_about(owned, asked.cards)
    if asked.task == "qlora":
        model = model.quantised("nf4")
    fits = tuple(_fit(asked, model, spec, count) for spec, count in cards)
    estimate = fits[0].estimate
    folder = who.services.paths.offers
    exchange = rates((), folder)
    exchange.convert(
        Decimal(1), "USD", asked.currency
    )  # PriceError for a currency without a rate: nothing could be compared
    cpu = next((card for card in host if not card.is_accelerator), None)
    places = _places(asked, model, owned, cpu, known_offers(folder), exchange)
    hardware, assumed = bought_instead(
        places,
        asked.buy,
        life_years=None,
        watts=asked.watts,
        per_kwh=asked.kwh,
        rates=exchange,
        currency=asked.currency,
        machine=_("a machine"),
    )
    advice = advise(places, Wish(), currency=asked.currency, hardware=hardware, rates=exchange)
    parts: dict[str, float] = {}
    for part in estimate.parts:
        parts[part.name] = parts.get(part.name, 0) + part.size_bytes
    rent = _rent(advice, hardware, exchange)
    return Answer(
        model=model,
        fits=fits,
        memory=stack(parts, estimate.low_bytes, estimate.high_bytes, fits[0].card.usable_bytes),
        advice=advice,
        bill=_bill(advice),
        assumed=(*_assumed(asked), *assumed),
        bars=_bars(advice),
        buying=_buying(hardware, rent, advice.break_even_h_week),
        hardware=hardware,
        rent_per_h=None if rent is None else shown(rent),
        rates_date=exchange.date,
    )


def _owned(host: Sequence[Card]) -> list[tuple[CardSpec, int]]:
    counted: dict[CardSpec, int] = {}
    for card in host:
        if card.is_grantable:
            spec = spec_of(card)
            counted[spec] = 1 if card.part_of else counted.get(spec, 0) + 1  # no job gets two MIG instances
    return list(counted.items())


def _asked_about(owned: Sequence[tuple[CardSpec, int]], count: int) -> list[tuple[CardSpec, int]]:
    """This machine's cards, else a usual few."""
    if owned:
        return [(spec, min(count, have)) for spec, have in owned]
    return [(card_by_name(name), count) for name in USUAL]


def _fit(asked: Asked, model: Model, spec: CardSpec, count: int) -> CardFit:
    if asked.task == "infer":
        return fit_serving(model.shape, model.weights, _serving(asked, model, spec), spec, count)
    return fit_training(model.shape, model.weights, _recipe(asked, count), spec)


def _serving(asked: Asked, model: Model, spec: CardSpec | None = None) -> Serving:
    server = asked.server or (Server.LLAMA_CPP if model.file_format == "gguf" else Server.TRANSFORMERS)
    hopper = spec is not None and spec.hopper_or_newer
    return Serving(Server(server), asked.context, asked.batch, asked.cache, hopper=hopper)


def _recipe(asked: Asked, count: int) -> Recipe:
    return Recipe(Method(asked.task), asked.context, asked.batch, cards=count, zero_stage=3 if count > 1 else 0)


def _work(asked: Asked, model: Model) -> Work:
    if asked.task == "infer":
        return model_work(model, asked.tokens, _serving(asked, model))
    recipe = _recipe(asked, 1)
    need = estimate_training(model.shape, model.weights, recipe).total_bytes

    def seconds_on(spec: CardSpec) -> float | None:
        speed = training_speed(model.shape, recipe, spec)
        return asked.tokens / speed.tokens_per_s if speed else None

    return work_of_model(model, need, seconds_on, may_use_cpu=False)


def _places(
    asked: Asked, model: Model, owned: Sequence[tuple[CardSpec, int]], cpu: Card | None, offers: Any, exchange: Any
) -> list[Any]:
    work = _work(asked, model)
    spec = cpu_spec((cpu.memory_bytes if cpu else None) or 0)
    cores = (cpu.cores if cpu else None) or 1.0
    found, _left_out = rented(work, offers, spec, exchange, asked.currency, _, asked.luggage)
    return [*here(work, owned, None, _), *on_cpu(work, spec, cores, _), *found]


def _assumed(asked: Asked) -> tuple[Text, ...]:
    if asked.task == "infer":
        return (Text("{tokens} tokens are generated one after another", {"tokens": asked.tokens}),)
    return (Text("{tokens} tokens are trained on, on one card", {"tokens": asked.tokens}),)


def _bars(advice: Advice) -> tuple[tuple[Any, float, str], ...]:
    best = advice.ranked[:_PLACES]
    most = max((one.cost for one in best), default=Decimal(0)) or Decimal(1)
    return tuple((one, round(float(one.cost / most) * 100, 1), _age(one)) for one in best)


def _bill(advice: Advice) -> Bill | None:
    best = next((one.quote for one in advice.ranked if one.quote is not None), None)
    if best is None:
        return None
    origins = [(line, best.offer.origin(line.figure)) for line in best.lines]
    return Bill(best, tuple((line, _old(origin), origin) for line, origin in origins), best.missing)


def _age(place: Any) -> str:
    return "" if place.quote is None else _old(place.quote.offer.origin("on_demand_per_h"))


def _old(origin: Origin) -> str:
    """How long ago a figure was seen; with a plus where it is at least so old."""
    today = datetime.now(UTC).date()
    age, least = origin.age_days(today), origin.least_age_days(today)
    if age is not None:
        return _("{days} days", days=age)
    return "?" if least is None else _("{days}+ days", days=least)


def _rent(advice: Advice, hardware: Hardware | None, exchange: Any) -> Decimal | None:
    """What an hour of the offer costs that buying is compared with, in the hardware's currency."""
    if hardware is None or advice.compared is None or advice.compared.quote is None:
        return None
    offer = advice.compared.quote.offer
    price: Decimal | None = offer.on_demand_per_h
    return None if price is None else exchange.convert(price, offer.currency, hardware.currency)


def _buying(hardware: Hardware | None, rent: Decimal | None, break_even: Decimal | None) -> Curve | None:
    if hardware is None or rent is None:
        return None
    lines = [
        (_("renting"), 0.0, float(rent)),
        (_("owning"), float(hardware.standing_per_week), float(hardware.marginal_per_h)),
    ]
    return curve(lines, _HOURS_A_WEEK, _DAY_TICKS, None if break_even is None else float(break_even))
