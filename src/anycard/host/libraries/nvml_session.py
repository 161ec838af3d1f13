"""NVML kept open, for looks that come every second: the moving values alone, in the shape of ``nvml.look``, and what its event set reports.

    {"init": OUTCOME, "count": OUTCOME, "cards": [{"index": 0, "handle": OUTCOME, "uuid": OUTCOME, "memory": OUTCOME, ...}],
     "events": [{"uuid": "GPU-...", "kind": "xid", "data": 79, "gpu_instance": 3 | null}]}

An open NVML does not notice a card that comes back, nor one that is new. So it is closed, and opened again by the next look, when a card
answers that it is lost and when the driver lists other cards than before; not more often than every ``_STAYS_OPEN_S`` seconds, for opening
takes seconds where no persistence mode holds the driver.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from anycard.host.host import Json
from anycard.host.libraries.nvml import (
    Outcome,
    Outcomes,
    instance_handles,
    instance_questions,
    is_divided,
    open_nvml,
    questions,
)

_STAYS_OPEN_S = 3.0
_LISTED = Path("/proc/driver/nvidia/gpus")
_SICK = frozenset(
    {"GPU_IS_LOST", "GPU_NOT_FOUND", "NOT_FOUND", "RESET_REQUIRED", "UNINITIALIZED", "UNKNOWN", "TIMEOUT"}
)
_NEVER = frozenset(
    {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "NO_PERMISSION"}
)  # an answer that will be the same in a second

# What moves is asked at each look; what seldom does, and what a card has no answer for, at each tenth. So are lists of programs that were
# empty, but for the one of those that compute.
_EVERY_LOOK = (
    "memory", "compute_processes", "graphics_processes", "mps_processes", "utilisation_percent", "temperature_c", "power_mw",
    "clock_mhz", "throttle_bits",
)  # fmt: skip
_SELDOM = (
    "power_limit_mw", "fan_percent", "memory_clock_mhz", "pcie_generation", "pcie_width", "ecc_corrected", "ecc_uncorrected", "mig_mode",
)  # fmt: skip
_OFTEN_EMPTY = frozenset({"graphics_processes", "mps_processes"})
_SELDOM_LOOKS = 10
_MOST_EVENTS = 64  # taken in one look; a storm of them waits for the next
_NO_INSTANCE = 0xFFFFFFFF  # an event of the whole card
_Questions = dict[str, Callable[[Any], Any]]

_EVENT_KINDS = ("nvmlEventTypeXidCriticalError", "nvmlEventTypeDoubleBitEccError")


class NvmlSession:
    """See ``host.Session``."""

    def __init__(self) -> None:
        import pynvml

        self._pynvml: Any = pynvml
        self._outcome = Outcomes(pynvml)
        asked = questions(pynvml)
        self._often = {name: asked[name] for name in _EVERY_LOOK}
        self._seldom = {name: asked[name] for name in _SELDOM}
        of_instance = instance_questions(pynvml)
        self._instance_often: _Questions = {name: ask for name, ask in of_instance.items() if name in _EVERY_LOOK}
        self._instance_seldom: _Questions = {"gpu_instance": of_instance["gpu_instance"]}
        self._open = False
        self._opened_s = 0.0
        self._handles: dict[int, Any] = {}
        self._kept: dict[str, dict[str, Outcome]] = {}  # uuid -> answers since the last tenth look
        self._events: Any = None
        self._uuids: dict[
            int | None, str
        ] = {}  # by handle: a lost card says no more who it is, and an event is most likely of that one
        self._listed: tuple[str, ...] = ()
        self._looks = 0
        self._since_us: dict[str, int] = {}  # uuid -> time stamp of the last sample of its programs' utilisation

    def look(self) -> Json:
        if not self._open:
            init = self._outcome(open_nvml, self._pynvml)
            if "error" in init:
                return {"init": init, "cards": [], "events": []}
            self._begin()
        elif self._looks % _SELDOM_LOOKS == 0 and _listed() != self._listed:
            self.close()
            return self.look()
        if self._looks % _SELDOM_LOOKS == 0:
            self._kept.clear()
        count = self._outcome(self._pynvml.nvmlDeviceGetCount)
        cards = [self._look_at(index) for index in range(count.get("value", 0))]
        self._looks += 1
        seen = {"init": {"value": True}, "count": count, "cards": cards, "events": list(self._drain())}
        if _sick(count, cards) and time.monotonic() - self._opened_s >= _STAYS_OPEN_S:
            self.close()
        return seen

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._events is not None:
            self._outcome(self._pynvml.nvmlEventSetFree, self._events)
            self._events = None
        self._outcome(self._pynvml.nvmlShutdown)

    def _begin(self) -> None:
        self._open, self._opened_s, self._looks = True, time.monotonic(), 0
        self._handles.clear()
        self._kept.clear()
        self._uuids.clear()
        self._listed = _listed()
        made = self._outcome(self._pynvml.nvmlEventSetCreate)
        self._events = made.get("value")

    # ---- one card

    def _look_at(self, index: int) -> dict[str, Any]:
        card: dict[str, Any] = {"index": index}
        device = self._handles.get(index)
        if device is None:
            handle = self._outcome(self._pynvml.nvmlDeviceGetHandleByIndex, index)
            if "error" in handle:
                return card | {"handle": handle}
            device = self._handles[index] = handle["value"]
            self._register(device)
        card["handle"] = {"value": True}
        outcome = self._outcome
        # Asked each time: after a card was lost and found, the same number may be another card.
        uuid = card["uuid"] = outcome(self._pynvml.nvmlDeviceGetUUID, device)
        key = uuid.get("value", f"index {index}")
        if "value" in uuid:
            self._uuids[_address(device)] = key
        self._ask(card, key, device, self._seldom, self._often)
        if is_divided(card):
            card["instance_slots"], handles = instance_handles(self._pynvml, outcome, device)
            card["instances"] = [self._look_at_instance(*one, key) for one in handles]
        elif card["compute_processes"].get("value") or card["graphics_processes"].get("value"):
            card["process_utilisation"] = outcome(self._process_utilisation, key, device)
        return card

    def _look_at_instance(self, slot: int, handle: Outcome, whole: str) -> dict[str, Any]:
        if "error" in handle:
            return {"index": slot, "handle": handle}
        device = handle["value"]
        uuid = self._outcome(self._pynvml.nvmlDeviceGetUUID, device)
        instance: dict[str, Any] = {"index": slot, "handle": {"value": True}, "uuid": uuid}
        key = uuid.get("value", f"{whole} slot {slot}")
        self._ask(instance, key, device, self._instance_seldom, self._instance_often)
        return instance

    def _ask(self, seen: dict[str, Any], key: str, device: Any, seldom: _Questions, often: _Questions) -> None:
        """Adds the answers to ``seen``."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = {name: self._outcome(question, device) for name, question in seldom.items()}
        seen |= kept
        for name, question in often.items():
            if name in kept:
                continue  # it had no answer since the last tenth look, and stands in ``seen`` already
            answer = seen[name] = self._outcome(question, device)
            if answer.get("error") in _NEVER or (name in _OFTEN_EMPTY and answer.get("value") == []):
                kept[name] = answer
        if "error" in seen["uuid"]:
            del self._kept[key]  # whose answers these are nobody knows, nor whether the next are of the same fault

    def _process_utilisation(self, key: str, device: Any) -> dict[int, int]:
        """pid -> per cent of the card's time, of those that used it since the last look."""
        samples = self._pynvml.nvmlDeviceGetProcessUtilization(device, self._since_us.get(key, 0))
        self._since_us[key] = max((sample.timeStamp for sample in samples), default=self._since_us.get(key, 0))
        return {sample.pid: sample.smUtil for sample in samples if sample.smUtil <= 100}  # more: no valid sample

    # ---- events

    def _register(self, device: Any) -> None:
        if self._events is not None:
            wanted = 0
            for name in _EVENT_KINDS:
                wanted |= getattr(self._pynvml, name)
            self._outcome(self._pynvml.nvmlDeviceRegisterEvents, device, wanted, self._events)

    def _drain(self) -> Iterator[dict[str, Any]]:
        """What was reported since the last look; never waits."""
        if self._events is None:
            return
        wait: Callable[..., Any] = self._pynvml.nvmlEventSetWait_v2
        for _ in range(_MOST_EVENTS):
            with suppress(self._pynvml.NVMLError):  # TIMEOUT: there is no more
                event = wait(self._events, 0)
                is_xid = event.eventType == self._pynvml.nvmlEventTypeXidCriticalError
                yield {
                    "uuid": self._uuids.get(_address(event.device)),
                    "kind": "xid" if is_xid else "ecc",
                    "data": int(event.eventData),
                    "gpu_instance": None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId),
                }
                continue
            return


def open_session() -> NvmlSession:
    return NvmlSession()


def _address(device: Any) -> int | None:
    """What tells two handles apart."""
    return ctypes.cast(device, ctypes.c_void_p).value


def _listed() -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in _LISTED.iterdir()))
    except OSError:
        return ()


def _sick(count: Outcome, cards: list[dict[str, Any]]) -> bool:
    if count.get("error") in _SICK:
        return True
    return any(
        answer.get("error") in _SICK
        for card in cards
        for name in ("handle", "uuid", "memory")
        if (answer := card.get(name)) is not None
    )
