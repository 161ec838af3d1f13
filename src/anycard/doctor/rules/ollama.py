"""Ollama: what fits, and which libraries it found."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.facts import gib
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, said, seen, step
from anycard.doctor.rules.memory import OOM
from anycard.doctor.shapes import Line, Verdict

_TROUBLE = "https://github.com/ollama/ollama/blob/main/docs/troubleshooting.md"


def _offload(case: Case) -> tuple[int, int, Line] | None:
    """(layers on the card, layers of the model, line) of the last load."""
    shown = case.facts("offloaded")
    if shown:
        done, _, every = shown[-1].value.partition("/")
        return int(done), int(every), shown[-1].line
    done_fact, every_fact = case.facts("layers_offload"), case.facts("layers_model")
    if done_fact and every_fact:
        return int(done_fact[-1].value), int(every_fact[-1].value), every_fact[-1].line
    return None


def _sizes(case: Case) -> tuple[float, float] | None:
    """(weights, memory available on the cards) in GiB, as Ollama's memory estimate prints them."""
    weights, available = case.facts("ollama_weights"), case.facts("ollama_available")
    if not weights or not available:
        parts, cards = case.facts("ollama_part"), case.facts("ollama_card_free")
        return (sum(gib(p.value) for p in parts), sum(gib(c.value) for c in cards)) if parts and cards else None
    free = sum(gib(size.strip()) for size in _split_sizes(available[-1].value))
    return _weights_alone(case, gib(weights[-1].value)), free


def _weights_alone(case: Case, total: float) -> float:
    """Ollama's estimate counted the KV cache among the weights up to 0.6: what would otherwise exceed the sum of all is taken off."""
    cache, full = case.facts("ollama_kv"), case.facts("ollama_full")
    if cache and full and total + gib(cache[-1].value) > gib(full[-1].value):
        return total - gib(cache[-1].value)
    return total


def _split_sizes(text: str) -> list[str]:
    words = text.split()
    return [f"{number} {unit}" for number, unit in zip(words[::2], words[1::2], strict=False)]


def _output_layer_only(case: Case) -> tuple[Line, ...] | None:
    offload = _offload(case)
    return (offload[2],) if offload and offload[0] == offload[1] - 1 and offload[1] > 3 else None


def _partly_on_cpu(case: Case) -> tuple[Line, ...] | None:
    offload = _offload(case)
    return (offload[2],) if offload and offload[0] < offload[1] - 1 else None


def _weights_fit(case: Case) -> tuple[Line, ...] | None:
    sizes = _sizes(case)
    line = case.facts("ollama_weights") or case.facts("ollama_part")
    return (line[-1].line,) if sizes and line and sizes[0] < 0.9 * sizes[1] else None


def _weights_do_not_fit(case: Case) -> tuple[Line, ...] | None:
    sizes = _sizes(case)
    line = case.facts("ollama_weights") or case.facts("ollama_part")
    return (line[-1].line,) if sizes and line and sizes[0] >= 0.9 * sizes[1] else None


def _long_context(case: Case) -> tuple[Line, ...] | None:
    return tuple(fact.line for fact in case.facts("context_length") if int(fact.value) > 16384)[:1] or None


_SPLIT = seen(r"\d+%/\d+% CPU/GPU", r"\b100% CPU\b")
_KV_FAILS = seen(
    r"failed to (?:allocate|create|initialize) .{0,60}(?:kv|KV)[ _-]?(?:cache|self)",
    r"kv.?cache.{0,80}(?:failed to allocate|out of memory|does not fit|exceed)",
    r"failed to allocate compute (?:pp |tg |)buffers",
    r"failed to initialize the context",
    r"llama_kv_cache\w*.{0,60}fail",
    r"graph_reserve: failed to allocate compute buffers",
    r"kv cache (?:size (?:exceeds|is larger|of .{0,24} (?:exceeds|does not fit))|does not|is larger|too)",
)

