"""From a job file or a model's name to what quote and advise need: how long, on what, how many cards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anycard.cli.output import note
from anycard.errors import NotFoundError, UsageError
from anycard.i18n import _
from anycard.jobs.file.parse import ParsedJob, parse
from anycard.jobs.file.resolve import resolve
from anycard.jobs.file.resources import Ask
from anycard.jobs.places import Work, model_work
from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec, find_card
from anycard.sizing.files import card_specs, load_model
from anycard.sizing.speed import training_scale
from anycard.units import format_bytes, parse_duration

_HOUR = 3600.0


def work_of(reference: str, hours: str | None, tokens: int | None, quant: str | None) -> Work:
    """A job file if there is one of that name, else a model. Raises JobFileError, NotFoundError or UsageError."""
    path = Path(reference).expanduser()
    if path.is_file() and path.suffix.lower() in (".yaml", ".yml", ".job"):
        return _of_job(path, hours)
    if path.suffix.lower() in (".yaml", ".yml"):
        raise NotFoundError("there is no file {path}", path=reference)
    if reference.isdecimal() and not path.exists():
        raise UsageError(
            "{number} is a job's number: here a job is given by its file, a model by its name",
            hint="anycard advise JOB.yaml, or anycard advise Qwen3-8B",
            number=reference,
        )
    return _of_model(reference, tokens or 1_000_000, quant)


def _of_job(path: Path, hours: str | None) -> Work:
    jobs = parse(path.read_bytes(), str(path))
    job = jobs[0]
    if len(jobs) > 1:
        note(_("{count} jobs in the file: the first one is taken", count=len(jobs)))
    demands = job.resources.demands(Ask())
    asked = next((demand for demand in demands if demand.card_count), demands[0])
    items, parallel = _items(job)
    assumed: tuple[Text, ...] = ()
    if hours is not None:
        seconds = length(hours, "--hours")
    elif job.own.time_limit_s:
        seconds, assumed = job.own.time_limit_s, (Text("an item runs for the job's time limit"),)
    else:
        seconds, assumed = _HOUR, (Text("an item runs one hour, as nobody said (--hours)"),)
    base = find_card(asked.card, card_specs()) if asked.card else None
    least = round(0.97 * (asked.card_memory_bytes or (base.memory_bytes if base else None) or 0))
    if job.own.model is not None:  # what it needs, rather than the memory of the card that it was written for
        need, told = _model_need(job, asked.card_count)
        least, assumed = need or least, (*assumed, *told)

    def seconds_on(spec: CardSpec) -> float | None:
        if spec.vendor == "cpu":
            return seconds if not asked.card_count else None
        if base is None or spec == base:
            return seconds
        mine, theirs = training_scale(spec), training_scale(base)
        return seconds * theirs / mine if mine and theirs else None

    return Work(
        name=job.name,
        item_s=seconds,
        items=items,
        parallel=parallel,
        card=asked.card if asked.card_count else None,
        card_count=asked.card_count,
        may_use_cpu=any(not demand.card_count for demand in demands),
        assumed=assumed,
        seconds_on=seconds_on,
        fits=lambda spec: (spec.usable_bytes or 0) >= least or not asked.card_count,
        cpus=asked.cpus,
        memory_bytes=asked.memory_bytes,
    )


def _model_need(job: ParsedJob, cards: int) -> tuple[int | None, tuple[Text, ...]]:
    """Bytes that its model needs a card; None, and why, when nobody can say."""
    from anycard.jobs.modelsize import sized

    sizing = sized(resolve(job, cwd=str(Path.cwd()), environ=dict(os.environ)).spec, ()).sizing
    need = sizing.need(cards) if sizing else None
    if sizing is not None and need is not None:
        told = {"model": sizing.model, "need": format_bytes(need.total_bytes)}
        return need.total_bytes, (Text("its model {model} needs {need} a card", told),)
    why = (sizing.unsized if sizing else None) or "?"
    return None, (Text("{model} could not be sized: {why}", {"model": sizing.ask.name if sizing else "?", "why": why}),)


def _items(job: Any) -> tuple[int, int]:
    if job.own.foreach is None:
        return 1, 1
    spec = resolve(job, cwd=str(Path.cwd()), environ=dict(os.environ)).spec
    return spec.n_items, spec.parallel or spec.n_items


def _of_model(reference: str, tokens: int, quant: str | None) -> Work:
    return model_work(load_model(reference, quant, environ=os.environ), tokens)


def length(text: str, option: str) -> float:
    """Seconds: a bare number means hours here. UsageError when it is no length of time."""
    try:
        return float(text) * _HOUR if text.replace(".", "", 1).isdigit() else parse_duration(text)
    except ValueError:
        raise UsageError(
            "{option}: {text} is no length of time; write 90s, 15m, 2h or 7d", option=option, text=text
        ) from None
