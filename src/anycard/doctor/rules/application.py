"""The program's own mistakes, which look like the card's."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.codes import cuda
from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Check, Rule, clue, seen, step
from anycard.doctor.rules.hardware import xid
from anycard.doctor.rules.harmless import FAMILY
from anycard.doctor.shapes import Line, Verdict

_XID_45 = 45


def _only_xid_45(case: Case) -> tuple[Line, ...] | None:
    every = case.facts("xid")
    if every and all(int(fact.value) == _XID_45 for fact in every):
        return tuple(fact.line for fact in every[:3])
    return None


RULES = (
    Rule(
        slug="app-illegal-memory-access",
        family=FAMILY,
        verdict=Verdict.APPLICATION,
        says="A bug of the program (or of one kernel in a library): it touched memory that is not its own.",
        clues=(
            clue(SUGGESTS, cuda(700)),
            clue(SHOWS, r"an illegal memory access was encountered"),
            clue(SHOWS, r"CUDA_ERROR_ILLEGAL_ADDRESS"),
            clue(SHOWS, r"cudaErrorIllegalAddress"),
            clue(SHOWS, r"device-side assert triggered"),
            clue(SHOWS, r"block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `"),
            clue(SHOWS, r"misaligned address"),
            clue(SHOWS, r"Memory access fault by GPU node"),
            clue(SHOWS, r"CUDA_ERROR_LAUNCH_FAILED"),
            clue(SHOWS, r"unspecified launch failure"),
            clue(SHOWS, r"an illegal instruction was encountered"),
            clue(0.55, r"illegal (?:memory access|address|instruction)"),
            clue(HINTS, r"CUDA kernel errors might be asynchronously reported"),
        ),
        separates="With Xid 48, 63, 94 or 95 in the kernel log it is the memory of the card.",
        mend=(
            step(
                "A device-side assert: an index is out of its range, often a label beyond the number of classes or a token beyond the "
                "vocabulary. The line that gave it is named with",
                "CUDA_LAUNCH_BLOCKING=1 python prog.py",
            ),
            step("Else find the kernel", "CUDA_LAUNCH_BLOCKING=1 compute-sanitizer --tool memcheck python prog.py"),
            step("Update the library whose kernel it names"),
        ),
        next_check="sudo dmesg | grep -i xid; CUDA_LAUNCH_BLOCKING=1 python prog.py",
        authority="CUDA runtime API, cudaErrorIllegalAddress",
    ),
    Rule(
        slug="app-torch-nvml-count-bug",
        family=FAMILY,
        verdict=Verdict.APPLICATION,
        says="The framework miscounts cards through NVML; the cards are fine.",
        clues=(
            clue(0.92, r"torch\.cuda\.is_available\(\) True", r"torch\.cuda\.device_count\(\) = 0"),
            clue(0.85, r"_cuda_getDeviceCount\(\)", r"device_count\(\)"),
            clue(SHOWS, r"device >= 0 && device < num_gpus"),
            clue(SHOWS, r"INTERNAL ASSERT FAILED at .*CUDAContext\.cpp"),
            clue(SHOWS, r"_(?:raw_)?device_(?:count|uuid)_nvml"),
            clue(SHOWS, r"_get_nvml_device_index"),
            clue(
                0.9,
                r"device_count\(\)",
                seen(r"works (?:as expected|fine)", r"device='cuda:0'"),
                seen(r"\bOut\[\d+\]: 0\b", r"device_count\(\).{0,12}(?:returns?|is|=|==) ?.{0,3}\b0\b"),
            ),
            clue(
                SHOWS,
                r"CUDA_VISIBLE_DEVICES[=:] ?['\"]?(?:GPU|MIG)-[0-9a-f]{4}",
                seen(r"device_count", r"is_available\(\)"),
                unless=(r"MIG-\S+,MIG-",),
            ),
            clue(SUGGESTS, r"PYTORCH_NVML_BASED_CUDA_CHECK"),
            clue(SUGGESTS, r"Can't (?:initialize NVML|get nvml device count)"),
            clue(SUGGESTS, r"nvmlDeviceGetHandleByIndex", seen(r"torch", r"INTERNAL ASSERT")),
            clue(0.75, r"_cuda_getDeviceCount\(\)\W{0,4}(?:=|returns|is)"),
        ),
        separates="An index that the program itself asks for says 'invalid device ordinal'.",
        mend=(
            step("Name cards by number instead of UUID, or update torch"),
            step("Ask CUDA instead of NVML", "unset PYTORCH_NVML_BASED_CUDA_CHECK"),
        ),
        next_check="python -c 'import torch; torch.zeros(1).cuda(); print(torch._C._cuda_getDeviceCount(), torch.cuda.device_count())'",
        authority="https://github.com/pytorch/pytorch/issues/90543, #95784, #107300",
    ),
    Rule(
        slug="app-xid45-preemptive-cleanup",
        family=FAMILY,
        verdict=Verdict.APPLICATION,
        says="Xid 45 is the driver cleaning up channels when a program is ended: a consequence, not a fault of the card.",
        clues=(
            clue(0.9, Check(_only_xid_45)),
            clue(HINTS, xid(45)),
            clue(SUGGESTS, r"Preemptive Channel Removal"),
        ),
        separates="If another Xid comes before it, that one is the cause.",
        mend=(step("Look who ended the program (a scheduler, a time limit, out of memory, Ctrl-C)"),),
        next_check="sudo dmesg -T | grep -iE 'xid|oom|killed'",
        authority="NVIDIA Xid catalogue: 45",
    ),
)
