"""The machine as the planner sees it: what its cards are, and why a card cannot be had now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anycard.cards.mig import split_model, why_divided
from anycard.cards.names import names
from anycard.jobs.board import Board
from anycard.model.card import Card, Health
from anycard.model.text import Param, Text
from anycard.scheduling.plan import CardState, HostState

_DESKTOP_SHARE = 0.25  # of a card's memory: what only draws and holds less leaves the card to jobs


def host_state(board: Board, cards: Collection[Card], *, ours: Collection[int], locked: Mapping[str, str]) -> HostState:
    """``ours``: pids of programs that belong to attempts. ``locked``: card id -> who else on this machine holds it, in words."""
    cpus, memory, granted = board.granted()
    cpu = next((card for card in cards if not card.is_accelerator), None)  # None: nobody has looked yet
    total_cpus = (cpu.cores or 1.0) if cpu else 0.0
    total_memory = (cpu.memory_bytes or 0) if cpu else 0
    states = []
    for card in cards:
        if card.is_accelerator:
            why = _why_not(card, granted.get(card.id), ours, locked.get(card.id))
            if why is None and card.divided:
                here = [other for other in cards if other.part_of == card.id and other.health is not Health.LOST]
                why = why_divided(card.index, [other.model for other in here])
            states.append(_state(card, why))
    return HostState(total_cpus, total_cpus - cpus, total_memory, total_memory - memory, tuple(states))


def _state(card: Card, why: Text | None) -> CardState:
    return CardState(
        card.id,
        card.vendor,
        card.model,
        names(card),
        card.memory_bytes,
        free=why is None,
        why=why,
        divided=card.divided,
        part_of=card.part_of,
        profile=split_model(card.model)[1] if card.part_of else None,
    )


def _why_not(card: Card, attempt: int | None, ours: Collection[int], locked: str | None) -> Text | None:
    if attempt is not None:
        return Text("is granted to attempt {attempt}", {"attempt": attempt})
    if card.health is not Health.OK:
        return Text("is {health}", {"health": card.health.value})
    if locked is not None:
        return Text("is held by {holder}", {"holder": locked})
    drawn = sum(process.memory_bytes or 0 for process in card.processes or () if process.draws)
    is_desktop = drawn < _DESKTOP_SHARE * (card.memory_bytes or 0)
    for process in card.processes or ():
        if process.pid not in ours and not (process.draws and is_desktop):
            who: dict[str, Param] = {"pid": process.pid, "user": process.user or "?", "command": process.command or "?"}
            return Text("is used by {command} (pid {pid}, {user}), which anycard did not start", who)
    return None
