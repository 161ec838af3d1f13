"""Huawei Ascend, by ``npu-smi``. Five layouts are known; cells are found by the header's words. A chip (die) is a card: two of them, with
one address each, stand on a 910C board, four on an Atlas 300I."""

from __future__ import annotations

import re
from dataclasses import replace

from anycard.cards import pci
from anycard.cards.problem import VendorFault
from anycard.cards.seen import Seen, known, number, size, whole
from anycard.cards.tools import Said, ask_tool
from anycard.host.host import Host
from anycard.i18n import N_
from anycard.model.card import Card, Health, Reading
from anycard.model.text import Text
from anycard.units import MIB

VENDOR = "ascend"
PCI_VENDOR = "19e5"
_SHARED_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_NODES = ("/dev/davinci_manager", "/dev/davinci0")  # a SoC (Atlas 200I) has no bus


def find(host: Host) -> tuple[Card, ...]:
    return tuple(seen.card(host, VENDOR) for seen in _seen(host))


def read(host: Host) -> tuple[Reading, ...]:
    return tuple(seen.reading(VENDOR) for seen in _seen(host))


def _seen(host: Host) -> tuple[Seen, ...]:
    if not pci.may_have(host, PCI_VENDOR, _NODES):
        return ()
    said = ask_tool(host, VENDOR, ("npu-smi", "info"))
    if said is None:
        return ()
    text = said.table
    chips = _chips(text)
    if not chips:
        if "npu-smi" in text and said.exit_code == 0:
            return ()  # its own table, and nothing in it
        raise said.not_understood()
    names = _mapped(host)
    programs = _programs(text)
    version = re.search(r"Version:\s*(\d[\w.]*)", text)
    return tuple(
        _finished(
            seen,
            place,
            at,
            names.get(place),
            None if programs is None else programs.get(place, ()),
            version[1] if version else None,
        )
        for at, (place, seen) in enumerate(chips.items())
    )


_Place = tuple[int, int]  # NPU id, chip id


def _finished(
    seen: Seen,
    place: _Place,
    at: int,
    mapped: tuple[int | None, str] | None,
    programs: tuple[tuple[int, int | None], ...] | None,
    version: str | None,
) -> Seen:
    """``npu-smi info -m`` knows the logical id, by which programs ask for a chip, and the full name; the table has the physical id, by
    which its device node is called, or none at all."""
    logical, name = mapped or (None, "")
    physical = seen.index if seen.index >= 0 else None
    index = next(number for number in (logical, physical, at) if number is not None)
    model = name or seen.model
    return replace(
        seen,
        index=index,
        model=f"Ascend {model}" if model[:1].isdigit() else model or "Ascend NPU",
        place=f"npu{place[0]}-chip{place[1]}",
        driver=version,
        device_nodes=(f"/dev/davinci{index if physical is None else physical}", *_SHARED_NODES),
        processes=programs,
    )


def _chips(text: str) -> dict[_Place, Seen]:
    """Each chip by its place. A chip has two lines: the card's (NPU, Name | Health | Power ...) and its own (Chip ... | Bus-Id | ...)."""
    chips: dict[_Place, Seen] = {}
    heads: list[list[str]] = []
    above: list[list[str]] = []  # the card's line, waiting for its chip's
    for cells in _table_lines(text):
        if _is_head(cells):
            if cells[0][0] == "NPU":
                heads, above = [], []
                if "Process" in cells[1]:
                    return chips
            heads.append([word for cell in cells for word in cell])
            continue
        if len(heads) != 2:
            continue
        if not above:
            above = cells
            continue
        chip = _chip(_paired(heads[0], above), _paired(heads[1], cells))
        above = []
        if chip is not None:
            chips[chip[0]] = chip[1]
    return chips


def _table_lines(text: str) -> list[list[list[str]]]:
    """Cells of each line, each cell cut into its words; ``0    / 970`` is one word."""
    lines = []
    for line in text.splitlines():
        if line.strip().startswith("|"):
            cells = [re.sub(r"\s*/\s*", "/", cell.strip()).split() for cell in line.strip().strip("|").split("|")]
            if len(cells) >= 3 and cells[0]:
                lines.append(cells)
    return lines


