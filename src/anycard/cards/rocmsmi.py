"""``rocm-smi --json``, also of Hygon's fork ``hy-smi``: one object a card, with keys that differ by version, maker and card.

Versions of ROCm differ in words ("GPU use (%)", "DCU use (%)"), units (B, MiB) and in what is absent: a missing key, "N/A", "" or 0.0
for a limit. Keys are therefore matched by what they must contain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from anycard.cards import pci
from anycard.cards.pciids import shipped_name
from anycard.cards.seen import Seen, known, number, size
from anycard.units import MIB

ARGUMENTS = (
    "--json", "--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--showbus", "--showuniqueid", "--showuse",
    "--showtemp", "--showpower",
)  # fmt: skip
_HYGON = re.compile(r"(?i)haiguang|hygon|\bDCU\b")


def cards(text: str, *, hygon: bool) -> tuple[Seen, ...] | None:
    """Hygon's cards, or all others; None when ``text`` is no such document. A warning before the document is passed over."""
    document = parse(text)
    if not isinstance(document, dict):
        return None
    driver = known(
        (document.get("system") or {}).get("Driver version") if isinstance(document.get("system"), dict) else None
    )
    return tuple(
        _seen(int(name[4:]), values, driver, "1d94" if hygon else "1002")
        for name, values in document.items()
        if re.fullmatch(r"card[0-9]{1,4}", name)
        and isinstance(values, dict)
        and bool(_HYGON.search(str(values))) is hygon
    )


def parse(text: str) -> Any:
    """The JSON document that ``text`` ends with, warnings before it passed over; None when there is none."""
    for start in _starts(text):
        try:
            return json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
    return None


def _starts(text: str) -> Iterator[int]:
    """Places at which a document may begin: the first brackets that open a line."""
    for count, match in enumerate(re.finditer(r"^[ \t]*[\[{]", text, re.MULTILINE)):
        if count > 8:
            return
        yield match.end() - 1


def _seen(index: int, values: dict[str, Any], driver: str | None, vendor: str) -> Seen:
    unique = known(_find(values, "unique id"))
    address = known(_find(values, "pci bus"))
    percent = number(_find(values, "use (%)", but="memory"))
    return Seen(
        index=index,
        model=_model(values, vendor),
        uuid=f"GPU-{int(unique, 16):016x}" if unique and re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", unique) else None,
        pci_address=pci.normal_address(address),
        memory_bytes=_bytes(values, "vram total memory"),
        memory_used_bytes=_bytes(values, "vram total used memory", zero=True),
        temperature_c=number(_find(values, "sensor junction") or _find(values, "sensor edge")),
        power_w=number(_find(values, "graphics package power (w)", but="max")),
        power_limit_w=number(_find(values, "max graphics package power")) or None,
        utilisation=None if percent is None else percent / 100,
        architecture=_gfx(known(_find(values, "gfx version"))),
        driver=driver,
    )


def _find(values: dict[str, Any], words: str, *, but: str = "\0") -> Any:
    return next((value for key, value in values.items() if words in key.lower() and but not in key.lower()), None)


def _bytes(values: dict[str, Any], words: str, *, zero: bool = False) -> int | None:
    for key, value in values.items():
        if words in key.lower():
            unit = MIB if "(mib)" in key.lower() else 1
            if zero:
                found = number(value, unit)
                return None if found is None else round(found)
            return size(value, unit)
    return None


def _model(values: dict[str, Any], vendor: str) -> str:
    """``Card Series`` is the market name where the tool knows it; else the PCI number knows it better than ``Device Name``, which is often
    the chip's ("Phoenix3"). "Navi 32 [Radeon RX 7800 XT]" is sold as what stands in brackets. Numbers are no names."""
    number = str(_find(values, "device id") or _find(values, "gpu id") or "").lower().removeprefix("0x")
    for name in (
        _market(_find(values, "card series")),
        shipped_name(vendor, number),
        _market(_find(values, "device name")),
        _market(_find(values, "card model")),
    ):
        if name:
            return name
    return ""


def _market(value: object) -> str | None:
    name = known(value)
    if name is None or name.startswith("0x") or re.search(r"\bx{3,}\b", name):
        return None
    sold = re.search(r"\[(.+)\]", name)
    return sold[1] if sold else name


def _gfx(name: str | None) -> str | None:
    """``gfx1101`` for ``gfx11001``, as rocm-smi 6.2 writes it."""
    match = re.fullmatch(r"gfx(1\d)(\d)0(\d)", name or "")
    return f"gfx{match[1]}{match[2]}{match[3]}" if match else name
