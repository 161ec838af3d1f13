"""Out of memory, and why: the model, another process, a left-over, pieces, or the allocator's own settings."""

from __future__ import annotations

import re

from anycard.doctor.case import Case
from anycard.doctor.facts import gib
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, said, seen, step
from anycard.doctor.shapes import Line, Verdict

OOM = seen(
    r"CUDA out of memory",
    r"HIP out of memory",
    r"XPU out of memory",
    r"NPU out of memory",
    r"MPS backend out of memory",
    r"cudaMalloc failed: out of memory",
    r"CUDA_ERROR_OUT_OF_MEMORY",
    r"cudaErrorMemoryAllocation",
    r"CUDA error: out of memory",
    r"hipErrorOutOfMemory",
    r"CUBLAS_STATUS_ALLOC_FAILED",
    r"RESOURCE_EXHAUSTED",
    r"OOM when allocating tensor",
    r"ran out of memory trying to allocate (?!.*not a failure)",
    r"OutOfMemoryError",
    r"Out of memory error on GPU",
    r"ErrorOutOfDeviceMemory",
    r"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    r"failed to allocate .{0,60}(?:CUDA|ROCm|Vulkan|SYCL|Metal)\d* buffer",
    r"unable to allocate (?:CUDA|ROCm|Vulkan|SYCL)\d* buffer",
    r"not enough (?:GPU|video|VRAM|device) memory",
    r"Free memory on device .* on startup is less than desired",
)


def _size(case: Case, name: str) -> float | None:
    fact = case.fact(name)
    return gib(fact.value) if fact else None


def _mine(case: Case) -> float | None:
    """What the failing process itself holds: newer messages name only its two parts."""
    whole = _size(case, "oom_this_process") or _size(case, "oom_reserved")
    allocated = _size(case, "oom_allocated")
    return whole or (None if allocated is None else allocated + (_size(case, "oom_unallocated") or 0.0))


def _in_pieces(case: Case) -> tuple[Line, ...] | None:
    """What is reserved but unused would hold the failed request, and is more than a sliver."""
    tried, total = _size(case, "oom_tried"), _size(case, "oom_total")
    spare = _size(case, "oom_unallocated")
    reserved, allocated = _size(case, "oom_reserved"), _size(case, "oom_allocated")
    if spare is None and reserved is not None and allocated is not None:
        spare = reserved - allocated
    limit, used = _size(case, "bfc_limit"), _size(case, "bfc_in_use")  # TensorFlow's allocator
    if limit and used:
        spare, total = limit - used, limit
    if tried is None or spare is None:
        return None
    fact = case.fact("oom_tried")
    ample = spare >= 0.1 * (total or 10 * spare) or (spare >= 1.0 and spare >= 4 * tried)
    return (fact.line,) if fact and spare >= tried and ample else None


def _held_by_others(case: Case) -> tuple[Line, ...] | None:
    """Another process holds more than a quarter of the card, by name or by what is missing in the sum."""
    total, tried = _size(case, "oom_total"), case.fact("oom_tried")
    if total is None or tried is None:
        return None
    allocated = _size(case, "oom_allocated") or 0.0
    # in a container NVML gives the process's own use under the host's number
    others = [
        fact
        for fact in case.facts("oom_other_process")
        if gib(fact.value) >= 0.25 * total and gib(fact.value) + allocated <= 1.05 * total
    ]
    if others:
        return (others[0].line,)
    mine = _mine(case)
    free = _size(case, "oom_free")
    if mine is None or free is None:
        return None
    return (tried.line,) if total - mine - free > 0.35 * total else None


def _refused_though_free(case: Case) -> tuple[Line, ...] | None:
    tried, free, fact = _size(case, "oom_tried"), _size(case, "oom_free"), case.fact("oom_tried")
    return (fact.line,) if fact and tried is not None and free is not None and free > 1.5 * tried + 0.3 else None


