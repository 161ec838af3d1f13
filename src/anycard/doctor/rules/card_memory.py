"""The card's memory: what ECC corrects, contains, remaps and gives up."""

from __future__ import annotations

from anycard.doctor.case import Case
from anycard.doctor.codes import cuda
from anycard.doctor.rule import HINTS, PROVES, SHOWS, SUGGESTS, Check, Rule, clue, measured, seen, step
from anycard.doctor.rules.hardware import RESET, RMA, XID_AUTHORITY, xid
from anycard.doctor.shapes import Line, Verdict


def _retired_pages_at_limit(case: Case) -> tuple[Line, ...] | None:
    """64 retired pages is the limit for replacement; a card's two counters add up."""
    lines: list[Line] = []
    total = 0
    for fact in case.facts("retired_pages"):
        if "single" in fact.line.text.lower():
            lines, total = [], 0
        lines.append(fact.line)
        total += int(fact.value)
        if total >= 60:
            return tuple(lines)
    return None


RULES = (
    Rule(
        slug="ecc-uncorrectable-error",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card's memory had an error that ECC could not correct.",
        clues=(
            clue(SHOWS, cuda(214)),
            clue(0.93, xid(48, 140, 171, 172)),
            clue(0.93, xid(95)),
            clue(SHOWS, r"uncorrectable ECC error encountered"),
            clue(SHOWS, r"The driver reported memory errors that cannot be corrected"),
            clue(SHOWS, measured("ecc_uncorrected_grew")),
            clue(SHOWS, r"(?:CUDA_ERROR|cudaError)_?ECC_?UNCORRECTABLE"),
            clue(SHOWS, r"Double Bit ECC Error"),
            clue(SHOWS, r"Uncorrectable ECC error"),
            clue(
                SUGGESTS,
                r"(?:DRAM|SRAM|Double Bit|Device Memory|Total).{0,20}Uncorrectable\w*(?: Parity| SEC-DED)?\s*: [1-9]",
            ),
            clue(0.55, r"[Uu]ncorrect\w+(?!.*: *(?:0|N/A)\s*$).{0,40}(?:ECC|error)"),
            clue(HINTS, r"\bDBE\b"),
            clue(0.55, xid(92)),
        ),
        separates="94 is contained in one process; 63 and 64 tell whether a spare row took its place.",
        explains=("app-xid45-preemptive-cleanup", "app-illegal-memory-access"),
        mend=(
            RESET,
            step(
                "Look whether a row is to be remapped or the limit is reached",
                "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
            ),
            RMA,
        ),
        next_check="nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Rule(
        slug="ecc-contained-error",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A memory error was contained: it ended one process, the others go on.",
        clues=(
            clue(PROVES, xid(94)),
            clue(PROVES, r"Contained(?:: SM|: CE|: LTC| memory| error| ECC)", unless=(r"Uncontained",)),
        ),
        separates="95 (uncontained) touches every process and needs a reset at once.",
        explains=("app-xid45-preemptive-cleanup", "app-illegal-memory-access", "ecc-uncorrectable-error"),
        mend=(
            step("Start the ended program again"),
            step("When convenient, reset the card so that the row is remapped", "sudo nvidia-smi --gpu-reset -i N"),
        ),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority=XID_AUTHORITY,
    ),
    Rule(
        slug="ecc-row-remap-pending",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A weak memory row waits to be replaced by a spare: a reset makes it so.",
        clues=(
            clue(0.94, r"New row marked for remapping"),
            clue(0.93, xid(63), unless=(r"All reserved rows",)),
            clue(SHOWS, r"Pending\s*: Yes", seen(r"Remapped Rows", r"Row Remap", r"Remapping Failure")),
            clue(SHOWS, r"row.remap\w*.{0,20}pending.{0,12}(?:yes|true|1)"),
            clue(SHOWS, r"Row remapping is required"),
            clue(0.55, r"[Rr]ow [Rr]emap\w*"),
            clue(HINTS, r"GPU requires reset"),
        ),
        explains=("app-xid45-preemptive-cleanup",),
        mend=(RESET,),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Rule(
        slug="ecc-row-remap-failed",
        family="hardware",
        verdict=Verdict.FAULT,
        says="A memory row could not be replaced: its bank has no spare rows left. The card is to be replaced.",
        clues=(
            clue(0.93, r"row remap(?:ping)? fail", unless=(r"row remap(?:ping)? fail\w*[^:]{0,20}: ?(?:no|0|none)",)),
            clue(PROVES, r"All reserved rows for bank are remapped"),
            clue(PROVES, xid(64)),
            clue(PROVES, r"Row Remapper Error"),
            clue(PROVES, r"Remapping Failure Occurred\s*: Yes"),
            clue(SHOWS, r"Row remapping failure"),
            clue(SHOWS, r"\bNone\s*: [1-9]\d* bank\(s\)"),
        ),
        explains=(
            "ecc-row-remap-pending",
            "ecc-uncorrectable-error",
            "ecc-contained-error",
            "app-xid45-preemptive-cleanup",
        ),
        mend=(step("Take the card out of service", "sudo nvidia-smi drain -p BUS:DEV.0 -m 1"), RMA),
        next_check="nvidia-smi -q -d ROW_REMAPPER",
        authority="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (RMA criteria)",
    ),
    Rule(
        slug="ecc-page-retirement-limit",
        family="hardware",
        verdict=Verdict.FAULT,
        says="The card has retired as many memory pages as it may (64), or is about to: it qualifies for replacement.",
        clues=(
            clue(PROVES, Check(_retired_pages_at_limit)),
            clue(SHOWS, r"page retirement.{0,40}(?:limit|exceed|full)"),
            clue(SHOWS, r"number of retired pages.{0,30}(?:6\d|limit)"),
            clue(HINTS, r"Pending (?:Page Blacklist|Retirement)\s*: Yes"),
            clue(0.55, r"[Rr]etired [Pp]ages(?!\s*$)"),
        ),
        explains=("ecc-uncorrectable-error",),
        mend=(RESET, step("Ask for a replacement with this output", "nvidia-smi -q -d PAGE_RETIREMENT")),
        next_check="nvidia-smi -q -d PAGE_RETIREMENT",
        authority="https://docs.nvidia.com/deploy/dynamic-page-retirement/",
    ),
)