RULES = (
    Rule(
        slug="ollama-model-exceeds-vram",
        family="inference-engine",
        verdict=Verdict.APPLICATION,
        says="The model does not fit into the cards' memory, so a part of its layers runs on the CPU.",
        clues=(
            clue(0.9, Check(_partly_on_cpu), Check(_weights_do_not_fit)),
            clue(0.8, Check(_partly_on_cpu), unless=(Check(_weights_fit), r"offloaded 0/")),
            clue(0.7, Check(_partly_on_cpu)),
            clue(0.75, r"\d+%/\d+% CPU/GPU"),
            clue(SHOWS, r"model requires more system memory \("),
            clue(
                SHOWS, r"requested? (?:model|memory).{0,60}(?:more|larger|exceeds).{0,40}(?:VRAM|GPU memory|available)"
            ),
            clue(SHOWS, r"model (?:is )?too large (?:for|to fit)"),
            clue(SHOWS, r"\d{2,3}\.\d GiB.{0,40}(?:exceed|more than|larger than).{0,40}(?:VRAM|GiB)"),
            clue(SUGGESTS, r"insufficient VRAM to load any model layers"),
            clue(SUGGESTS, r"gpu has too little memory to allocate any layers"),
            clue(HINTS, r"(?:VRAM|vram).{0,60}(?:exceed|insufficient|not enough|too small|fit)"),
            clue(0.55, r"memory\.required\.full"),
            clue(SHOWS, r"model request too large for system"),
        ),
        separates="If the weights alone would fit, it is the context (ollama-context-exceeds-vram).",
        explains=("oom-model-too-large",),
        mend=(
            step("Take a smaller quantisation or model", "ollama run MODEL:8b-q4_K_M"),
            step(
                "Shorten the context and quantise the cache",
                "OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve",
            ),
        ),
        next_check="ollama ps; nvidia-smi; anycard fit MODEL",
        authority=_TROUBLE,
    ),
    Rule(
        slug="ollama-context-exceeds-vram",
        family="inference-engine",
        verdict=Verdict.APPLICATION,
        says="The weights fit, but the KV cache or graph of this context length does not.",
        clues=(
            clue(0.85, r"\b100% CPU\b", Check(_long_context)),
            clue(0.93, Check(_partly_on_cpu), Check(_weights_fit)),
            clue(0.9, seen(*_SPLIT.expressions, r"offloaded \d+/\d+ layers"), said(r"(?:context|num_ctx|ctx)\w*")),
            clue(0.9, _KV_FAILS),
            clue(0.85, Check(_partly_on_cpu), Check(_long_context)),
            clue(0.85, seen(r"\d+%/\d+% CPU/GPU"), Check(_long_context)),
            clue(0.85, OOM, Check(_long_context)),
            clue(
                SHOWS,
                r"(?:num_ctx|context (?:length|size|window)).{0,80}(?:VRAM|does not fit|too (?:large|long)|spill|CPU)",
            ),
            clue(SHOWS, r"KV cache is needed, which is larger than the available KV cache memory"),
            clue(SHOWS, r"larger than the maximum number of tokens that can be stored in KV cache"),
            clue(0.85, OOM, r"KV buffer size = +\d{4,}\.\d+ MiB"),
        ),
        separates="ollama-model-exceeds-vram: the weights alone are too large.",
        explains=("ollama-model-exceeds-vram", "oom-model-too-large"),
        mend=(
            step("Shorten it", "OLLAMA_CONTEXT_LENGTH=8192 ollama serve"),
            step("Quantise the cache", "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"),
            step("Serve fewer requests at once", "OLLAMA_NUM_PARALLEL=1 ollama serve"),
            step("vLLM: a shorter window, or more of the card", "vllm serve MODEL --max-model-len 8192"),
        ),
        next_check="ollama ps; ollama show MODEL --parameters",
        authority="https://github.com/ollama/ollama/blob/main/docs/faq.md (context window)",
    ),
    Rule(
        slug="ollama-output-layer-on-cpu",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="All layers but the output layer are on the card: it is slower than it could be, by the last bit of memory.",
        clues=(
            clue(0.93, Check(_output_layer_only)),
            clue(0.93, r"offloading output layer to CPU", unless=(Check(_partly_on_cpu),)),
            clue(
                SHOWS,
                r"output(?: layer)?\.?\w* .{0,40}(?:on|to|assigned to) (?:the )?CPU",
                unless=(Check(_partly_on_cpu),),
            ),
            clue(SHOWS, r"layer +\d+ \(output\).{0,40}CPU"),
        ),
        explains=("ollama-model-exceeds-vram", "ollama-context-exceeds-vram"),
        mend=(
            step("Ask for one layer more", "/set parameter num_gpu 999"),
            step(
                "Or free a little: a shorter context, a quantised cache, no desktop on the card",
                "OLLAMA_FLASH_ATTENTION=1 ollama serve",
            ),
        ),
        next_check="journalctl -u ollama | grep -E 'offload'",
        authority="ollama llm/memory.go; llama.cpp load_tensors",
    ),
    Rule(
        slug="ollama-runner-libs-missing",
        family="inference-engine",
        verdict=Verdict.FAULT,
        says="The card is seen, but the runner's libraries that would use it are not installed.",
        clues=(
            clue(
                SHOWS,
                r"library=(?:cuda|CUDA|rocm|ROCm)",
                r"load_backend: loaded CPU backend",
                unless=(r"load_backend: loaded (?:CUDA|ROCm|HIP|Vulkan)",),
            ),
            clue(PROVES, r"compatible gpu libraries.{0,20}compatible=\[\]"),
            clue(
                0.9,
                r"(?:Dynamic LLM libraries|runners)\W{0,4}(?:runners=)?\"?\[(?:cpu\w*[ ,]*)+\]",
                seen(r"library=(?:cuda|rocm)", r"Nvidia GPU detected", r"GPU detected"),
            ),
            clue(0.9, r"amdgpu detected, but no compatible rocm library found"),
            clue(0.9, r"no suitable rocm found, falling back to CPU"),
            clue(SHOWS, r"(?:failed to load|LoadLibrary|dlopen|unable to load).{0,120}ggml-(?:cuda|hip|rocm|vulkan)"),
            clue(SHOWS, r"lib/ollama\S*: No such file or directory"),
            clue(SHOWS, r"no (?:GPU )?(?:runners?|backends?) (?:found|available|loaded)", unless=(r"no GPU detected",)),
            clue(
                SHOWS,
                r"library=(?:cuda|CUDA|rocm|ROCm)",
                seen(
                    r"system info=\"?CPU : (?!.*(?:CUDA|ROCm|HIP|Vulkan))",
                    r"load_tensors: +CPU(?:_Mapped)? model buffer size",
                    r"llm_load_tensors: +CPU buffer size",
                ),
                unless=(
                    r"CUDA\d model buffer",
                    r"CUDA\d buffer size",
                    r"ROCm\d (?:model )?buffer",
                    r"load_backend: loaded (?:CUDA|ROCm)",
                ),
            ),
            clue(SHOWS, r"library=(?:cuda|CUDA|rocm|ROCm)", r"offloaded 0/\d+ layers to GPU"),
            clue(
                0.87,
                r"library=(?:cuda|CUDA|rocm|ROCm)",
                r"libggml-cpu-\w+\.(?:so|dll)",
                r"\b100% CPU\b",
                unless=(r"cuda_v1\d", r"libggml-(?:cuda|hip)", r"rocm_v"),
            ),
            clue(
                SUGGESTS,
                r"library=(?:cuda|CUDA|rocm|ROCm)",
                r"\b100% CPU\b",
                unless=(Check(_long_context), r"layers\.offload", r"offloaded \d+/"),
            ),
            clue(SUGGESTS, r"unable to locate gpu dependency libraries"),
            clue(SUGGESTS, r"cuda_v1\d.{0,60}(?:missing|not found|No such file|does not exist)"),
            clue(
                SUGGESTS,
                r"lib(?:cudart|cublas(?:Lt)?|ggml-cuda|hipblas|rocblas)\.so\S*.{0,20}(?:not found|cannot open)",
                seen(r"ollama", r"llama"),
            ),
        ),
        separates="If the card is not seen at all ('no compatible GPUs'), look at the driver first.",
        mend=(
            step("Install again with the libraries", "curl -fsSL https://ollama.com/install.sh | sh", "linux wsl"),
            step(
                "From an archive unpack lib/ too, beside bin/; for AMD the -rocm archive as well",
                "sudo tar -C /usr -xzf ollama-linux-amd64.tgz",
            ),
            step("Distribution packages: take ollama-cuda or ollama-rocm instead of ollama"),
        ),
        next_check="ls $(dirname $(readlink -f $(which ollama)))/../lib/ollama",
        authority="https://github.com/ollama/ollama/issues/9842",
    ),
)
