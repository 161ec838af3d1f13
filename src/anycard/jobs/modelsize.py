"""Sizes the model that a job file names, with the rights of whoever submits: headers are read, never weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from anycard.errors import AnycardError
from anycard.jobs.spec import JobSpec, ModelAsk, Need, Remedy, Sizing
from anycard.sizing.cardspec import CardSpec, find_card
from anycard.sizing.estimate import Estimate
from anycard.sizing.files import Model, card_specs, load_model
from anycard.sizing.inference import Server, Serving
from anycard.sizing.options import serving_options, training_options
from anycard.sizing.parallel import estimate_split
from anycard.sizing.recipe import Method, Recipe
from anycard.sizing.speed import CPU_BANDWIDTH, decode_speed, training_speed
from anycard.sizing.training import estimate_training

CPU = "cpu"
_CPU_CARD = CardSpec(CPU, "CPU", None, bandwidth_bytes_s=CPU_BANDWIDTH, unified=True)
_REMEDIES = 3  # a refusal names so many, the gentlest first

Cards = Sequence[tuple[str, int | None]]  # the accelerators of this host: model, and memory in bytes where it is known


def sized(spec: JobSpec, cards: Cards) -> JobSpec:
    """``spec`` with what its model needs for each number of cards that it asks for; as it is when it names no model.

    A model that nobody can size is no fault of the job's: ``unsized`` says why.
    """
    if spec.sizing is None:
        return spec
    ask = spec.sizing.ask
    try:
        sizing = _sized(ask, _reference(ask.name, spec), spec, cards)
    except AnycardError as error:
        told = error.to_json()
        sizing = Sizing(ask=ask, unsized=told["message"], unsized_msgid=told["msgid"], unsized_params=told["params"])
    except OSError as error:
        sizing = Sizing(ask=ask, unsized=f"{ask.name}: {error.strerror or error}")
    return spec.model_copy(update={"sizing": sizing})


def _reference(name: str, spec: JobSpec) -> str:
    """A path counts from the workdir, or from the submitter's home; what is no path there is a name."""
    home = spec.environment.get("HOME")
    if home and (name == "~" or name.startswith("~/")):
        return home + name[1:]
    path = Path(spec.workdir) / name
    return str(path) if path.exists() else name


def _sized(ask: ModelAsk, reference: str, spec: JobSpec, cards: Cards) -> Sizing:
    environ = {**spec.environment, **spec.envs}
    model = load_model(reference, ask.quant, environ=environ)
    counts = tuple(dict.fromkeys(demand.card_count for demand in spec.options))
    specs = {name: _card(name, memory) for name, memory in cards}
    if ask.task == "infer":
        return _serving(ask, model, counts, specs, cards)
    return _training(ask, model.quantised("nf4") if ask.task == "qlora" else model, counts, specs, cards)


def _serving(ask: ModelAsk, model: Model, counts: Sequence[int], specs: Mapping[str, CardSpec], cards: Cards) -> Sizing:
    server = _server(ask, model)
    hopper = any(card.hopper_or_newer for card in specs.values())
    serving = Serving(server, ask.context, ask.batch, ask.cache, hopper=hopper, older_graph=ask.server == "ollama")
    shape, weights = model.shape, model.weights

    def options(usable: int, count: int) -> Iterable[Remedy]:
        found = serving_options(shape, weights, serving, usable, count)
        return (Remedy(name=option.name, total_bytes=option.total_bytes) for option in found if option.fits)

    def rate(card: CardSpec) -> float | None:
        speed = decode_speed(shape, weights, card, cards=max(1, *counts), context=ask.context // 2)
        return speed.tokens_per_s if speed else None

    return Sizing(
        ask=ask,
        model=shape.name,
        server=server.value,
        exact=weights.exact,
        needs=tuple(_need(count, estimate_split(shape, weights, serving, max(1, count))) for count in counts),
        remedies=_remedies(counts, cards, options),
        tokens_per_s=_rates(counts, specs, rate),
    )


def _training(
    ask: ModelAsk, model: Model, counts: Sequence[int], specs: Mapping[str, CardSpec], cards: Cards
) -> Sizing:
    shape, weights = model.shape, model.weights

    def recipe(count: int) -> Recipe:
        return Recipe(
            Method(ask.task),
            ask.context,
            ask.batch,
            rank=ask.rank,
            checkpointing=ask.checkpointing,
            cards=max(1, count),
            zero_stage=3 if count > 1 else 0,
        )

    def options(usable: int, count: int) -> Iterable[Remedy]:
        found = training_options(shape, weights, recipe(count), usable)
        return (Remedy(name=option.name, total_bytes=option.total_bytes) for option in found if option.fits)

    def rate(card: CardSpec) -> float | None:
        speed = training_speed(shape, recipe(max(counts)), card)
        return speed.tokens_per_s if speed else None

    return Sizing(
        ask=ask,
        model=shape.name,
        exact=weights.exact,
        needs=tuple(_need(count, estimate_training(shape, weights, recipe(count))) for count in counts),
        remedies=_remedies(counts, cards, options),
        tokens_per_s=_rates(counts, specs, rate),
    )


def _server(ask: ModelAsk, model: Model) -> Server:
    """Ollama's runner is llama.cpp's; without a word it is what reads the file's format."""
    if ask.server is not None:
        return Server.LLAMA_CPP if ask.server == "ollama" else Server(ask.server)
    return Server.LLAMA_CPP if model.file_format == "gguf" else Server.TRANSFORMERS


def _need(count: int, estimate: Estimate) -> Need:
    """On the CPU (``count`` 0) there is no runtime context of a card."""
    parts: dict[str, int] = {}
    for part in estimate.parts:
        if count or not part.runtime:
            parts[part.name] = parts.get(part.name, 0) + part.size_bytes
    runtime = estimate.total_bytes - estimate.allocated_bytes if not count else 0
    if not count and estimate.host_bytes:
        parts["weights"] = parts.get("weights", 0) + estimate.host_bytes
    on_host = estimate.host_bytes if not count else 0
    return Need(
        cards=count,
        parts=parts,
        total_bytes=sum(parts.values()),
        low_bytes=max(0, estimate.low_bytes - runtime + on_host),
        high_bytes=estimate.high_bytes - runtime + on_host,
        buffers_bytes=estimate.allocated_bytes + on_host,
    )


def _remedies(
    counts: Sequence[int], cards: Cards, options: Callable[[int, int], Iterable[Remedy]]
) -> tuple[Remedy, ...]:
    """For the largest card here; none where no memory is known."""
    largest = max((memory for _, memory in cards if memory), default=0)
    wanted = max(counts)
    return tuple(options(largest, wanted))[:_REMEDIES] if largest and wanted else ()


def _rates(
    counts: Sequence[int], specs: Mapping[str, CardSpec], rate: Callable[[CardSpec], float | None]
) -> dict[str, float]:
    wanted = dict(specs) if max(counts) else {}
    if 0 in counts:
        wanted[CPU] = _CPU_CARD
    found = {name: rate(card) for name, card in wanted.items()}
    return {name: round(value, 3) for name, value in found.items() if value is not None}


def _card(name: str, memory_bytes: int | None) -> CardSpec:
    return find_card(name, card_specs()) or CardSpec("unknown", name, memory_bytes)
