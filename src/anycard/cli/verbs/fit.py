"""fit: how much a model needs, whether it fits, how fast it would be, and what would help. Works without a daemon and offline."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.sizingwords import parameters, said, size, specs_for
from anycard.cli.tables import table
from anycard.errors import UsageError
from anycard.i18n import N_, _
from anycard.i18n.slugs import slug

MORE = N_("MODEL is a folder with config.json and .safetensors, a .gguf file, or a name such as Qwen3-8B.")
TASKS = ("infer", "lora", "qlora", "full", "train")
SERVERS = ("transformers", "llama.cpp", "vllm")
_SPLITS = ("layers", "tensor", "data")
_OPTIMIZERS = {"adamw": 8.0, "adamw-bf16": 4.0, "adamw-8bit": 2.0, "sgd": 0.0}  # bytes of moments a weight


def fit(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help=_("A folder, a file, or a name that --models lists"))
    ] = None,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help=_("infer, lora, qlora, full or train"))] = "infer",
    context: Annotated[
        int,
        typer.Option("--context", metavar="N", min=1, help=_("Tokens of prompt and answer, or of a training sequence")),
    ] = 4096,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help=_("Sequences at once"))] = 1,
    card: Annotated[
        list[str] | None,
        typer.Option("--card", metavar="NAME", help=_("A card to ask about; this machine's unless told")),
    ] = None,
    cards: Annotated[int, typer.Option("--cards", metavar="N", min=1, max=4096, help=_("So many of them"))] = 1,
    quant: Annotated[
        str | None, typer.Option("--quant", metavar="FORMAT", help=_("A weight format, such as q4_k_m, awq-int4, fp8"))
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="NAME", help=_("transformers, llama.cpp or vllm"))
    ] = None,
    cache: Annotated[str, typer.Option("--cache", metavar="TYPE", help=_("Type of the cache: f16, q8_0, fp8"))] = "f16",
    rank: Annotated[int, typer.Option("--rank", metavar="N", min=1, help=_("Rank of LoRA adapters"))] = 16,
    no_checkpointing: Annotated[
        bool, typer.Option("--no-checkpointing", help=_("Train without gradient checkpointing"))
    ] = False,
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="HOW", help=_("Over several cards: layers, tensor or data (a copy each)")),
    ] = None,
    zero: Annotated[
        int | None, typer.Option("--zero", metavar="STAGE", min=0, max=3, help=_("ZeRO stage over several cards"))
    ] = None,
    offload: Annotated[
        bool, typer.Option("--offload", help=_("Train with the optimizer in host memory, at stage 3 the weights too"))
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option("--optimizer", metavar="NAME", help=_("adamw, adamw-bf16 (all in bf16), adamw-8bit or sgd")),
    ] = None,
    image: Annotated[
        str, typer.Option("--size", metavar="WxH", help=_("Size of an image model's pictures"))
    ] = "1024x1024",
    fetch: Annotated[
        bool, typer.Option("--fetch", help=_("Read the headers of ORG/NAME on the model hub (HF_ENDPOINT)"))
    ] = False,
    models: Annotated[bool, typer.Option("--models", help=_("List the models known by name"))] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help=_("How far off predictions were on this machine, run by run"))
    ] = False,
    json: options.Json = False,
) -> int:
    from os import environ

    from anycard.cli.fiterrors import learnt_note, learnt_of, show_errors
    from anycard.sizing.files import is_diffusion, known_models, load_model

    if errors:
        return show_errors(as_json=json)
    if models:
        if json:
            document({"schema": "anycard.models/1", "models": list(known_models())})
        else:
            for name in known_models():
                say(name)
        return 0
    if model is None:
        raise UsageError("which model?", hint="anycard fit FOLDER, anycard fit FILE.gguf, or anycard fit Qwen3-8B")
    _check(task, server, cache)
    _check_how(task, split, zero, optimizer, offload=offload)
    if is_diffusion(model):
        if task != "infer":
            raise UsageError(
                "fine-tunes of image models are not sized yet: {model}", hint="--task infer is", model=model
            )
        return _image(model, image, batch, specs_for(card or (), cards), json)
    if fetch:
        found = _fetched(model, quant)
    else:
        found = load_model(model, quant, environ=environ)
    if task == "infer":
        answers = _serving(found, context, batch, server, cache, split, specs_for(card or (), cards))
    else:
        how = {
            "rank": rank,
            "checkpointing": not no_checkpointing,
            "offload": offload,
            "optimizer_bytes": _OPTIMIZERS[optimizer or "adamw"],
            "pure_bf16": optimizer == "adamw-bf16",
            "master_weights": optimizer != "adamw-bf16",
        }
        answers = _training(found, task, context, batch, zero, how, specs_for(card or (), cards))
    learnt = learnt_of(task, _server_name(found, server) if task == "infer" else "", _devices(answers))
    if json:
        document({**_json(found, task, context, batch, answers), "learnt": learnt})
    else:
        _print(found, answers)
        learnt_note(learnt, {part.name: part.size_bytes for part in answers[0].estimate.parts})
    return _code(answers)


def _server_name(found: Any, server: str | None) -> str:
    return server or ("llama.cpp" if found.file_format == "gguf" else "transformers")


def _devices(answers: list[Any]) -> set[str]:
    return {answer.card.vendor for answer in answers}


def _code(answers: list[Any]) -> int:
    """0 if it fits a card, 3 if that cannot be said of any, 1 if it fits none."""
    verdicts = {str(answer.verdict) for answer in answers}
    if verdicts & {"fits", "tight"}:
        return 0
    return 3 if "unknown" in verdicts else 1


def _fetched(model: str, quant: str | None) -> Any:
    import os

    from anycard.sizing.files import in_format
    from anycard.sizing.hub import ENDPOINT, load_remote

    found = load_remote(model, os.environ.get("HF_ENDPOINT") or ENDPOINT)
    return in_format(found, quant)


def _image(folder: str, image: str, batch: int, specs: Any, as_json: bool) -> int:
    from pathlib import Path

    from anycard.sizing.diffusion import diffusion_options, estimate_diffusion
    from anycard.sizing.files import load_diffusion
    from anycard.sizing.fit import CardFit, Verdict, judge

    width, _times, height = image.lower().partition("x")
    if not (width.isdigit() and height.isdigit() and 0 < int(width) <= 65536 and 0 < int(height) <= 65536):
        raise UsageError("--size {size} is no size; write 1024x1024", size=image)
    picture = {"width": int(width), "height": int(height), "batch": batch}
    components = load_diffusion(folder)
    estimate = estimate_diffusion(components, **picture)
    answers = []
    for spec, _count in specs:
        usable, verdict = spec.usable_bytes, judge(estimate, spec)
        helping = diffusion_options(components, usable, **picture) if usable and verdict is not Verdict.FITS else ()
        free = None if usable is None else usable - estimate.total_bytes
        answers.append(CardFit(spec, 1, verdict, estimate, free, options=helping))
    name = Path(folder).resolve().name
    if as_json:
        body = {
            "schema": "anycard.fit/1",
            "model": name,
            "task": "infer",
            "size": image,
            "batch": batch,
            **estimate.to_json(),
        }
        document({**body, "fits": [answer.to_json() for answer in answers], "options": answers[0].to_json()["options"]})
    else:
        _print_parts(estimate)
        _print_answers(answers, name)
    return _code(answers)


def _check(task: str, server: str | None, cache: str) -> None:
    from anycard.sizing.quantization import CACHE_BYTES

    if task not in TASKS:
        raise UsageError("--task {task} is not known; {tasks} are", task=task, tasks=", ".join(TASKS))
    if server is not None and server not in SERVERS:
        raise UsageError("--server {server} is not known; {servers} are", server=server, servers=", ".join(SERVERS))
    if cache not in CACHE_BYTES:
        raise UsageError("--cache {cache} is not known; {types} are", cache=cache, types=", ".join(CACHE_BYTES))


def _check_how(task: str, split: str | None, zero: int | None, optimizer: str | None, *, offload: bool) -> None:
    if split is not None and (split not in _SPLITS or task != "infer"):
        raise UsageError("--split takes {splits}, with --task infer", splits=", ".join(_SPLITS))
    if optimizer is not None and optimizer not in _OPTIMIZERS:
        raise UsageError("--optimizer {name} is not known; {names} are", name=optimizer, names=", ".join(_OPTIMIZERS))
    if task == "infer" and (zero is not None or offload or optimizer is not None):
        raise UsageError(
            "--zero, --offload and --optimizer are for training", hint="give --task full, lora, qlora or train"
        )


def _serving(
    found: Any, context: int, batch: int, server: str | None, cache: str, split: str | None, specs: Any
) -> list[Any]:
    from anycard.sizing.fit import fit_serving
    from anycard.sizing.inference import Server, Serving
    from anycard.sizing.parallel import Split

    chosen = Server(_server_name(found, server))
    answers = []
    for spec, count in specs:
        serving = Serving(chosen, context, batch, cache, hopper=spec.hopper_or_newer)
        answers.append(fit_serving(found.shape, found.weights, serving, spec, count, Split(split) if split else None))
    return answers


def _training(
    found: Any, task: str, context: int, batch: int, zero: int | None, how: dict[str, Any], specs: Any
) -> list[Any]:
    from anycard.sizing.fit import fit_training
    from anycard.sizing.recipe import Engine, Method, Recipe

    if task == "qlora":
        found = found.quantised("nf4")
    answers = []
    for spec, count in specs:
        recipe = Recipe(
            Method(task),
            context,
            batch,
            Engine.HUGGING_FACE,
            cards=count,
            zero_stage=zero if zero is not None else 3 if count > 1 else 0,
            **how,
        )
        answers.append(fit_training(found.shape, found.weights, recipe, spec))
    return answers


def _json(found: Any, task: str, context: int, batch: int, answers: list[Any]) -> dict[str, Any]:
    first = answers[0]
    return {
        "schema": "anycard.fit/1",
        "model": found.shape.name,
        "origin": found.origin,
        "params": found.shape.params,
        "active_params": found.shape.active_params,
        "weights_exact": found.weights.exact,
        "weight_format": found.weights.scheme.name,
        "task": task,
        "context": context,
        "batch": batch,
        **first.estimate.to_json(),
        "fits": [answer.to_json() for answer in answers],
        "options": [option.to_json() for option in first.options],
    }


def _print(found: Any, answers: list[Any]) -> None:
    told = _("read from the file's header") if found.weights.exact else _("computed from the shape")
    say(
        _(
            "{model}: {count} weights, {format}, {told}",
            model=safe(found.shape.name),
            count=parameters(found.shape.params),
            format=found.weights.scheme.name,
            told=told,
        )
    )
    _print_parts(answers[0].estimate)
    _print_answers(answers, found.shape.name)


def _print_parts(estimate: Any) -> None:
    rows = [[slug(part.name), size(part.size_bytes), said(part.note) if part.note else ""] for part in estimate.parts]
    between = _("expected between {low} and {high}", low=size(estimate.low_bytes), high=size(estimate.high_bytes))
    rows.append([_("total"), size(estimate.total_bytes), between])
    for line in table([_("PART"), _("SIZE"), ""], rows, indent="  ", right=frozenset((1,))):
        say(line)
    for warning in estimate.warnings:
        note(_("warning: {text}", text=said(warning)))


def _print_answers(answers: list[Any], name: str) -> None:
    from anycard.sizing.fit import sentence as verdict

    for answer in answers:
        speed = None if answer.verdict == "does-not-fit" else answer.speed
        rate = _("; about {rate} tokens a second", rate=f"{speed.tokens_per_s:.1f}") if speed else ""
        say(said(verdict(answer, safe(name))) + rate)
        for option in answer.options:
            mark = "+" if option.fits else "-"
            told = _("{size}; {text}", size=size(option.total_bytes), text=said(option.price))
            say(f"  {mark} " + _("{subject}: {text}", subject=slug(option.name), text=told))