def _fills_the_card(case: Case) -> tuple[Line, ...] | None:
    total, fact = _size(case, "oom_total"), case.fact("oom_tried")
    mine = _mine(case)
    if not fact or total is None or mine is None:
        return None
    return (fact.line,) if mine > 0.6 * total or gib(fact.value) > total else None


def _used_by_nobody(case: Case) -> tuple[Line, ...] | None:
    """nvidia-smi shows gigabytes in use and no process."""
    empty = case.seen(_NO_PROCESS)
    used = [fact.line for fact in case.facts("memory_used_mib") if int(fact.value) > 1500]
    return (used[0], empty[0]) if used and empty else None


def _held_and_idle(case: Case) -> tuple[Line, ...] | None:
    """Outside a container, gigabytes in use at 0 % and a table of processes with nothing in it."""
    elsewhere = case.platforms.intersection({"container", "k8s", "wsl", "windows"})
    if elsewhere or case.seen(_A_PROCESS) or case.seen(_CONTAINER):
        return None
    heading = case.seen(_PROCESS_TABLE)
    used = [
        fact.line
        for fact in case.facts("memory_used_mib")
        if int(fact.value) > 1500 and re.search(r"\b0%", fact.line.text)
    ]
    return (used[0], heading[0]) if used and heading else None


_NO_PROCESS = r"No running processes found"
_CONTAINER = r"\b(?:docker|container|podman|kubectl|apptainer|singularity)\b"
_PROCESS_TABLE = r"^\|\s+GPU\s+(?:GI\s+CI\s+)?PID\s+Type\s+Process name"
_A_PROCESS = r"^\|\s+\d+\s+(?:\S+\s+\S+\s+)?\d+\s+[CGM](?:\+[CG])?\s+\S.*(?:MiB|N/A) +\|"
_ALLOCATOR = seen(
    r"PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF",
    r"max_split_size_mb[:=]\d",
    r"expandable_segments[:=]",
    r"garbage_collection_threshold[:=]",
    r"backend:cudaMallocAsync",
    r"set_per_process_memory_fraction",
    r"XLA_PYTHON_CLIENT_MEM_FRACTION",
    r"XLA_PYTHON_CLIENT_ALLOCATOR",
    r"TF_GPU_ALLOCATOR(?!.*will improve the situation)",
    r"PYTORCH_MPS_(?:HIGH|LOW)_WATERMARK_RATIO ?=",
    r"PYTORCH_NO_CUDA_MEMORY_CACHING",
    r"per_process_gpu_memory_fraction",
)
_CANNOT_BEGIN = seen(
    r"CUBLAS_STATUS_NOT_INITIALIZED",
    r"CUDNN_STATUS_NOT_INITIALIZED",
    r"CUDNN_STATUS_INTERNAL_ERROR",
    r"CUDNN_STATUS_ALLOC_FAILED",
    r"CUSOLVER_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)",
    r"CUFFT_ALLOC_FAILED",
    r"NCCL.{0,60}unhandled cuda error",
)
_LEFT_OVER = seen(
    r"<defunct>",
    r"(?:multiprocessing\.spawn|spawn_main|multiproc_worker|VLLM::(?:EngineCore|Worker)\w*|ray::\w+).{0,80}\d+ ?MiB",
    r"\[Not Found\]",
    r"\bPPID\b.{0,40}\b1\b",
    r"kill: \(?\d+\)? - No such process",
)
# a log's own "after the job stops, memory is given back" is no complaint, so these count from a person only
_LEFT_OVER_SAID = said(
    r"(?:orphan|zombie|left-?over|stale|defunct|lingering).{0,60}(?:process|worker|python|engine|gpu|memory)",
    r"(?:after|when).{0,40}(?:kill|ctrl-?c|crash|interrupt|stop|exit)\w*.{0,80}(?:memory|VRAM|GPU)",
    r"(?:memory|VRAM).{0,60}(?:not (?:released|freed)|still (?:held|used|occupied|allocated)|never (?:freed|released))",
    r"still (?:running|alive|there|holds?|holding)",
    r"previous (?:run|session|job)",
    r"(?:没有?|未|不|无法)(?:被|能)?(?:自动)?释放",
    r"(?:used|full|occupied|in use)\b.{0,30}\b(?:but|yet|though|while|and)\b.{0,20}\bno (?:running )?process",
    r"(?:退出|停了|停止|杀掉|结束)\S{0,12}显存(?:还|仍|依然)",
    r"(?:僵尸|残留|孤儿).{0,4}进程",
)
_HELD = seen(
    *OOM.expressions,
    r"\d{4,6}MiB / +\d+MiB",
    r"GPU memory",
    r"VRAM",
    r"显存",
    r"nvidia-smi shows \d",
    r"used_gpu_memory",
    r"占用(?:显存|GPU)",
    r"\d{4,6}MiB \|",
)
_ENDED = seen(
    r"\bdocker (?:rm -f|kill|stop)\b",
    r"\bpkill\b",
    r"\bkill -(?:9|KILL|SIGKILL)\b",
    r"\bsystemctl stop\b",
)

