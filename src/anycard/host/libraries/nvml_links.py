"""How NVIDIA's cards reach each other, as NVML says it: asked apart from ``nvml``, for it is long on a large machine and never changes.

    {"cards": [{"index": 0, "pci": OUTCOME, "nvlinks": [{"link": 0, "pci": OUTCOME, "version": OUTCOME}]}],
     "pairs": [[0, 1, OUTCOME]]}            OUTCOME as in ``nvml``; a pair's value is NVML's level, 0 (same board) to 50 (across sockets)

``nvlinks`` holds those that are up. Behind a switch (NVSwitch) every link of a card ends at the switch, whose address is no card's.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from anycard.host.host import Json
from anycard.host.libraries.nvml import Outcome, Outcomes, is_here, open_nvml


def look() -> Json:
    if not is_here():
        return {"cards": [], "pairs": []}
    import pynvml

    outcome = Outcomes(pynvml)
    if "error" in outcome(open_nvml, pynvml):
        return {"cards": [], "pairs": []}
    try:
        count = outcome(pynvml.nvmlDeviceGetCount).get("value", 0)
        asked = {index: outcome(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
        handles = {index: handle["value"] for index, handle in asked.items() if "value" in handle}
        return {
            "cards": [
                {
                    "index": index,
                    "pci": outcome(_pci, pynvml, handle),
                    "nvlinks": _nvlinks(pynvml, outcome, handle),
                }
                for index, handle in handles.items()
            ],
            "pairs": [
                [a, b, outcome(pynvml.nvmlDeviceGetTopologyCommonAncestor, handles[a], handles[b])]
                for a, b in combinations(handles, 2)
            ],
        }
    finally:
        outcome(pynvml.nvmlShutdown)


def _pci(pynvml: Any, handle: Any) -> str:
    return _text(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _nvlinks(pynvml: Any, outcome: Outcomes, handle: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state: Outcome = outcome(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        if "error" in state:
            break  # the card has no more, or none at all
        if state["value"]:
            found.append(
                {
                    "link": link,
                    "pci": outcome(_remote, pynvml, handle, link),
                    "version": outcome(pynvml.nvmlDeviceGetNvLinkVersion, handle, link),
                }
            )
    return found


def _remote(pynvml: Any, handle: Any, link: int) -> str:
    return _text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
