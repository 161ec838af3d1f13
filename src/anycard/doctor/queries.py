"""Answers that need their question: CSV rows of ``nvidia-smi --query-...`` under a header, a bare line under the command that was asked.

Rules look at one line. So each answer is said once more on one line with what was asked, in the words of ``nvidia-smi -q`` and its kin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_HEADER = re.compile(
    r"^\s*[a-z][a-z_]+(?:\.[a-z_]+)*(?: \[[\w%]+\])?(?:, ?[a-z][a-z_]+(?:\.[a-z_]+)*(?: \[[\w%]+\])?)*\s*$"
)
# The fields that rules ask about. Source: nvidia-smi --help-query-gpu, --help-query-remapped-rows.
_NAMES = {
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "hw_slowdown": "HW Slowdown",
    "sw_power_cap": "SW Power Cap",
    "gpu_idle": "Idle",
    "pending": "Remapped Rows Pending",
    "failure": "Remapping Failure Occurred",
    "remapped_rows.pending": "Remapped Rows Pending",
    "remapped_rows.failure": "Remapping Failure Occurred",
    "pstate": "Performance State",
    "temperature.gpu": "GPU Current Temp",
    "compute_mode": "Compute Mode",
    "mig.mode.current": "MIG Mode Current",
    "driver_version": "Driver Version",
    "name": "Product Name",
    "gpu_name": "Product Name",
    "retired_pages.single_bit_ecc.count": "Single Bit ECC",
    "retired_pages.double_bit.count": "Double Bit ECC",
    "ecc.errors.uncorrected.volatile.total": "Total Uncorrectable",
    "pcie.link.gen.current": "PCIe Generation Current",
    "pcie.link.gen.max": "PCIe Generation Max",
}
# Bits of clocks_throttle_reasons.active. Source: nvml.h, nvmlClocksEventReason*.
_REASONS = {
    0x1: "Idle",
    0x4: "SW Power Cap",
    0x8: "HW Slowdown",
    0x20: "SW Thermal Slowdown",
    0x40: "HW Thermal Slowdown",
    0x80: "HW Power Brake Slowdown",
}
_ROWS = 16
# A command with a bare answer on the next line -> how its answer reads. Group 1, where there is one, is the first {}.
_ASKED = (
    (re.compile(r"modinfo (?:-F|--field)[ =]?version nvidia\b"), "version: {}"),
    (re.compile(r"cat /sys/module/nvidia/version"), "NVRM version: NVIDIA Kernel Module  {}"),
    (re.compile(r"\buname -r\s*$"), "kernel: {}"),
    (re.compile(r"\b(torch\.version\.(?:cuda|hip))\b"), "{} = {}"),
    (re.compile(r"\b(torch\.\w+\.is_available\(\))"), "{} {}"),
    (re.compile(r"\b(torch\.\w+\.device_count\(\))"), "{} = {}"),
    (re.compile(r"\becho \W{0,3}(\w+_VISIBLE_DEVICES)\b"), "{}={}"),
)
# Where a question may stand in a long log: one of these on its line.
MARKS = (
    b"pstate,", b"clocks_throttle_reasons", b"clocks_event_reasons", b"remapped_rows.", b"pcie.link.", b"temperature.gpu",
    b"retired_pages.", b"modinfo -F", b"modinfo --field", b"/sys/module/nvidia/version", b"uname -r", b"torch.version.",
    b".is_available()", b".device_count()", b"_VISIBLE_DEVICES",
)  # fmt: skip
ANSWER_LINES = _ROWS + 1  # that may follow the question's
_PROMPT = re.compile(r"^\s*(?:[$#>]|>>>|In \[|\([\w.-]+\) |\[?\w+@)")


def spelled_out(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(number of the line that said it, from 1; the answer with its question) for every answer among ``lines``."""
    yield from _rows(lines)
    for at, (command, answer) in enumerate(pairwise(lines), 2):
        bare = answer.strip().strip("'\"[]")
        if not bare or len(bare) > 60 or _PROMPT.match(answer):
            continue
        for asked, reads in _ASKED:
            match = asked.search(command)
            if match:
                yield at, reads.format(*match.groups(), bare)


def _rows(lines: list[str]) -> Iterator[tuple[int, str]]:
    for at, header in enumerate(lines):
        if ("_" not in header and "." not in header) or not _HEADER.match(header):
            continue
        fields = [field.split(" [")[0].strip() for field in header.split(",")]
        for number, row in enumerate(lines[at + 1 : at + 1 + _ROWS], at + 2):
            values = [value.strip() for value in row.split(",")]
            if len(values) != len(fields):
                break
            for field, value in zip(fields, values, strict=True):
                for text in _spelled(field, value):
                    yield number, text


def _spelled(field: str, value: str) -> Iterator[str]:
    last = field.rpartition(".")[2]
    if last == "active" and "reasons" in field and value.lower().startswith("0x"):
        bits = int(value, 16) if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value) else 0
        yield from (f"{reason} : {'Active' if bits & bit else 'Not Active'}" for bit, reason in _REASONS.items())
        return
    name = _NAMES.get(field) or (_NAMES.get(last) if "reasons" in field else None)
    if name is not None:
        unit = " C" if name.endswith("Temp") else ""
        spoken = {"0": "No", "1": "Yes"}.get(value, value) if "Remap" in name else value
        yield f"{name} : {spoken}{unit}"
