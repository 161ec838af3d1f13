"""What would make a job fit, with the price of each in words. Every option is computed, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from anycard.model.text import Text
from anycard.sizing.cache import cache_bytes
from anycard.sizing.estimate import Estimate
from anycard.sizing.inference import Server, Serving
from anycard.sizing.parallel import Split, estimate_split
from anycard.sizing.quantization import CACHE_BYTES, cheaper_than, scheme
from anycard.sizing.recipe import Method, Recipe
from anycard.sizing.shape import ModelShape
from anycard.sizing.training import estimate_training
from anycard.sizing.weights import Weights, weights_from_shape

_CARDS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Option:
    """``name`` is a slug; ``total_bytes`` what a card would need; ``fits`` against the card asked about; ``price`` in words."""

    name: str
    total_bytes: int
    fits: bool
    price: Text

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "total_bytes": self.total_bytes, "fits": self.fits, "price": str(self.price)}


def serving_options(
    shape: ModelShape,
    weights: Weights,
    serving: Serving,
    usable_bytes: int,
    cards: int = 1,
    split: Split | None = None,
) -> tuple[Option, ...]:
    """For a model that does not fit (or only just): cheaper weights, shorter context, smaller batch, smaller cache, more cards, host
    memory."""
    options: list[Option] = []

    now = estimate_split(shape, weights, serving, cards, split).total_bytes

    def add(name: str, estimate: Estimate, price: Text) -> None:
        if estimate.total_bytes < now:  # what helps nothing is no option
            options.append(Option(name, estimate.total_bytes, estimate.total_bytes <= usable_bytes, price))

    for name in cheaper_than(weights.scheme.linear_bytes):
        chosen = scheme(name)
        if (chosen.file_format == "gguf") != (serving.server is Server.LLAMA_CPP):
            continue
        estimate = estimate_split(shape, weights_from_shape(shape, chosen), serving, cards, split)
        add(f"quantise-{name}", estimate, _quality(chosen.linear_bytes))
    longest = longest_context(shape, weights, serving, usable_bytes, cards, split)
    if 256 <= longest < serving.context:
        add(
            "shorter-context",
            estimate_split(shape, weights, replace(serving, context=longest), cards, split),
            Text("at most {tokens} tokens of prompt and answer together", {"tokens": longest}),
        )
    if serving.batch > 1:
        batch = _largest(
            serving.batch,
            lambda size: (
                estimate_split(shape, weights, replace(serving, batch=size), cards, split).total_bytes <= usable_bytes
            ),
        )
        if batch:
            add(
                "smaller-batch",
                estimate_split(shape, weights, replace(serving, batch=batch), cards, split),
                Text("{batch} sequences at once: less throughput, the same speed for one", {"batch": batch}),
            )
    if CACHE_BYTES[serving.cache_type] > 1.07:
        smaller = replace(serving, cache_type="q8_0" if serving.server is Server.LLAMA_CPP else "fp8")
        add(
            "smaller-cache",
            estimate_split(shape, weights, smaller, cards, split),
            Text("the cache at 8 bits: hardly any loss of quality"),
        )
    more = _fewest_cards(
        lambda count: estimate_split(shape, weights, serving, count, split).total_bytes <= usable_bytes, cards
    )
    if more:
        add(
            "more-cards",
            estimate_split(shape, weights, serving, more, split),
            Text("{cards} cards of this kind: each at its price, and a hop between them", {"cards": more}),
        )
    moved = now - usable_bytes
    if moved > 0 and serving.server is not Server.VLLM:
        share = min(1.0, moved / max(1, weights.linear_bytes))
        if share < 1:
            options.append(
                Option(
                    "offload",
                    usable_bytes,
                    True,
                    Text(
                        "{percent} % of the weights in host memory: those layers run at the speed of the CPU's memory",
                        {"percent": round(share * 100)},
                    ),
                )
            )
    return tuple(options)


def training_options(shape: ModelShape, weights: Weights, recipe: Recipe, usable_bytes: int) -> tuple[Option, ...]:
    """For a recipe that does not fit: smaller micro-batches, checkpointing, cheaper optimizer, LoRA, QLoRA, ZeRO, offload."""
    options: list[Option] = []
    now = estimate_training(shape, weights, recipe).total_bytes
    for name, changed, price in _recipes(recipe):
        quantised = weights_from_shape(shape, scheme("nf4")) if changed.method is Method.QLORA else weights
        total = estimate_training(shape, quantised, changed).total_bytes
        if total >= now:
            continue
        options.append(Option(name, total, total <= usable_bytes, price))
    more = _fewest_cards(
        lambda count: (
            estimate_training(shape, weights, replace(recipe, cards=count, zero_stage=3)).total_bytes <= usable_bytes
        ),
        recipe.cards,
    )
    if more:
        total = estimate_training(shape, weights, replace(recipe, cards=more, zero_stage=3)).total_bytes
        price = Text(
            "{cards} cards under ZeRO-3: weights are gathered for every layer, fast links needed", {"cards": more}
        )
        options.append(Option("more-cards", total, True, price))
    return tuple(options)


def _recipes(recipe: Recipe) -> Iterator[tuple[str, Recipe, Text]]:
    if recipe.batch > 1:
        yield (
            "accumulate",
            replace(recipe, batch=1),
            Text("micro-batches of 1, {steps} of them a step: the same result, slower", {"steps": recipe.batch}),
        )
    if not recipe.checkpointing:
        yield (
            "checkpointing",
            replace(recipe, checkpointing=True),
            Text("activations are computed twice: about a third more time"),
        )
    if recipe.sequence > 512:
        yield (
            "shorter-sequence",
            replace(recipe, sequence=recipe.sequence // 2),
            Text("{tokens} tokens a sequence: longer samples are cut", {"tokens": recipe.sequence // 2}),
        )
    if recipe.optimizer_bytes > 2 and recipe.trains_all:
        yield "optimizer-8bit", replace(recipe, optimizer_bytes=2.0), Text("moments at 8 bits: hardly any loss")
    if recipe.trains_all:
        yield (
            "lora",
            replace(recipe, method=Method.LORA),
            Text("adapters alone are trained: a little less quality on new knowledge, far less memory"),
        )
    if recipe.method is not Method.QLORA:
        yield (
            "qlora",
            replace(recipe, method=Method.QLORA),
            Text("the frozen model at 4 bits: slower by a quarter or more"),
        )
    if not recipe.offload and recipe.trains_all:
        yield (
            "offload",
            replace(recipe, offload=True),
            Text("optimizer in host memory: each step waits for the PCIe bus and the CPU"),
        )


def longest_context(
    shape: ModelShape,
    weights: Weights,
    serving: Serving,
    usable_bytes: int,
    cards: int = 1,
    split: Split | None = None,
) -> int:
    """The longest context that fits, 0 if not even one token does."""
    most = shape.max_context or 1 << 20
    if cache_bytes(shape, most) == 0:
        return most
    return _largest(
        most,
        lambda tokens: (
            estimate_split(shape, weights, replace(serving, context=tokens), cards, split).total_bytes <= usable_bytes
        ),
    )


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to ``most`` that ``fits``, which holds for all smaller ones if for one; 0 if none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _fewest_cards(fits: Callable[[int], bool], now: int) -> int:
    """The fewest cards, doubling from the next power of two above ``now``; 0 if not even very many do."""
    count = 1 << now.bit_length()
    while count <= _CARDS_MAX:
        if fits(count):
            return count
        count *= 2
    return 0


def _quality(bytes_per_weight: float) -> Text:
    if bytes_per_weight >= 0.95:
        return Text("8 bits a weight: no loss that tests show")
    if bytes_per_weight >= 0.75:
        return Text("6 bits a weight: hardly any loss")
    return Text("4 bits a weight: some loss, most in small models; faster where memory bandwidth decides")
