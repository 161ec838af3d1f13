"""What could ever fit: which cards a demand means, and whether this machine has enough of everything when nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anycard.model.card import CPU_VENDOR
from anycard.model.demand import Demand
from anycard.model.text import Text
from anycard.scheduling import reasons
from anycard.scheduling.plan import CardState, HostState

_UNKNOWN_MEMORY_SORTS_LAST = 2**63


def millicores(cpus: float) -> int:
    """``cpus`` in thousandths, so that sums are exact (0.1 * 3 is 0.3). Whoever asks for anything asks for one at least."""
    milli = round(cpus * 1000)
    return 1 if milli == 0 and cpus > 0 else milli


@dataclass(frozen=True, slots=True)
class Candidates:
    """The cards of one vendor that a demand could use, free or not, best fit first."""

    vendor: str
    cards: tuple[CardState, ...]


def matches(card: CardState, demand: Demand) -> bool:
    """A name must equal one of the card's names (no part of one); a card of unknown memory is not known to be large enough. The CPU is
    never one of the cards asked for. A divided card is had through its instances, and of these a program can use one: a demand of several
    cards gets whole ones."""
    if card.vendor == CPU_VENDOR or card.divided or (card.part_of is not None and demand.card_count > 1):
        return False
    return _is_called(card, demand) and _is_large_enough(card, demand)


def _is_called(card: CardState, demand: Demand) -> bool:
    return demand.card is None or demand.card.lower() in card.names


def _is_large_enough(card: CardState, demand: Demand) -> bool:
    if demand.card_memory_bytes is None:
        return True
    return card.memory_bytes is not None and card.memory_bytes >= demand.card_memory_bytes


def candidates(
    cards: Iterable[CardState], demand: Demand, avoid: frozenset[str] = frozenset()
) -> tuple[Candidates, ...]:
    """By vendor, as a program cannot use a mixture: each with ``demand.card_count`` usable cards or more. Smallest adequate memory
    first, then the machine's own order; the vendor whose first card is smallest comes first."""
    by_vendor: dict[str, list[CardState]] = {}
    for card in cards:
        if card.id not in avoid and matches(card, demand):
            by_vendor.setdefault(card.vendor, []).append(card)
    groups = [
        Candidates(vendor, tuple(sorted(found, key=_size)))
        for vendor, found in by_vendor.items()
        if len(found) >= demand.card_count
    ]
    return tuple(sorted(groups, key=lambda group: _size(group.cards[0])))


def impossible(options: Sequence[Demand], host: HostState) -> Text | None:
    """Why no option can ever run on this machine, however long it waits (of the first option, when all fail); None if one can."""
    first: Text | None = None
    for demand in options:
        why = _never(demand, host)
        if why is None:
            return None
        first = first or why
    return first


def _never(demand: Demand, host: HostState) -> Text | None:
    if demand.card_count and not candidates(host.cards, demand):
        return _never_cards(demand, host.cards)
    if millicores(demand.cpus) > millicores(host.cpus_total):
        return reasons.never_enough_cpus(millicores(demand.cpus), millicores(host.cpus_total))
    if (demand.memory_bytes or 0) > host.memory_total_bytes:
        return reasons.never_enough_memory(demand.memory_bytes or 0, host.memory_total_bytes)
    return None


def _never_cards(demand: Demand, cards: Sequence[CardState]) -> Text:
    accelerators = [card for card in cards if card.vendor != CPU_VENDOR]
    named = [card for card in accelerators if _is_called(card, demand)]
    if demand.card is None and not accelerators:
        return reasons.no_accelerator(demand.card_count)
    if demand.card is not None and not named:
        return reasons.unknown_card(demand.card, tuple(sorted({card.model for card in accelerators})))
    adequate = [card for card in named if matches(card, demand)]
    if len(adequate) >= demand.card_count:
        vendors = [card.vendor for card in adequate]
        return reasons.never_one_vendor(demand, max(vendors.count(vendor) for vendor in vendors))
    would_do = [card for card in named if card not in adequate and _is_large_enough(card, demand)]
    if any(card.part_of is not None for card in would_do):
        return reasons.never_several_instances(demand, len(adequate))
    if divided := {card.id for card in would_do if card.divided}:
        profiles = {card.profile or card.model for card in cards if card.part_of in divided}
        return reasons.never_divided(demand, len(adequate), tuple(sorted(profiles)))
    return reasons.never_enough_cards(demand, len(adequate))


def _size(card: CardState) -> int:
    return _UNKNOWN_MEMORY_SORTS_LAST if card.memory_bytes is None else card.memory_bytes
