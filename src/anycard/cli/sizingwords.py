"""What fit, offers, quote and advise share: cards of this machine by their specs, sizes and money for a person."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from anycard.cli.output import sentence
from anycard.errors import NotFoundError, UsageError
from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec, find_card
from anycard.sizing.files import card_by_name, card_specs
from anycard.units import MIB, format_bytes

# Shown where this machine has no accelerator and no card was named: what people own and rent most.
_USUAL = ("RTX 3060 12GB", "RTX 4090", "L40S", "A100 80GB", "H100 SXM")


def local_specs() -> list[tuple[CardSpec, int]]:
    """Accelerators of this machine as specs, with how many of each; memory as the driver says it. Cards that we do not know by name
    keep their memory and have no speed."""
    from anycard.cards.probe import probe
    from anycard.host.live import LiveHost

    counted: dict[CardSpec, int] = {}
    for card in probe(LiveHost()).cards:
        if card.is_accelerator:
            spec = _spec_of(card)
            counted[spec] = counted.get(spec, 0) + 1
    return list(counted.items())


def _spec_of(card: Any) -> CardSpec:
    known = find_card(card.model, card_specs())
    if known is None:
        return CardSpec(card.vendor, card.model, card.memory_bytes, source="the driver")
    if card.memory_bytes is None:
        return known
    # the table says what is sold, the driver a little less: `usable_bytes` takes its share of the first
    from dataclasses import replace

    sold = known.memory_bytes
    return (
        known if sold and abs(sold - card.memory_bytes) < sold * 0.1 else replace(known, memory_bytes=card.memory_bytes)
    )


def specs_for(names: Sequence[str], count: int) -> list[tuple[CardSpec, int]]:
    """The cards named, else this machine's, else a usual few."""
    if names:
        return [(card_by_name(name), count) for name in names]
    found = local_specs()
    if found:
        return [(spec, min(count, have) if count > 1 else 1) for spec, have in found]
    return [(card_by_name(name), count) for name in _USUAL]


def cpu_spec() -> CardSpec:
    """The CPU as a card: host memory, and the bandwidth of dual-channel DDR4 until it is measured."""
    import psutil

    from anycard.sizing.speed import CPU_BANDWIDTH

    memory = int(psutil.virtual_memory().total)
    return CardSpec("cpu", "CPU", memory, bandwidth_bytes_s=CPU_BANDWIDTH, unified=True, source="this machine")


def said(text: Text) -> str:
    """A pure module's sentence in the reader's language."""
    return sentence(text.msgid, text.params)


def size(count: int | None) -> str:
    return format_bytes(None if count is None else round(count / MIB) * MIB)


def decimal(text: str | None, option: str) -> Decimal | None:
    """A number as written for ``option``. UsageError when it is none, or negative."""
    if text is None:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise UsageError("{option}: {text} is not a number", option=option, text=text) from None
    if not value.is_finite() or value < 0:
        raise UsageError("{option}: {text} cannot be negative", option=option, text=text)
    return value


def nothing_known(name: str) -> NotFoundError:
    return NotFoundError("nothing is known about {name}", name=name)
