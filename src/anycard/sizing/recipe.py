"""How a model is trained: what decides the memory of a fine-tune."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    TRAIN = "train"  # from scratch: as full, with FP32 master weights


class Engine(StrEnum):
    """The training program, as far as its habits decide memory."""

    HUGGING_FACE = "hf"  # transformers Trainer, TRL, LLaMA-Factory
    DEEPSPEED = "deepspeed"  # the same under ZeRO
    LITGPT = "litgpt"
    TORCHTUNE = "torchtune"


ATTENTION_TARGETS = ("q", "k", "v", "o")
ALL_TARGETS = (*ATTENTION_TARGETS, "mlp")


@dataclass(frozen=True, slots=True)
class Recipe:
    """``sequence`` and ``batch``: tokens of a sequence and sequences of one micro-batch on one card.

    ``optimizer_bytes``: moments a trainable weight (AdamW FP32 8, bf16 4, 8-bit 2, SGD 0). ``master_weights``: FP32 copies kept
    by mixed precision. ``pure_bf16``: weights, gradients and moments all bf16 (litgpt's bf16-true, torchtune). ``autocast``: FP32
    weights with bf16 copies (bf16-mixed). ``checkpointing``: only block inputs are kept. ``chunked_loss``: the logits are cut in
    pieces, so only their soft-max gradients are whole. ``shared_tables``: the program trains embedding and head as well.
    ``zero_stage`` 0 to 3 over ``cards``; ``offload``: optimizer (and at stage 3 weights) in host memory.
    """

    method: Method
    sequence: int
    batch: int = 1
    engine: Engine = Engine.HUGGING_FACE
    rank: int = 16
    targets: tuple[str, ...] = ALL_TARGETS
    dropout: bool = True
    head_adapter: bool = False
    shared_tables: bool = False
    optimizer_bytes: float = 8.0
    master_weights: bool = True
    pure_bf16: bool = False
    autocast: bool = False
    checkpointing: bool = True
    chunked_loss: bool = False
    cards: int = 1
    zero_stage: int = 0
    offload: bool = False

    @property
    def trains_all(self) -> bool:
        return self.method in (Method.FULL, Method.TRAIN)


def adapter_params(
    *,
    hidden: int,
    q_width: int,
    kv_width: int,
    intermediate: int,
    n_layer: int,
    vocab: int,
    gated: bool,
    recipe: Recipe,
) -> int:
    """Trainable weights of the LoRA matrices: rank x (inputs + outputs) of every matrix that is adapted."""
    inputs_outputs = 0
    if "q" in recipe.targets:
        inputs_outputs += hidden + q_width
    inputs_outputs += sum(hidden + kv_width for target in ("k", "v") if target in recipe.targets)
    if "o" in recipe.targets:
        inputs_outputs += q_width + hidden
    if "mlp" in recipe.targets:
        inputs_outputs += (3 if gated else 2) * (hidden + intermediate)
    head = hidden + vocab if recipe.head_adapter else 0
    return recipe.rank * (n_layer * inputs_outputs + head)
