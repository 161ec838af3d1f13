"""Memory to serve a model: weights, cache, compute buffers of the model server, and the runtime's own context.

Sources of the constants stand beside them; their errors are in docs/sizing.md, from `python -m benchmarks.accuracy`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from anycard.model.text import Text
from anycard.sizing.cache import cache_bytes, windowed
from anycard.sizing.estimate import Estimate, Part
from anycard.sizing.quantization import CACHE_BYTES
from anycard.sizing.shape import ModelShape
from anycard.sizing.weights import Weights
from anycard.units import GIB, MIB


class Server(StrEnum):
    """The program that serves a model."""

    TRANSFORMERS = "transformers"
    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"


@dataclass(frozen=True, slots=True)
class Serving:
    """How a model is served. ``context`` and ``batch``: tokens of a sequence and sequences at once. ``ubatch``: tokens that
    llama.cpp or vLLM push through at once. ``older_graph``: llama.cpp before mid-2025, and what is built on it, such as Ollama's runner:
    logits of a whole micro-batch, gates multiplied in place, masks in FP32. ``old_modelling_code``: remote code or transformers before
    4.36, which concatenates the cache and upcasts all logits. ``pipeline_copies``: llama.cpp keeps 4 copies of its inputs across several
    cards."""

    server: Server = Server.TRANSFORMERS
    context: int = 4096
    batch: int = 1
    cache_type: str = "f16"
    ubatch: int = 512
    flash_attention: bool = True
    old_modelling_code: bool = False
    hopper: bool = False
    older_graph: bool = False
    pipeline_copies: int = 1
    utilisation: float = 0.90  # vLLM takes this share of the card whatever the model needs


# PyTorch's cuBLAS workspace: 32 MiB on Hopper and newer, else 8,320 KiB (aten/src/ATen/cuda/CublasHandlePool.cpp).
_WORKSPACE_HOPPER = 32 * MIB
_WORKSPACE = 8320 * 1024
# Context of the driver and loaded kernels, seen as nvidia-smi less the allocator: 309 MiB for llama.cpp (23,508 - 23,199,
# measured row "mistral-small-2409-22b"), 400-550 MiB for PyTorch (torch.cuda.memory docs and issue threads).
_CONTEXT = {Server.TRANSFORMERS: 450 * MIB, Server.LLAMA_CPP: 310 * MIB, Server.VLLM: 500 * MIB}


def estimate_inference(shape: ModelShape, weights: Weights, serving: Serving) -> Estimate:
    """Memory of one card that holds the whole model. Raises KeyError for an unknown ``cache_type``."""
    element_bytes = CACHE_BYTES[serving.cache_type]
    cache = cache_bytes(
        shape,
        serving.context,
        serving.batch,
        element_bytes=element_bytes,
        full_windows=serving.old_modelling_code or serving.server is Server.VLLM,
        window_extra=serving.ubatch if serving.server is Server.LLAMA_CPP else 0,
    )
    if serving.server is Server.LLAMA_CPP:
        estimate = _llama_cpp(shape, weights, serving, cache)
    elif serving.server is Server.VLLM:
        estimate = _vllm(shape, weights, serving, cache)
    else:
        estimate = _transformers(shape, weights, serving, cache)
    if not shape.known:
        unknown = Text(
            "{model}: an architecture that anycard does not know, or a configuration that its tensors contradict: "
            "weights are exact, the cache is guessed from tensor shapes"
            if weights.exact
            else "{model}: an architecture that anycard does not know, taken for a decoder as most are: attention in every layer, "
            "an MLP of three matrices; neither weights nor cache are sure without the weights' headers",
            {"model": shape.name},
        )
        unseen = 0 if weights.exact else weights.total_bytes // 4
        estimate = replace(
            estimate.with_warning(unknown),
            high_bytes=estimate.high_bytes
            + cache
            + unseen
            + weights.total_bytes // 5,  # compute of layers that nobody has looked at
            low_bytes=estimate.low_bytes - cache // 2 - unseen,
        )
    if shape.max_context and serving.context > shape.max_context:
        beyond = Text(
            "{model} was made for {most} tokens at most, {asked} are asked",
            {"model": shape.name, "most": shape.max_context, "asked": serving.context},
        )
        estimate = estimate.with_warning(beyond)
    return estimate


def _transformers(shape: ModelShape, weights: Weights, serving: Serving, cache: int) -> Estimate:
    """``generate`` with flash or memory-saving attention: only the last position's logits are made."""
    workspace = _WORKSPACE_HOPPER if serving.hopper else _WORKSPACE
    # logits of one position upcast to FP32 and their soft-max, and a layer's activations: all small for one token
    step = serving.batch * (shape.vocab * 2 * 4 + 4 * shape.hidden * 4)
    rotary = 0
    if weights.scheme.fused_rotary:
        rotary = shape.n_layer * serving.context * shape.head_dim // 2 * 8
    parts = [
        *_weight_parts(weights),
        Part("kv_cache", cache),
        Part("compute", workspace + step),
        *(
            [Part("rotary_tables", rotary, Text("one complex table a layer, kept by AutoAWQ's fused attention"))]
            if rotary
            else []
        ),
        Part("runtime_context", _CONTEXT[Server.TRANSFORMERS], runtime=True),
    ]
    total = sum(part.size_bytes for part in parts)
    if serving.old_modelling_code:
        return _old_transformers_interval(shape, weights, serving, parts, cache)
    # prefill of the whole prompt may pass the end of generation when a program asks for all logits: V x context x (2 + 4) bytes
    low = round((weights.total_bytes * (1.0 if weights.exact else 0.99)) + cache * 0.97)
    return Estimate(
        tuple(parts),
        low_bytes=low,
        high_bytes=round(total * 1.04),
        largest_buffer_bytes=weights.largest_bytes,
    )