RULES = (
    Rule(
        slug="oom-allocator-settings",
        family="memory",
        verdict=Verdict.APPLICATION,
        says="The allocator's own settings cause the failure, not a lack of memory.",
        clues=(
            clue(0.9, r"expandable segments (?:are|is) not (?:compatible|supported)"),
            clue(SHOWS, r"backend:cudaMallocAsync", seen(r"operation not supported", r"cudaErrorNotSupported")),
            clue(
                0.9,
                r"(?:expected|argument|option|unrecogni[sz]ed|invalid|too small|unsupported).{0,60}(?:expandable_segments?|max_split_size_mb|garbage_collection_threshold|CachingAllocator|roundup_power2)",
                unless=(r"Tried to allocate",),
            ),
            clue(PROVES, r"Unrecognized (?:Caching)?Allocator option"),
            clue(PROVES, r"Unrecognized key .{0,40}in (?:CUDA|accelerator) allocator config"),
            clue(PROVES, r"Expected \w+ .{0,60}CachingAllocator"),
            clue(PROVES, r"invalid (?:low|high) watermark ratio"),
            clue(PROVES, r"max_split_size_mb.{0,60}(?:too small|must be|> ?20)"),
            clue(PROVES, r"expandable_segments not supported"),
            clue(0.9, Check(_refused_though_free), _ALLOCATOR),
            clue(0.9, r"Allocator backend parsed at runtime != allocator backend parsed at load time"),
            clue(0.9, r"\d [GM]iB allowed"),
            clue(
                0.92,
                OOM,
                r"(?:expandable_segments:True\S*max_split_size_mb|max_split_size_mb\S*expandable_segments:True)",
            ),
            clue(PROVES, r"garbage_collect(?:ion)?_threshold too (?:big|small)"),
            clue(
                SUGGESTS,
                seen(
                    r"XLA_PYTHON_CLIENT_MEM_FRACTION ?= ?(?:0?\.9|1)",
                    r"XLA_PYTHON_CLIENT_PREALLOCATE ?= ?true",
                ),
                seen(
                    r"CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED|ALLOC_FAILED)",
                    r"Failed to determine best cudnn convolution algorithm",
                ),
            ),
            clue(SHOWS, r"CUDACachingAllocator\.cpp.{0,120}INTERNAL ASSERT"),
            clue(SHOWS, r"INTERNAL ASSERT FAILED at.{0,60}CUDACachingAllocator"),
            clue(
                SHOWS,
                OOM,
                seen(
                    r"set_per_process_memory_fraction",
                    r"XLA_PYTHON_CLIENT_MEM_FRACTION ?= ?0?\.\d",
                    r"memory_fraction ?[=:] ?0?\.\d",
                    r"gpu_memory_fraction",
                ),
            ),
            clue(
                SUGGESTS,
                _ALLOCATOR,
                OOM,
                unless=(
                    Check(_fills_the_card),
                    Check(_held_by_others),
                    r"documentation for Memory Management and PYTORCH",
                    r"try setting (?:max_split|PYTORCH)",
                    r"try setting max_split",
                    r"MPS backend out of memory",
                ),
            ),
            clue(0.75, Check(_refused_though_free)),
            clue(HINTS, r"^(?:export )?PYTORCH_(?:CUDA_)?ALLOC_CONF=", OOM),
        ),
        separates="The hint to PYTORCH_CUDA_ALLOC_CONF stands in every out-of-memory message; only a set value counts.",
        explains=("oom-model-too-large", "oom-fragmentation"),
        mend=(
            step("Take the setting away and try again", "unset PYTORCH_CUDA_ALLOC_CONF XLA_PYTHON_CLIENT_MEM_FRACTION"),
        ),
        next_check="env | grep -E 'ALLOC_CONF|XLA_PYTHON|TF_GPU|WATERMARK'",
        authority="https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
    ),
    Rule(
        slug="oom-fragmentation",
        family="memory",
        verdict=Verdict.APPLICATION,
        says="Enough memory is reserved, but in pieces none of which is large enough.",
        clues=(
            clue(0.9, Check(_in_pieces)),
            clue(
                SUGGESTS,
                OOM,
                seen(r"fragmentation", r"fragmented"),
                unless=(r"to avoid fragmentation", r"avoid fragmentation", r"If the cause is memory fragmentation"),
            ),
            clue(HINTS, OOM, r"If the cause is memory fragmentation"),
            clue(SUGGESTS, r"memory is (?:too )?fragmented"),
        ),
        separates="The words 'to avoid fragmentation' stand in every message: the numbers decide.",
        explains=("oom-model-too-large",),
        mend=(
            step("Let segments grow", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            step("Keep shapes alike (pad or bucket), and free what is not needed before the large step"),
        ),
        next_check="python -c 'import torch; print(torch.cuda.memory_summary())'",
        authority="https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
    ),
    Rule(
        slug="oom-other-process",
        family="memory",
        verdict=Verdict.APPLICATION,
        says="Another process holds the card's memory.",
        clues=(
            clue(0.9, Check(_held_by_others)),
            clue(0.9, OOM, measured("memory_of_others"), measured("memory_full")),
            clue(
                SHOWS,
                OOM,
                r"MiB \|\s*$",
                seen(r"^\|\s+\d+\s+(?:N/A\s+N/A\s+)?\d+\s+C(?:\+G)?\s+.*\d+MiB \|"),
                unless=(_NO_PROCESS, Check(_fills_the_card)),
            ),
            clue(SHOWS, r"Free memory on device .* is less than desired GPU memory utilization"),
            clue(
                SHOWS,
                OOM,
                said(
                    r"(?:another|other|second|someone else'?s?).{0,40}(?:process|program|job|user|instance|container)",
                    r"shared with",
                    r"jupyter",
                ),
            ),
            clue(SUGGESTS, OOM, r"\d\s+C(?:\+G)?\s+\S+.*MiB \|", unless=(Check(_fills_the_card),)),
        ),
        separates="If no living owner is to be found, it is orphan-worker-holds-gpu.",
        explains=("oom-model-too-large", "oom-fragmentation"),
        mend=(
            step("See who holds it", "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
            step(
                "Wait for it, end it with its owner's consent, or take another card",
                "CUDA_VISIBLE_DEVICES=1 python train.py",
            ),
        ),
        next_check="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
        authority="PyTorch CUDACachingAllocator.cpp (message of torch.OutOfMemoryError)",
    ),
    Rule(
        slug="orphan-worker-holds-gpu",
        family="memory",
        verdict=Verdict.FAULT,
        says="A left-over worker of an earlier run still holds the card's memory.",
        clues=(
            clue(
                0.9,
                seen(r"(?:lsof|fuser).{0,20}/dev/nvidia", r"\bPPID\b|,ppid,"),
                seen(r"^\s*\d+\s+1\s+.*(?:python|ray::|VLLM)", r"ray::IDLE", r"<defunct>"),
            ),
            clue(0.93, Check(_used_by_nobody)),
            clue(
                0.87, Check(_held_and_idle), said(r"(?:no|not|n't|none|nobody|without).{0,60}(?:process|running|job)")
            ),
            clue(HINTS, Check(_held_and_idle)),
            clue(0.93, _HELD, _LEFT_OVER),
            clue(0.93, _HELD, _LEFT_OVER_SAID),
            clue(0.93, OOM, r"leaked (?:shared_memory|semaphore)", unless=(Check(_fills_the_card),)),
            clue(0.87, _ENDED, r"^\d+, \d{4,6} MiB"),
            clue(
                SHOWS,
                r"(?:orphan|zombie|left-?over|defunct)\w* .{0,40}(?:worker|process).{0,80}(?:GPU|VRAM|CUDA|memory)",
            ),
            clue(SUGGESTS, r"fuser.{0,20}/dev/nvidia"),
            clue(SUGGESTS, r"\[Not Found\].{0,30}MiB"),
            clue(HINTS, r"Free memory on device .* is less than desired GPU memory utilization"),
            clue(0.9, r"^\s*\d+\s+1\s+.*(?:python|VLLM::|ray::)", seen(r"MiB", r"GPU", r"VRAM")),
            clue(0.6, r"(?:VLLM::EngineCore|VLLM::Worker).{0,60}\d+ ?MiB"),
        ),
        explains=("oom-other-process", "oom-model-too-large"),
        mend=(
            step("Find it: every process that has the card open", "sudo fuser -v /dev/nvidia*"),
            step("End it by its pid, once you know it is yours", "kill PID"),
        ),
        next_check="sudo fuser -v /dev/nvidia*; ps -eo pid,ppid,stat,etime,cmd | grep -i python",
        authority="https://docs.vllm.ai/en/latest/usage/troubleshooting/",
    ),
    Rule(
        slug="oom-model-too-large",
        family="memory",
        verdict=Verdict.APPLICATION,
        says="What the program asks for (weights, cache, activations, batch) is more than the card has.",
        clues=(
            clue(0.9, OOM, Check(_fills_the_card), unless=(Check(_in_pieces), Check(_held_by_others))),
            clue(0.7, OOM),
            clue(
                0.88, OOM, measured("memory_full"), unless=(measured("memory_of_others"), Check(_in_pieces), _ALLOCATOR)
            ),
            # libraries that find no memory for themselves say that they cannot begin, and a full card says why
            clue(0.8, _CANNOT_BEGIN, measured("memory_full_at_end"), unless=(measured("memory_of_others"),)),
            clue(SHOWS, r"No available memory for the cache blocks"),
            clue(SHOWS, r"larger than the maximum number of tokens that can be stored in KV cache"),
            clue(SHOWS, r"KV cache is needed, which is larger than the available KV cache memory"),
            clue(SHOWS, r"Tried to allocate \d{3,}\.\d+ GiB"),
            clue(0.85, r"MPS backend out of memory"),
        ),
        separates="Look at the numbers: others' memory, memory in pieces and a set allocator come first.",
        mend=(
            step("Take less: smaller batch or context, a quantised model, gradient checkpointing, or offload"),
            step("Or take a larger card, or several", "anycard fit MODEL"),
        ),
        next_check="nvidia-smi --query-gpu=memory.total,memory.used --format=csv; anycard fit MODEL",
        authority="PyTorch CUDACachingAllocator.cpp (message of torch.OutOfMemoryError)",
    ),
)
