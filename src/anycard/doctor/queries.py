"""Answers of ``nvidia-smi --query-... --format=csv`` in the words of ``nvidia-smi -q``: rules know the one form, people paste both."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADER = re.compile(r"^\s*[a-z][a-z_]+(?:\.[a-z_]+)*(?: \[\w+\])?(?:, ?[a-z][a-z_]+(?:\.[a-z_]+)*(?: \[\w+\])?)*\s*$")
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


def spelled_out(lines: list[str]) -> Iterator[tuple[int, str]]:
    """(number of the line that said it, from 1; the same as ``nvidia-smi -q`` puts it) for every answer among ``lines``."""
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
