"""Where a job could run and what that would take: this host's cards, its CPU, rented offers; what would be bought instead."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from anycard.i18n import N_
from anycard.model.card import Card
from anycard.model.text import Text
from anycard.offers.advice import CPU, HERE, RENTED, Candidate
from anycard.offers.catalogue import with_terms
from anycard.offers.money import PriceError, Rates
from anycard.offers.offer import OWN, Offer
from anycard.offers.own import Hardware
from anycard.offers.quote import QuoteJob, quote
from anycard.sizing.cardspec import CardSpec, find_card
from anycard.sizing.files import Model, card_by_name, card_specs
from anycard.sizing.inference import Server, Serving, estimate_inference
from anycard.sizing.speed import CPU_BANDWIDTH, decode_speed
from anycard.units import GIB

Words = Callable[..., str]  # translates a sentence, or leaves it English
_HERE_SPREAD, _CPU_SPREAD = 1.15, 1.4  # of the time that nine of ten runs stay below, over the expected one

# Why an offer is left out; the number of offers follows.
_NO_PRICE = N_("no price is known")
_UNKNOWN_CARD = N_("the card is not in the table")
_TOO_SMALL = N_("another kind of machine, too small or of unknown speed")

AS_FAST = Text("a rented CPU is as fast as the one that the time is of")


@dataclass(frozen=True, slots=True)
class Work:
    """``item_s``: one item's run time on ``card`` (None: on whatever it gets). ``assumed``: what nobody said and was taken.
    ``cpus`` and ``memory_bytes``: of one item, as asked; ``of_model``: a model is run, not a job file.

    ``seconds_on(spec)``: one item's run time on another card, None where that cannot be said; ``fits(spec)``: whether it fits.
    """

    name: str
    item_s: float
    items: int
    parallel: int
    card: str | None
    card_count: int
    may_use_cpu: bool
    assumed: tuple[Text, ...]
    seconds_on: Callable[[CardSpec], float | None]
    fits: Callable[[CardSpec], bool]
    cpus: float = 1.0
    memory_bytes: int | None = None
    of_model: bool = False

    def total_s(self, item_s: float, at_once: int = 1) -> float:
        """All items, so many at once as the job and the place allow."""
        return item_s * math.ceil(self.items / max(1, min(self.parallel, at_once)))

    def at_once(self, cpus: float, memory_bytes: int | None) -> int:
        """How many items a machine's CPUs and memory (None: unknown) hold at once; 0 when not one."""
        most = int(cpus // self.cpus) if self.cpus else self.parallel
        if self.memory_bytes and memory_bytes is not None:
            most = min(most, memory_bytes // self.memory_bytes)
        return min(most, self.parallel)

    def on_machine(self, offer: Offer) -> int:
        """Items that the CPUs and memory of ``offer`` hold at once; as many as the job runs where the offer does not say."""
        if offer.cpus is None:
            return self.parallel
        memory = None if offer.memory_gib is None else int(offer.memory_gib * GIB)
        return self.at_once(float(offer.cpus), memory)


def model_work(model: Model, tokens: int, serving: Serving | None = None) -> Work:
    """``tokens`` generated one after another by ``model``, served as ``serving`` says (by what reads its format, at 4096 tokens)."""
    server = Server.LLAMA_CPP if model.file_format == "gguf" else Server.TRANSFORMERS
    served = serving or Serving(server)
    need = estimate_inference(model.shape, model.weights, served).total_bytes

    def seconds_on(spec: CardSpec) -> float | None:
        speed = decode_speed(model.shape, model.weights, spec)
        return tokens / speed.tokens_per_s if speed else None

    assumed = (Text("{tokens} tokens are generated one after another", {"tokens": tokens}),)
    return work_of_model(model, need, seconds_on, may_use_cpu=True, assumed=assumed)


def work_of_model(
    model: Model,
    need: int,
    seconds_on: Callable[[CardSpec], float | None],
    *,
    may_use_cpu: bool,
    assumed: tuple[Text, ...] = (),
) -> Work:
    """One task of ``model``, on one card of ``need`` bytes; ``seconds_on`` says how long a card takes (None: not known)."""
    return Work(
        name=model.shape.name,
        item_s=0.0,
        items=1,
        parallel=1,
        card=None,
        card_count=1,
        may_use_cpu=may_use_cpu,
        assumed=assumed,
        seconds_on=seconds_on,
        fits=lambda spec: (spec.usable_bytes or 0) >= need,
        of_model=True,
    )


def spec_of(card: Card) -> CardSpec:
    """A card of a host as a spec; memory as the driver says it. One that we do not know by name keeps its memory and has no speed, as does
    a MIG instance: the table's figures are the whole card's."""
    known = find_card(card.model, card_specs()) if card.part_of is None else None
    if known is None:
        return CardSpec(card.vendor, card.model, card.memory_bytes, source="the driver")
    if card.memory_bytes is None:
        return known
    # the table says what is sold, the driver a little less: `usable_bytes` takes its share of the first
    sold = known.memory_bytes
    close = sold is not None and abs(sold - card.memory_bytes) < sold * 0.1
    return known if close else replace(known, memory_bytes=card.memory_bytes)


def cpu_spec(memory_bytes: int) -> CardSpec:
    """A CPU as a card: host memory, and the bandwidth of dual-channel DDR4 until it is measured."""
    return CardSpec("cpu", "CPU", memory_bytes, bandwidth_bytes_s=CPU_BANDWIDTH, unified=True, source="this machine")


def here(work: Work, cards: Iterable[tuple[CardSpec, int]], per_h: Decimal | None, words: Words) -> list[Candidate]:
    """On this host's cards, at ``per_h`` an hour (None: nothing, at the margin)."""
    found = []
    for spec, count in cards:
        seconds = work.seconds_on(spec) if count >= work.card_count and work.card_count and work.fits(spec) else None
        if seconds is None:
            continue
        hours = work.total_s(seconds, count // work.card_count) / 3600
        cost = (per_h or Decimal(0)) * Decimal(str(hours))
        name = words(N_("here, {count} x {card}"), count=work.card_count, card=spec.model)
        found.append(Candidate(HERE, name, hours, cost, hours * _HERE_SPREAD, spec.model, spec.vendor))
    return found


def on_cpu(work: Work, cpu: CardSpec, cores: float, words: Words) -> list[Candidate]:
    """On this host's CPU, where the job may use it."""
    seconds = work.seconds_on(cpu) if work.may_use_cpu and work.fits(cpu) else None
    at_once = work.at_once(cores, cpu.memory_bytes)
    if seconds is None or not at_once:
        return []
    hours = work.total_s(seconds, at_once) / 3600
    return [Candidate(CPU, words(N_("here, on the CPU")), hours, Decimal(0), hours * _CPU_SPREAD, "CPU", "cpu")]


@dataclass(frozen=True, slots=True)
class Luggage:
    """What a job takes along to a rented place: its environment made there in ``setup_s``, data that comes in, is kept while it runs and
    for ``stopped_s`` afterwards, and goes out. Seconds and GB (1e9 bytes)."""

    setup_s: int = 0
    download_gb: Decimal = Decimal(0)
    storage_gb: Decimal = Decimal(0)
    stopped_s: int = 0
    data_out_gb: Decimal = Decimal(0)

    def quoted(self, work_s: int) -> QuoteJob:
        """``work_s`` of work with it."""
        return QuoteJob(
            work_s,
            self.setup_s,
            self.download_gb,
            storage_gb=self.storage_gb,
            stopped_s=self.stopped_s,
            data_out_gb=self.data_out_gb,
        )


def rented(
    work: Work,
    offers: Iterable[Offer],
    cpu: CardSpec,
    rates: Rates,
    currency: str,
    words: Words,
    luggage: Luggage = Luggage(),
) -> tuple[list[Candidate], list[str]]:
    """Every offer that it fits and whose speed is known; and what was left out and why, in words, counted."""
    found: list[Candidate] = []
    left_out: Counter[str] = Counter()
    specs: dict[tuple[str, Decimal | None], CardSpec | None] = {}
    for offer in with_terms(offers):
        if offer.on_demand_per_h is None:
            left_out[words(_NO_PRICE)] += 1
            continue
        spec: CardSpec | None
        if work.card_count:
            sold = (offer.card, offer.card_memory_gib)
            if sold not in specs:
                with_size = f"{offer.card} {offer.card_memory_gib}GB" if offer.card_memory_gib else offer.card
                specs[sold] = find_card(with_size, card_specs()) or find_card(offer.card, card_specs())
            spec, at_once = specs[sold], int(offer.card_count // work.card_count)
            name = words(
                N_("{provider}, {count} x {card}"), provider=offer.provider, count=work.card_count, card=offer.card
            )
        else:
            spec, at_once = cpu, 0 if offer.card or offer.cpus is None else work.on_machine(offer)
            name = words(N_("{provider}, {count} CPUs"), provider=offer.provider, count=f"{offer.cpus or 0:g}")
        seconds = work.seconds_on(spec) if spec is not None and at_once and work.fits(spec) else None
        if seconds is None or spec is None:
            left_out[words(_UNKNOWN_CARD if offer.card and spec is None else _TOO_SMALL)] += 1
            continue
        try:
            asked = luggage.quoted(round(work.total_s(seconds, at_once)))
            priced = quote(asked, offer, rates=rates, currency=currency)
        except PriceError as error:
            left_out[words(error.message, **error.params)] += 1
            continue
        hours = priced.elapsed_s / 3600
        high = hours * _HERE_SPREAD
        place = OWN if offer.place == OWN else RENTED
        found.append(Candidate(place, name, hours, priced.total, high, spec.model, spec.vendor, offer.region, priced))
    return found, [f"{why}: {count}" for why, count in left_out.items()]


def bought_instead(
    candidates: Sequence[Candidate],
    price: Decimal | None,
    *,
    life_years: Decimal | None,
    watts: Decimal | None,
    per_kwh: Decimal | None,
    rates: Rates,
    currency: str,
    machine: str,
    card_count: int = 1,
) -> tuple[Hardware | None, list[Text]]:
    """What would be bought instead of the cheapest rented place, and what was assumed of it. Without ``price`` the cheapest rented card
    that has a launch price is taken, ``card_count`` of them; None where there is none. ``machine``: what is bought where nothing has a
    card."""
    offers = sorted((one for one in candidates if one.quote is not None), key=lambda one: one.cost)
    if not offers:
        return None, []
    assumed: list[Text] = []
    specs = [card_by_name(one.card) for one in offers if one.card != "CPU"]
    spec = specs[0] if specs else None
    count = max(1, card_count)
    bought = 1 if price is not None else count  # a price that was given is the whole machine's
    if price is None:
        spec = next((one for one in specs if one.msrp_usd is not None), None)
        if spec is None:
            return None, []
        price = rates.convert(Decimal(str(spec.msrp_usd)), "USD", currency)
        told = Text(
            "{count} x {card} would be bought at the launch price, nothing else around it (--buy)",
            {"count": count, "card": spec.model},
        )
        assumed.append(told)
    drawn = watts or count * Decimal(str(spec.tdp_w or 0) if spec else 0)
    hardware = Hardware(
        card=spec.model if spec else machine,
        card_count=bought,
        card_price=price,
        currency=currency,
        life_years=Decimal(4) if life_years is None else life_years,
        watts=drawn,
        electricity_per_kwh=per_kwh or Decimal(0),
    )
    return hardware, assumed
