"""From a job file or a model's name to what quote and advise need: how long, on what, how many cards."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anycard.cli.output import note
from anycard.errors import NotFoundError, UsageError
from anycard.i18n import _
from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec, find_card
from anycard.sizing.files import card_specs, load_model
from anycard.sizing.speed import decode_speed, training_scale
from anycard.units import parse_duration

_HOUR = 3600.0


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


def work_of(reference: str, hours: str | None, tokens: int | None, quant: str | None) -> Work:
    """A job file if there is one of that name, else a model. Raises JobFileError, NotFoundError or UsageError."""
    path = Path(reference).expanduser()
    if path.is_file() and path.suffix.lower() in (".yaml", ".yml", ".job"):
        return _of_job(path, hours)
    if path.suffix.lower() in (".yaml", ".yml"):
        raise NotFoundError("there is no file {path}", path=reference)
    return _of_model(reference, tokens or 1_000_000, quant)


def _of_job(path: Path, hours: str | None) -> Work:
    from anycard.jobs.file.parse import parse
    from anycard.jobs.file.resources import Ask

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
    least = asked.card_memory_bytes or (base.memory_bytes if base else None) or 0

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
        fits=lambda spec: (spec.usable_bytes or 0) >= least * 0.97 or not asked.card_count,
        cpus=asked.cpus,
        memory_bytes=asked.memory_bytes,
    )


def _items(job: Any) -> tuple[int, int]:
    if job.own.foreach is None:
        return 1, 1
    from anycard.jobs.file.resolve import resolve

    spec = resolve(job, cwd=str(Path.cwd()), environ=dict(os.environ)).spec
    return spec.n_items, spec.parallel or spec.n_items


def _of_model(reference: str, tokens: int, quant: str | None) -> Work:
    from anycard.sizing.inference import Server, Serving, estimate_inference

    model = load_model(reference, quant, environ=os.environ)
    server = Server.LLAMA_CPP if model.file_format == "gguf" else Server.TRANSFORMERS
    need = estimate_inference(model.shape, model.weights, Serving(server)).total_bytes

    def seconds_on(spec: CardSpec) -> float | None:
        speed = decode_speed(model.shape, model.weights, spec)
        return tokens / speed.tokens_per_s if speed else None

    return Work(
        name=model.shape.name,
        item_s=0.0,
        items=1,
        parallel=1,
        card=None,
        card_count=1,
        may_use_cpu=True,
        assumed=(Text("{tokens} tokens are generated one after another", {"tokens": tokens}),),
        seconds_on=seconds_on,
        fits=lambda spec: (spec.usable_bytes or 0) >= need,
        of_model=True,
    )


def length(text: str, option: str) -> float:
    """Seconds: a bare number means hours here. UsageError when it is no length of time."""
    try:
        return float(text) * _HOUR if text.replace(".", "", 1).isdigit() else parse_duration(text)
    except ValueError:
        raise UsageError(
            "{option}: {text} is no length of time; write 90s, 15m, 2h or 7d", option=option, text=text
        ) from None
