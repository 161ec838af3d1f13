"""Apple's own graphics, by ``system_profiler``. Its memory is the machine's: both share it. Cards of other makers in older Macs are passed
over: PyTorch's ``mps`` device does not promise to run on them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from anycard.cards.seen import Seen, known
from anycard.cards.tools import ask_tool
from anycard.host.host import Host
from anycard.model.card import Card

VENDOR = "apple"


def find(host: Host) -> tuple[Card, ...]:
    if host.platform != "darwin":
        return ()
    said = ask_tool(host, VENDOR, ("system_profiler", "SPDisplaysDataType", "-json"))
    if said is None:
        return ()
    try:
        listed = json.loads(said.text)["SPDisplaysDataType"]
        names = [_name(one) for one in listed if _is_apples(one)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise said.not_understood() from None
    return tuple(card.card(host, VENDOR) for card in _cards(host, names))


def _is_apples(one: dict[str, object]) -> bool:
    return "apple" in str(one.get("spdisplays_vendor", "")).lower() or _name(one).startswith("Apple ")


def _name(one: dict[str, object]) -> str:
    return known(one.get("sppci_model")) or known(one.get("_name")) or ""


def _cards(host: Host, names: Sequence[str]) -> list[Seen]:
    memory = (host.ask("system") or {}).get("memory_total_bytes")
    version = re.search(r"ProductVersion:\s*(\S+)", host.run(("sw_vers",)).text)
    return [
        Seen(
            index=at,
            model=name or "Apple GPU",
            place=str(at),
            memory_bytes=memory if isinstance(memory, int) else None,
            driver=f"macOS {version[1]}" if version else None,
            runtime="Metal",
        )
        for at, name in enumerate(names)
    ]
