"""Everything that NVML says, raw: each call's value, or the name of its error. Judging it is the NVIDIA vendor file's work.

    {"init": {"value": true} | {"error": "DRIVER_NOT_LOADED"},
     "driver": OUTCOME, "cuda": OUTCOME, "count": OUTCOME,
     "cards": [{"index": 0, "handle": OUTCOME, "uuid": OUTCOME, "memory": OUTCOME, ...,
                "instances": [{"index": 0, "handle": OUTCOME, "uuid": OUTCOME, "memory": OUTCOME, ...}]}]}

A card in MIG mode has ``instances``: its MIG devices by slot, empty slots left out, and in ``instance_slots`` how many slots there are.
An OUTCOME is ``{"value": ...}`` or ``{"error": NAME}`` with NVML's own name less ``NVML_ERROR_``, or ``NO_TEXT`` where the value is no
UTF-8. Serial numbers are never asked for.
NVML is opened and closed at each look: a card that fell off the bus, or came back, is only then seen as it is.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from anycard.host.host import Json

Outcome = dict[str, Any]
PROCESS_LISTS = ("compute_processes", "graphics_processes", "mps_processes")


def look() -> Json:
    if not is_here():
        return {"init": {"error": "LIBRARY_NOT_FOUND"}, "cards": []}
    import pynvml

    outcome = Outcomes(pynvml)
    init = outcome(open_nvml, pynvml)
    if "error" in init:
        return {"init": init, "cards": []}
    try:
        count = outcome(pynvml.nvmlDeviceGetCount)
        return {
            "init": init,
            "driver": outcome(pynvml.nvmlSystemGetDriverVersion),
            "cuda": outcome(pynvml.nvmlSystemGetCudaDriverVersion_v2),
            "count": count,
            "cards": [_look_at(pynvml, outcome, index) for index in range(count.get("value", 0))],
        }
    finally:
        outcome(pynvml.nvmlShutdown)


def is_here() -> bool:
    """False where the library that the binding would load is not there: loading the binding alone takes 30 ms."""
    if sys.platform != "linux":
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def pids(seen: Json) -> Iterator[int]:
    """The pids in what ``look`` returned."""
    for card in (seen or {}).get("cards", ()):
        for one in (card, *card.get("instances", ())):
            for name in PROCESS_LISTS:
                for pid, _memory in one.get(name, {}).get("value", ()):
                    yield pid


def open_nvml(pynvml: Any) -> bool:
    pynvml.nvmlInit()
    return True


class Outcomes:
    """Calls NVML and turns its exceptions into values."""

    def __init__(self, pynvml: Any) -> None:
        self._failure = pynvml.NVMLError
        self._names = {
            value: name.removeprefix("NVML_ERROR_")
            for name, value in vars(pynvml).items()
            if name.startswith("NVML_ERROR_") and isinstance(value, int)
        }

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Outcome:
        try:
            return {"value": function(*arguments)}
        except self._failure as error:
            return {"error": self._names.get(error.value, f"CODE_{error.value}")}
        except UnicodeDecodeError:
            return {"error": "NO_TEXT"}


def _look_at(pynvml: Any, outcome: Outcomes, index: int) -> dict[str, Any]:
    handle = outcome(pynvml.nvmlDeviceGetHandleByIndex, index)
    card: dict[str, Any] = {"index": index, "handle": handle if "error" in handle else {"value": True}}
    if "error" in handle:
        return card
    device = handle["value"]
    for name, question in questions(pynvml).items():
        card[name] = outcome(question, device)
    if is_divided(card):
        card["instance_slots"], handles = instance_handles(pynvml, outcome, device)
        card["instances"] = [_look_at_instance(pynvml, outcome, *one) for one in handles]
    return card


def _look_at_instance(pynvml: Any, outcome: Outcomes, slot: int, handle: Outcome) -> dict[str, Any]:
    if "error" in handle:
        return {"index": slot, "handle": handle}
    asked = instance_questions(pynvml).items()
    return {"index": slot, "handle": {"value": True}} | {name: outcome(ask, handle["value"]) for name, ask in asked}


def is_divided(card: dict[str, Any]) -> bool:
    """Whether an entry of ``cards`` is in MIG mode now; the mode that is pending comes with a reset."""
    mode = card.get("mig_mode", {}).get("value")
    return bool(mode) and mode[0] == 1  # NVML_DEVICE_MIG_ENABLE


def instance_handles(pynvml: Any, outcome: Outcomes, device: Any) -> tuple[Outcome, list[tuple[int, Outcome]]]:
    """How many slots a divided card has, and (slot, handle) of those that are not empty. Handles are good for one look: when instances are
    made and destroyed, one may come to mean another (nvml.h, nvmlDeviceGetMigDeviceHandleByIndex)."""
    count = outcome(pynvml.nvmlDeviceGetMaxMigDeviceCount, device)
    asked = [
        (slot, outcome(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, device, slot))
        for slot in range(count.get("value", 0))
    ]
    return count, [(slot, handle) for slot, handle in asked if handle.get("error") not in _EMPTY_SLOT]


_EMPTY_SLOT = ("NOT_FOUND", "INVALID_ARGUMENT")


def instance_questions(pynvml: Any) -> dict[str, Callable[[Any], Any]]:
    """What a MIG instance can be asked, by the name of the answer. NVML tells no utilisation of an instance ("On MIG-enabled GPUs, querying
    device utilization rates is not currently supported", nvml.h), and temperature, power and clocks are the whole card's."""
    asked = questions(pynvml)
    return {
        **{name: asked[name] for name in ("uuid", "name", "memory", *PROCESS_LISTS)},
        "gpu_instance": pynvml.nvmlDeviceGetGpuInstanceId,
        "compute_instance": pynvml.nvmlDeviceGetComputeInstanceId,
    }


def questions(pynvml: Any) -> dict[str, Callable[[Any], Any]]:
    """Every question that a card is asked, by the name of its answer."""
    return {
        "uuid": pynvml.nvmlDeviceGetUUID,
        "name": pynvml.nvmlDeviceGetName,
        "pci": lambda device: pynvml.nvmlDeviceGetPciInfo(device).busId,
        "minor": pynvml.nvmlDeviceGetMinorNumber,
        "memory": lambda device: _memory(pynvml, device),
        "compute_capability": lambda device: list(pynvml.nvmlDeviceGetCudaComputeCapability(device)),
        "mig_mode": lambda device: list(pynvml.nvmlDeviceGetMigMode(device)),
        "compute_processes": _process_list(pynvml, "Compute"),
        "graphics_processes": _process_list(pynvml, "Graphics"),
        "mps_processes": _process_list(pynvml, "MPSCompute"),
        "utilisation_percent": lambda device: _utilisation(pynvml.nvmlDeviceGetUtilizationRates(device)),
        "temperature_c": partial(
            _newest(pynvml, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), sensor=pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_mw": pynvml.nvmlDeviceGetPowerUsage,
        "power_limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
        "clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, type=pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": partial(pynvml.nvmlDeviceGetClockInfo, type=pynvml.NVML_CLOCK_MEM),
        "fan_percent": pynvml.nvmlDeviceGetFanSpeed,
        "throttle_bits": _newest(
            pynvml, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        ),
        "pcie_generation": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
        "pcie_width": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
        "ecc_corrected": lambda device: _ecc(pynvml, device, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "ecc_uncorrected": lambda device: _ecc(pynvml, device, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    }


def _memory(pynvml: Any, device: Any) -> dict[str, int]:
    """Version 2 tells what the driver reserves apart; drivers before 510 have version 1 alone."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError_FunctionNotFound:
        memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    return {"total_bytes": memory.total, "used_bytes": memory.used, "free_bytes": memory.free}


def _utilisation(rates: Any) -> list[int]:
    """Of the card, and of its memory."""
    return [rates.gpu, rates.memory]


def _ecc(pynvml: Any, device: Any, kind: int) -> int:
    """Errors since the driver was loaded."""
    return int(pynvml.nvmlDeviceGetTotalEccErrors(device, kind, pynvml.NVML_VOLATILE_ECC))


def _process_list(pynvml: Any, kind: str) -> Callable[[Any], list[list[int | None]]]:
    """``[pid, bytes]`` of each program; bytes are null where the driver does not tell (Windows, MIG without rights). Version 3 came with
    driver 510."""
    stem = f"nvmlDeviceGet{kind}RunningProcesses"
    ask = _newest(pynvml, f"{stem}_v3", f"{stem}_v2")
    return lambda device: [[process.pid, process.usedGpuMemory] for process in ask(device)]


def _newest(pynvml: Any, *names: str) -> Callable[..., Any]:
    """A call under the first of its ``names``, newest first, that the driver knows: older ones have the older names alone, and the binding
    may have dropped those."""
    *newer, oldest = (getattr(pynvml, name) for name in names if hasattr(pynvml, name))

    def ask(device: Any, **more: Any) -> Any:
        for function in newer:
            with suppress(pynvml.NVMLError_FunctionNotFound):
                return function(device, **more)
        return oldest(device, **more)

    return ask
