"""Memory of fine-tuning and training, from the recipe: weights, gradients, optimizer, activations, logits, buffers.

Activations are counted tensor by tensor, as autograd keeps them; what the count misses (temporaries, the allocator's holes) is one
factor. Constants that were fitted say on what; their errors on models that the fit did not see are in docs/sizing.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from anycard.model.text import Text
from anycard.sizing.estimate import Estimate, Part
from anycard.sizing.recipe import Engine, Method, Recipe, adapter_params
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import Weights
from anycard.units import MIB

# Context of the driver and kernels, outside the allocator (as for inference with PyTorch).
_CONTEXT = 450 * MIB
_WORKSPACE = 64 * MIB
# DeepSpeed ZeRO-1/2 with contiguous gradients and overlapped communication: two reduce buckets of 2e8 bf16 elements, allocated
# whole (zero/stage_1_and_2.py; 2e8 is what model authors ship, its own default is 5e8).
_BUCKETS = 2 * 200_000_000 * 2
# stage3_max_live_parameters, 1e9 by default (DeepSpeed docs, zero_optimization), bf16.
_LIVE_PARAMETERS = 1_000_000_000 * 2


@dataclass(frozen=True, slots=True)
class Constants:
    """What was fitted on measured runs (docs/sizing.md has the errors on models that the fit did not see).

    ``activation_factor``: peak over count for activations without checkpointing (litgpt LoRA rows). ``reserve``: what the
    allocator holds over what changes during a step, where the card's own figure was measured (Qwen LoRA rows). ``logit_bytes``: bf16
    logits, FP32 copy, FP32 and bf16 gradients; ``logit_bytes_packed``: with GPTQ weights part of it was not seen.
    ``logit_bytes_chunked``: bf16 logits, soft-max and gradient (litgpt, torchtune cut the loss in pieces). ``table_bytes``: a trained
    embedding or head under PEFT's modules_to_save and ZeRO-2, everything. Both factors lean to the high side: running out of memory
    costs more than room to spare.
    """

    activation_factor: float = 1.15
    reserve: float = 1.12
    logit_bytes: float = 12.0
    logit_bytes_packed: float = 8.0
    logit_bytes_chunked: float = 6.0
    table_bytes: float = 11.0


FITTED = Constants()


@dataclass(frozen=True, slots=True)
class _States:
    """Bytes a whole model's optimizer step needs, before any sharding. ``transient``: only during the step itself."""

    copies: int  # trainable weights held beside the base model's
    gradients: int
    optimizer: int
    transient: int