def _is_head(cells: list[list[str]]) -> bool:
    return cells[0][0] in ("NPU", "Chip")


def _paired(head: list[str], cells: list[list[str]]) -> dict[str, str]:
    """Header word -> value, counted from both ends of the line: a name may have a blank in it ("Ascend 910A")."""
    words = [word for cell in cells for word in cell]
    if head[0] == "NPU" and len(cells[0]) > 2:
        words = [cells[0][0], " ".join(cells[0][1:]), *(word for cell in cells[1:] for word in cell)]
    return dict(zip(head, words, strict=False))


def _chip(card: dict[str, str], own: dict[str, str]) -> tuple[_Place, Seen] | None:
    npu, chip = whole(card.get("NPU", "")), whole(own.get("Chip", ""))
    if npu is None or chip is None:
        return None
    logical = whole(own.get("Phy-ID") or own.get("Device") or "")
    hbm, ddr = _usage(own.get("HBM-Usage(MB)")), _usage(own.get("Memory-Usage(MB)"))
    used, total = hbm if hbm[1] else ddr
    health, reason = _health(card.get("Health", ""))
    percent = number(own.get("AICore(%)"))
    return (npu, chip), Seen(
        index=-1 if logical is None else logical,
        model=known(card.get("Name")) or "",
        pci_address=pci.normal_address(own.get("Bus-Id")),
        memory_bytes=total,
        memory_used_bytes=used,
        temperature_c=number(card.get("Temp(C)")),
        power_w=number(card.get("Power(W)")),
        utilisation=None if percent is None else percent / 100,
        health=health,
        health_reason=reason,
    )


def _usage(text: str | None) -> tuple[int | None, int | None]:
    """(used, total) bytes of ``2703/8192``."""
    used, _, total = (text or "").partition("/")
    value = number(used)
    return None if value is None else round(value * MIB), size(total, MIB)


def _health(word: str) -> tuple[Health, Text | None]:
    if word in ("OK", ""):
        return Health.OK, None
    if word == "Warning":  # it works; npu-smi's other words (Alarm, Critical, UNKNOWN) are for cards that do not
        return Health.OK, Text(_NOT_OK, {"word": word})
    return Health.UNKNOWN, Text(_NOT_OK, {"word": word})


_NOT_OK = N_("npu-smi calls this card {word}. To see why: npu-smi info -t health -i NPU; then look at dmesg.")


def _mapped(host: Host) -> dict[_Place, tuple[int | None, str]]:
    """Nothing where the tool hangs on this question: the cards are known already."""
    try:
        return _names(ask_tool(host, VENDOR, ("npu-smi", "info", "-m")))
    except VendorFault:
        return {}


def _names(said: Said | None) -> dict[_Place, tuple[int | None, str]]:
    """``npu-smi info -m``: place -> (logical id, name). Lines for the Mcu have no logical id and are passed over."""
    found: dict[_Place, tuple[int | None, str]] = {}
    for line in (said.table if said else "").splitlines():
        words = re.split(r"\s{2,}|\t", line.strip())
        if len(words) < 4:
            continue
        npu, chip, logical = map(whole, words[:3])
        if npu is not None and chip is not None and logical is not None:
            found[npu, chip] = (logical, known(words[-1]) or "")
    return found


def _programs(text: str) -> dict[_Place, tuple[tuple[int, int | None], ...]] | None:
    """None where the table of programs is missing (older layouts) or cut off."""
    if "Process id" not in text:
        return None
    found: dict[_Place, tuple[tuple[int, int | None], ...]] = {}
    for line in text.splitlines():
        match = re.match(
            r"\|\s*([0-9]{1,9})\s+([0-9]{1,9})\s*\|\s*([0-9]{1,9})\s*\|[^|]*\|\s*([0-9]{1,9})\s*\|", line.strip()
        )
        if match:
            place = int(match[1]), int(match[2])
            found[place] = (*found.get(place, ()), (int(match[3]), int(match[4]) * MIB))
    return found