def _old_transformers_interval(
    shape: ModelShape, weights: Weights, serving: Serving, parts: list[Part], cache: int
) -> Estimate:
    """Old code copies each layer's cache as it grows and leaves holes in the allocator; kernels that unpack weights add copies.

    Doubling of the cache: Qwen-7B rows at batch 16 to 100 hold 1.9-2.1 caches. Unpacked layers: GPTQ and bitsandbytes rows hold
    0.6-1.6 GiB above weights and cache.
    """
    unpacked = round(weights.linear_bytes * 0.25) + GIB if weights.scheme.packed else 0
    total = sum(part.size_bytes for part in parts)
    upcast = serving.batch * shape.vocab * 6 * min(serving.context, 1024)
    growth = round(cache * 0.55)
    full = [
        *parts,
        Part("cache_growth", growth, Text("the cache is copied as it grows")),
        Part("unpacked_weights", unpacked // 2),
    ]
    return Estimate(
        tuple(part for part in full if part.size_bytes),
        low_bytes=round(0.96 * (weights.total_bytes + cache * 0.9)),
        high_bytes=round(total * 1.02 + cache * 1.25 + unpacked + upcast),
        largest_buffer_bytes=max(weights.largest_bytes, upcast),
    )


def _llama_cpp(shape: ModelShape, weights: Weights, serving: Serving, cache: int) -> Estimate:
    """The token embedding stays in host memory unless it is the head as well; the rest goes to the card."""
    on_host = 0 if shape.tied and not weights.head_bytes else weights.embedding_bytes
    compute = llama_cpp_compute_bytes(shape, serving)
    parts = (
        Part("weights", weights.total_bytes - on_host),
        Part("kv_cache", cache),
        Part("compute", compute),
        Part("runtime_context", _CONTEXT[Server.LLAMA_CPP], runtime=True),
    )
    total = sum(part.size_bytes for part in parts)
    slack = 0 if weights.exact else round(weights.total_bytes * 0.02)
    older = llama_cpp_compute_bytes(shape, replace(serving, older_graph=True))  # nobody says which build it will be
    return Estimate(
        parts,
        low_bytes=total - 150 * MIB - slack,
        high_bytes=total + max(0, older - compute) + 300 * MIB + slack,
        largest_buffer_bytes=max(weights.largest_bytes, compute),
        host_bytes=on_host,
    )


def llama_cpp_compute_bytes(shape: ModelShape, serving: Serving) -> int:
    """Size of llama.cpp's compute buffer on the card that holds attention and head, for one micro-batch: the graph's widest point.

    Today's builds (of 31 buffers that llama.cpp of 2026-10 printed on the CPU, models of 18 shapes, 26 are met to 0.03 MiB and the
    others to 4 MiB: MLPs at most twice as wide as the model): the mask
    (FP16 under flash attention) is held throughout; attention holds the block's inputs, queries, keys and values twice; the MLP holds
    gate, up and their product. Logits are made for one token a sequence (ggml-org/llama.cpp#23861).
    """
    if serving.older_graph:
        return _older_compute_bytes(shape, serving)
    tokens = min(serving.ubatch, serving.context)
    row = tokens * 4
    copies = serving.pipeline_copies
    windows = {windowed(serving.context, group.window, serving.ubatch) for group in shape.cache if group.window}
    mask = tokens * (serving.context + max(windows, default=0)) * (2 if serving.flash_attention else 4) * copies
    inputs = row * shape.hidden * (copies - 1)
    scores = 0 if serving.flash_attention else row * serving.context * shape.n_head
    heads = (shape.n_head + shape.n_kv_head) * shape.head_dim
    attention = scores + row * (4 * shape.hidden + 2 * heads)
    width = shape.intermediate * max(1, shape.n_expert_active)
    outputs = shape.hidden * shape.n_expert_active
    beside = outputs if outputs > 2 * width else 0  # of the experts: else they take the place of gate and up
    mlp = row * ((3 if shape.gated else 2) * width + beside + 5 * shape.hidden)
    logits = serving.batch * 4 * (shape.vocab + shape.hidden)
    return (
        mask + inputs + max(attention, mlp, logits) + 5 * row * copies
    )  # positions, and where keys and values are written


def _older_compute_bytes(shape: ModelShape, serving: Serving) -> int:
    """The same for builds before mid-2025: attention (scores of every head against the whole cache, their mask, and the block's inputs),
    the MLP, or the logits. Reproduces printed buffers to 1 MiB (Mistral 7B at 2k and 32k, TriLM 3.9B, Command-R on two cards)."""
    tokens = min(serving.ubatch, serving.context)
    row = tokens * 4
    mask = row * serving.context * serving.pipeline_copies
    inputs = row * shape.hidden * serving.pipeline_copies
    kept = 4 if shape.parallel_block else 3  # a parallel block still needs its normalised input for the MLP
    scores = 0 if serving.flash_attention else row * serving.context * shape.n_head
    attention = scores + mask + inputs + kept * row * shape.hidden
    width = shape.intermediate * max(1, shape.n_expert_active)
    mlp = row * width * (2 if shape.gated else 1) + inputs + 2 * row * shape.hidden
    logits = row * shape.vocab + row * shape.hidden
    positions = row * serving.pipeline_copies
    return max(attention, mlp, logits) + positions


def _vllm(shape: ModelShape, weights: Weights, serving: Serving, cache: int) -> Estimate:
    """vLLM profiles a full batch once (activations of ``ubatch`` tokens), then gives the rest of its share to the cache."""
    tokens = max(serving.ubatch, 2048)
    activations = (
        tokens * (4 * shape.hidden + 3 * shape.intermediate) * 2 + min(serving.batch, 256) * shape.vocab * 4 * 2
    )
    graphs = 64 * MIB * max(1, shape.n_layer // 16)
    parts = (
        *_weight_parts(weights),
        Part(
            "kv_cache",
            cache,
            Text("blocks of 16 tokens; vLLM takes {share} of the card and fills it with blocks", {"share": "90 %"}),
        ),
        Part("compute", activations),
        Part("cuda_graphs", graphs),
        Part("runtime_context", _CONTEXT[Server.VLLM], runtime=True),
    )
    total = sum(part.size_bytes for part in parts)
    return Estimate(
        parts,
        low_bytes=round(total - graphs - activations / 2),
        high_bytes=round(total * 1.05 + activations),
        largest_buffer_bytes=weights.largest_bytes,
    )


def _weight_parts(weights: Weights) -> list[Part]:
    source = "from the file's header" if weights.exact else "computed from the shape"
    return [Part("weights", weights.total_bytes, Text(source))]