def estimate_training(shape: ModelShape, weights: Weights, recipe: Recipe, constants: Constants = FITTED) -> Estimate:
    """Memory of one of ``recipe.cards`` cards at the peak of a training step."""
    states = _states(shape, recipe, constants)
    base = round(weights.total_bytes * (1.5 if recipe.autocast else 1))  # autocast caches a bf16 copy of FP32 weights
    base, states, host = _sharded(base, states, recipe)
    activations = _activation_bytes(shape, recipe, constants)
    logits = round(recipe.sequence * recipe.batch * shape.vocab * _bytes_per_logit(weights, recipe, constants))
    # the step's own temporaries are made when the activations are gone
    transient = max(0, states.transient - activations - logits)
    parts = [
        Part("weights", base + states.copies),
        Part("gradients", states.gradients),
        Part("optimizer", states.optimizer),
        Part("activations", activations),
        Part("logits", logits),
        Part("optimizer_step", transient),
        Part("buffers", _WORKSPACE + _buffer_bytes(shape, weights, recipe)),
    ]
    changing = sum(part.size_bytes for part in parts) - base
    if recipe.engine in (Engine.DEEPSPEED, Engine.HUGGING_FACE):
        parts.append(Part("allocator_reserve", round(changing * (constants.reserve - 1)), runtime=True))
    parts.append(Part("runtime_context", _CONTEXT, runtime=True))
    total = sum(part.size_bytes for part in parts)
    warnings = []
    if not recipe.checkpointing:
        warnings.append(Text("activations are counted for full sequences: shorter ones need less"))
    if recipe.offload:
        warnings.append(Text("the optimizer's step waits for the bus and the CPU: slower than the speed that is given"))
    if not shape.known:
        warnings.append(
            Text(
                "{model}: an architecture that anycard does not know: weights and optimizer are counted, activations guessed",
                {"model": shape.name},
            )
        )
    return Estimate(
        tuple(part for part in parts if part.size_bytes),
        low_bytes=round(base + states.copies + states.gradients + states.optimizer + 0.5 * (activations + logits)),
        high_bytes=round(total * 1.12 + 0.25 * (activations + logits)) + (0 if shape.known else total // 2),
        largest_buffer_bytes=max(weights.largest_bytes, logits),
        cards=recipe.cards,
        host_bytes=host,
        warnings=tuple(warnings),
    )


def trainable_params(shape: ModelShape, recipe: Recipe) -> int:
    """Weights that get gradients: all of them, or the adapters (embedding and head too where the recipe trains them)."""
    if recipe.trains_all:
        return shape.params
    adapters = adapter_params(
        hidden=shape.hidden,
        q_width=shape.n_head * shape.head_dim,
        kv_width=shape.n_kv_head * shape.head_dim,
        intermediate=shape.intermediate,
        n_layer=shape.n_layer,
        vocab=shape.vocab,
        gated=shape.gated,
        recipe=recipe,
    )
    return adapters + (shape.embedding_params + shape.head_params if recipe.shared_tables else 0)


def _states(shape: ModelShape, recipe: Recipe, constants: Constants) -> _States:
    tables = shape.embedding_params + shape.head_params if recipe.shared_tables and not recipe.trains_all else 0
    trained = trainable_params(shape, recipe) - tables
    if recipe.engine is Engine.LITGPT and recipe.trains_all and shape.tied:
        trained += shape.head_params  # litgpt holds head and embedding apart
    width = 4 if recipe.autocast or not (recipe.pure_bf16 or recipe.master_weights) else 2
    copies = 0 if recipe.trains_all else trained * width
    optimizer = trained * recipe.optimizer_bytes + (trained * 4 if recipe.master_weights else 0)
    transient = 0
    if recipe.engine is Engine.DEEPSPEED and recipe.master_weights:
        # ZeRO-2 flattens its partition of the gradients (2 bytes) and turns it into FP32 (4); ZeRO-3 keeps the FP32 partition
        transient = trained * (6 if recipe.zero_stage < 3 else 0)
        optimizer += trained * 4 if recipe.zero_stage >= 3 else 0
    return _States(
        copies=copies + tables * 2,
        gradients=trained * width,
        optimizer=round(optimizer + tables * (constants.table_bytes - 2)),
        transient=transient,
    )


def _sharded(base: int, states: _States, recipe: Recipe) -> tuple[int, _States, int]:
    """(weights, states) of one card, and the bytes that offload moves to the host."""
    shard = max(1, recipe.cards)
    stage = recipe.zero_stage if shard > 1 else 0
    copies, gradients, optimizer, transient = states.copies, states.gradients, states.optimizer, states.transient
    if stage >= 1:
        optimizer //= shard
        transient //= shard
    if recipe.engine is Engine.LITGPT and stage >= 3:
        # FSDP accumulating under no_sync holds full weights and full gradients beside its shards (PyTorch docs, no_sync)
        gradients += gradients // shard
    elif stage >= 2:
        gradients //= shard
    if stage >= 3 and recipe.engine is not Engine.LITGPT:
        base //= shard
        copies //= shard
    host = 0
    if recipe.offload:
        host, optimizer = optimizer * shard, 0
        if stage >= 3:
            host, base, gradients = host + (base + gradients) * shard, 0, 0
    return base, _States(copies, gradients, optimizer, transient), host


def _buffer_bytes(shape: ModelShape, weights: Weights, recipe: Recipe) -> int:
    stage = recipe.zero_stage if recipe.cards > 1 or recipe.engine is Engine.DEEPSPEED else 0
    buffers = 0
    if recipe.engine is Engine.DEEPSPEED:
        buffers += _LIVE_PARAMETERS + 4 * shape.embedding_params if stage >= 3 else _BUCKETS
    elif stage >= 3:
        # FSDP gathers the block that runs and prefetches the next one; the tables are gathered whole
        block = shape.linear_params // max(1, shape.n_layer) * 2
        buffers += 2 * block + (shape.embedding_params * 2 if recipe.engine is Engine.TORCHTUNE else 0)
    if weights.scheme.packed:
        # one matrix unpacked: integers first, then floats
        buffers += shape.hidden * max(shape.intermediate, shape.n_head * shape.head_dim * 3) * 10
    return buffers


def _bytes_per_logit(weights: Weights, recipe: Recipe, constants: Constants) -> float:
    if recipe.chunked_loss:
        return constants.logit_bytes_chunked
    return constants.logit_bytes_packed if weights.scheme.packed else constants.logit_bytes


def _activation_bytes(shape: ModelShape, recipe: Recipe, constants: Constants) -> int:
    tokens = recipe.sequence * recipe.batch
    if recipe.checkpointing:
        return tokens * shape.n_layer * shape.hidden * 2  # one block's recomputation fits beside where the logits were
    return round(tokens * shape.n_layer * _layer_activation_bytes(shape, recipe) * constants.activation_factor)


def _layer_activation_bytes(shape: ModelShape, recipe: Recipe) -> int:
    """Bytes that autograd keeps of one block for one token, bf16 compute."""
    hidden, q_width = shape.hidden, shape.n_head * shape.head_dim
    wide = 4 if recipe.autocast else 2
    # RMSNorm upcasts (input, FP32 input, FP32 normalised); LayerNorm keeps its input alone
    norm = (2 + 4 + 4) * hidden if shape.gated else 2 * hidden
    attention = 4 * q_width * 2  # q; k and v repeated to every head; the output
    if shape.eager_attention:
        attention += (
            shape.n_head * recipe.sequence * 2 * 3
        )  # scores, capped scores and their soft-max against the sequence
    mlp = (3 if shape.gated else 2) * shape.intermediate * wide
    every_input = 2 * hidden + q_width + shape.intermediate
    if recipe.trains_all:
        inputs = every_input * 2
    else:
        inputs = _adapted_inputs(shape, recipe) * (3 if recipe.dropout else 2)  # the dropped-out input and its mask
    if recipe.method is Method.QLORA:
        inputs += every_input * 2  # bitsandbytes keeps the input of each 4-bit matrix
    return norm * shape.norms_per_layer + attention + mlp + inputs


def _adapted_inputs(shape: ModelShape, recipe: Recipe) -> int:
    """Elements of the inputs of adapted matrices, for one token of one block."""
    elements = 0
    if {"q", "k", "v"} & set(recipe.targets):
        elements += shape.hidden
    if "o" in recipe.targets:
        elements += shape.n_head * shape.head_dim
    if "mlp" in recipe.targets:
        elements += (2 if shape.gated else 1) * shape.hidden + shape.intermediate
    return elements
