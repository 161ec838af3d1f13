"""Rows of measured.csv as questions to our own formulas: a shape, its weights, and how it was run."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path

from anycard.errors import NotFoundError
from anycard.sizing.cardspec import CardSpec, without_slices
from anycard.sizing.estimate import Estimate
from anycard.sizing.files import card_by_name, load_model
from anycard.sizing.inference import Server, Serving, estimate_inference
from anycard.sizing.parallel import estimate_split
from anycard.sizing.quantization import Scheme, scheme
from anycard.sizing.recipe import ALL_TARGETS, Engine, Method, Recipe
from anycard.sizing.shape import ModelShape, shape_from_sizes
from anycard.sizing.training import FITTED, Constants, estimate_training
from anycard.sizing.weights import Weights, weights_from_shape
from anycard.units import MIB

Row = dict[str, str]

# The longest sequence of the Alpaca data set in litgpt's tokenisation, for rows that trained on it uncut (litgpt tutorials/oom.md).
_ALPACA_LONGEST = 1304
_TORCHTUNE_SEQUENCE, _TORCHTUNE_BATCH = 2048, 2  # recipes/configs/llama3_1/70B_*.yaml


@dataclass(frozen=True, slots=True)
class Answer:
    """What we say about a row: MiB expected and the interval."""

    mib: float
    low_mib: float
    high_mib: float


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def shape_of(row: Row) -> ModelShape:
    """From the row's columns alone, as a kept-back model would come; where they are missing, by name from the shipped table.

    Raises NotFoundError where the table does not know the model either.
    """
    if not row["n_layer"] or not row["hidden"] or not row["vocab"]:
        return load_model(re.split(r"[ (]", row["model"])[0]).shape
    intermediate = _int(row["intermediate"])
    params = int(float(row["params"])) if row["params"] else None
    hidden, n_head = int(row["hidden"]), _int(row["n_head"]) or 32
    return shape_from_sizes(
        name=row["model"],
        n_layer=int(row["n_layer"]),
        hidden=hidden,
        n_head=n_head,
        n_kv_head=_int(row["n_kv_head"]) or n_head,
        head_dim=_int(row["head_dim"]) or hidden // n_head,
        vocab=int(row["vocab"]),
        intermediate=intermediate or round(hidden * 8 / 3),
        params=params,
        n_expert=_int(row["n_expert"]),
        n_expert_active=_int(row["n_expert_active"]),
    )


def inference_answer(row: Row, *, old: bool = False) -> Answer:
    """Memory of a transformers or litgpt row, in the meaning that the row measured (the allocator's peak)."""
    shape = shape_of(row)
    chosen = _scheme(row["quant"])
    litgpt = row["engine"].startswith("litgpt")
    if "mixed" in row["quant"]:
        chosen = replace(scheme("fp32"), linear_bytes=6.0)  # autocast caches a bf16 copy of each FP32 matrix
    weights = weights_from_shape(shape, chosen, head_untied=litgpt)
    cache_type = "int8" if "KV int8" in row["method"] else "f16"
    context = _int(row["context_in"]) + _int(row["context_out"])
    serving = Serving(
        context=context or 256,
        batch=_int(row["batch"]) or 1,
        cache_type=cache_type,
        old_modelling_code=old,
        hopper=_hopper(row["card"]),
    )
    estimate = estimate_inference(shape, weights, serving)
    return Answer(estimate.allocated_bytes / MIB, estimate.low_bytes / MIB, estimate.high_bytes / MIB)


def training_answer(row: Row, constants: Constants = FITTED) -> Answer:
    """Memory of a fine-tune: per card, or the sum over cards where the row says so."""
    shape, recipe = shape_of(row), recipe_of(row)
    quant = row["quant"]
    chosen = scheme("fp32") if "mixed" in quant else _scheme(quant)
    weights = weights_from_shape(shape, chosen, head_untied=recipe.engine is Engine.LITGPT)
    # nobody says so in the row, but a model that does not fit one 80 GB card can only have run sharded
    if recipe.engine is Engine.DEEPSPEED and recipe.cards > 1 and weights.total_bytes > 70 * 1024 * MIB:
        recipe = replace(recipe, zero_stage=3)
    estimate = estimate_training(shape, weights, recipe, constants)
    by_torch = recipe.engine is not Engine.DEEPSPEED
    times = recipe.cards if "sum" in row["mem_meaning"] else 1
    expected = estimate.allocated_bytes if by_torch else estimate.total_bytes * times
    return Answer(expected / MIB, estimate.low_bytes * times / MIB, estimate.high_bytes * times / MIB)


def recipe_of(row: Row) -> Recipe:
    """The recipe that method, note and engine describe."""
    method, engine, quant, cards = (
        row["method"].lower(),
        row["engine"].lower(),
        row["quant"].lower(),
        _int(row["n_gpu"]) or 1,
    )
    full = method.startswith("full")
    qlora = method.startswith(("q-lora", "qlora")) or "nf4" in quant
    kind = Method.FULL if full else Method.QLORA if qlora else Method.LORA
    if "deepspeed" in engine or "peft" in engine:
        # QwenLM/Qwen finetune/*.sh and finetune.py: rank 64, all matrices, checkpointing, ZeRO-2, 3 for full runs on several cards
        sharded = "zero3" in method + row["note"].lower() or "zero-3" in method or (full and cards > 1)
        return Recipe(
            kind,
            _int(row["context_in"]) or 512,
            _int(row["batch"]) or 1,
            Engine.DEEPSPEED,
            rank=64,
            targets=ALL_TARGETS,
            shared_tables="(emb)" in method,
            cards=cards,
            zero_stage=3 if sharded else 2,
        )
    if "torchtune" in engine:
        return Recipe(
            kind,
            _int(row["context_in"]) or _TORCHTUNE_SEQUENCE,
            _int(row["batch"]) or _TORCHTUNE_BATCH,
            Engine.TORCHTUNE,
            rank=16,
            pure_bf16=True,
            master_weights=False,
            optimizer_bytes=4.0,
            chunked_loss=True,
            cards=cards,
            zero_stage=3,
            offload=full,
        )
    return _litgpt_recipe(row, kind, method, quant, cards)


def _litgpt_recipe(row: Row, kind: Method, method: str, quant: str, cards: int) -> Recipe:
    # litgpt's defaults: rank 8 on q and v in the tutorials, 32 in configurations that the table does not spell out
    rank, targets, head = (8 if "q,v" in method else 32), ("q", "v"), False
    spelt = re.search(r"r=(\d+) qkv=([tf]{3}) proj=([tf]) mlp=([tf]) head=([tf])", method)
    if spelt:
        rank, head = int(spelt[1]), spelt[5] == "t"
        attention = tuple(name for name, flag in zip("qkv", spelt[2], strict=True) if flag == "t")
        targets = (*attention, *(("o",) if spelt[3] == "t" else ()), *(("mlp",) if spelt[4] == "t" else ()))
    mixed = "mixed" in quant
    sharded = cards > 1 and kind is Method.FULL  # FSDP with checkpointing; litgpt's LoRA runs alike on each card
    return Recipe(
        kind,
        _int(row["context_in"]) or _ALPACA_LONGEST,
        _int(row["batch"]) or 1,
        Engine.LITGPT,
        rank=rank,
        targets=targets,
        head_adapter=head,
        pure_bf16=not mixed,
        autocast=mixed,
        master_weights=False,
        optimizer_bytes=8.0 if mixed else 4.0,
        checkpointing=sharded,
        chunked_loss=True,
        cards=cards if sharded else 1,
        zero_stage=3 if sharded else 0,
    )


def llama_cpp_model(row: Row) -> tuple[ModelShape, Weights]:
    """Shape and weights of a llama.cpp row; the file's size is known there, so the average bits are exact."""
    shape = shape_of(row)
    named = _scheme(row["quant"])
    if not row["weight_file_mib"]:
        return shape, weights_from_shape(shape, named)
    size = float(row["weight_file_mib"]) * MIB
    average = size / shape.params
    weights = weights_from_shape(shape, Scheme(named.name, average, average, file_format="gguf"))
    return shape, weights


def llama_cpp_fit(row: Row) -> tuple[Estimate, CardSpec]:
    """Need of the fullest card, and the card, of a cell of the llama.cpp table. Raises NotFoundError for an unknown card."""
    shape, weights = llama_cpp_model(row)
    name, count = without_slices(row["card"])
    serving = Serving(
        server=Server.LLAMA_CPP,
        older_graph=True,  # the builds of 2024 that these rows are of
        context=max(_int(row["context_in"]), _int(row["context_out"]), 512),
        ubatch=_int(row["ubatch"]) or 512,
        flash_attention=False,
    )
    return estimate_split(shape, weights, serving, _int(row["n_gpu"]) or count), card_by_name(name)


def _scheme(quant: str) -> Scheme:
    """Raises KeyError for a format that we do not know; ``3.0bpw`` says its own bits."""
    key = quant.lower().replace("bf16-true", "bf16").replace("bf16-mixed", "bf16")
    bits = re.search(r"(\d+(?:\.\d+)?) ?bpw", key)
    if bits:
        return Scheme(key, float(bits[1]) / 8, 2.0)
    return scheme(re.split(r"[ (]", key)[0] or "bf16")


def _hopper(card: str) -> bool:
    try:
        return card_by_name(without_slices(card)[0]).hopper_or_newer
    except NotFoundError:
        return False


def _int(text: str) -> int:
    match = re.match(r"\s*(\d+)", text or "")
    return int(match[1]) if match else 0
