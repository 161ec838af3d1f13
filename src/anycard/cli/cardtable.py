"""Cards as a table of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anycard.api.client import Json
from anycard.cards.mig import why_divided
from anycard.cli.output import safe, sentence
from anycard.cli.tables import table
from anycard.i18n import _, words
from anycard.units import format_bytes


def card_head() -> list[str]:
    return [_("CARD"), _("MODEL"), _("MEMORY"), _("HEALTH"), _("HELD BY"), _("WHY")]


def card_row(card: Json, cards: Sequence[Json]) -> list[str]:
    """One of ``cards``: what it is, how it is, who holds it, and why it is not free or not well. A MIG instance stands under its card."""
    health = str(card.get("health") or "")
    cores = card.get("cores")
    size = format_bytes(card.get("memory_bytes"))
    return [
        ("  " if card.get("part_of") else "") + safe(card["id"]),
        safe(card["model"]),
        _("{cores} cores, {size}", cores=f"{cores:g}", size=size) if cores else size,
        words.health(health),
        _holder(card),
        _why(card, cards),
    ]


def card_rows(cards: Sequence[Json]) -> list[list[str]]:
    return [card_row(card, cards) for card in cards]


def short_name(card: Json, cards: Sequence[Json]) -> str:
    """``nvidia0``; of a MIG instance ``nvidia0:1``."""
    return f"{safe(card['vendor'])}{number_of(card, cards)}"


def number_of(card: Json, cards: Sequence[Json]) -> str:
    """``0``; of a MIG instance ``0:1``."""
    if not card.get("part_of"):
        return str(card["index"])
    whole = next((other["index"] for other in cards if other["id"] == card["part_of"]), "?")
    return f"{whole}:{card['index']}"


def _holder(card: Json) -> str:
    if card.get("job") is not None:
        return words.place(card)
    processes: list[dict[str, Any]] = card.get("processes") or []
    return " ".join(f"{safe(process.get('command') or '?')}({process['pid']})" for process in processes)


def _why(card: Json, cards: Sequence[Json]) -> str:
    if card.get("health_reason_msgid"):
        return sentence(card["health_reason_msgid"], card.get("health_reason_params"))
    if card.get("job") is not None:  # HELD BY has said it
        return ""
    if card.get("not_free_because_msgid"):
        return sentence(card["not_free_because_msgid"], card.get("not_free_because_params"))
    if card.get("divided"):  # no daemon has said so
        why = why_divided(card["index"], [other["model"] for other in cards if other.get("part_of") == card["id"]])
        return sentence(why.msgid, why.params)
    return ""


def problem_lines(problem: Json) -> list[str]:
    """A vendor that could not be asked: what is wrong, and the mend where one is known."""
    lines = [f"{safe(problem['vendor'])}: {sentence(problem['reason_msgid'], problem.get('reason_params'))}"]
    if problem.get("mend_msgid"):
        lines.append("  " + sentence(problem["mend_msgid"], problem.get("mend_params")))
    return lines


def other_line(device: Json) -> str:
    """A device that looks like a card and is none."""
    place = f" ({safe(device['pci_address'])})" if device.get("pci_address") else ""
    return f"{safe(device['name'])}{place}: {sentence(device['what_msgid'], device.get('what_params'))}"


def topology_lines(cards: Sequence[Json], links: Sequence[Json]) -> list[str]:
    """The matrix that people know from ``nvidia-smi topo -m``, and what its letters mean."""
    held = [card for card in cards if card["accelerator"] and not card.get("part_of")]
    if len(held) < 2:
        return [_("There are no two accelerators here.")]
    between = {frozenset((link["a"], link["b"])): str(link["letters"]) for link in links}
    names = [short_name(card, cards) for card in held]
    rows = [
        [
            name,
            *("X" if other is card else between.get(frozenset((card["id"], other["id"])), "?") for other in held),
            "?" if card["numa_node"] is None else str(card["numa_node"]),
            safe(card["id"]),
        ]
        for name, card in zip(names, held, strict=True)
    ]
    used = {text.rstrip("0123456789") for text in between.values()}
    legend = [f"  {word:<6}{_(meaning)}" for word, meaning in words.WAYS.items() if word in used]
    return [*table(["", *names, "NUMA", _("CARD")], rows), "", *legend]
