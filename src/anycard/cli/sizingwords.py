"""What fit, offers, quote and advise share: cards of this machine by their specs, sizes and money for a person."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from anycard.cli.output import sentence
from anycard.errors import UsageError
from anycard.i18n import language
from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec
from anycard.sizing.files import card_by_name
from anycard.units import MIB, format_bytes

# Shown where this machine has no accelerator and no card was named: what people own and rent most.
_USUAL = ("RTX 3060 12GB", "RTX 4090", "L40S", "A100 80GB", "H100 SXM")


def local_specs() -> list[tuple[CardSpec, int]]:
    """Accelerators of this machine that work and that a program can be given, as specs, with how many of each; memory as the driver says
    it. Cards that we do not know by name keep their memory and have no speed."""
    from anycard.cards.probe import probe
    from anycard.host.live import LiveHost
    from anycard.jobs.places import spec_of
    from anycard.model.card import Health

    counted: dict[CardSpec, int] = {}
    for card in probe(LiveHost()).cards:
        if card.is_grantable and card.health is Health.OK:
            spec = spec_of(card)
            counted[spec] = 1 if card.part_of else counted.get(spec, 0) + 1  # no job gets two MIG instances
    return list(counted.items())


def specs_for(names: Sequence[str], count: int) -> list[tuple[CardSpec, int]]:
    """The cards named, else this machine's, else a usual few."""
    if names:
        return [(card_by_name(name), count) for name in names]
    found = local_specs()
    if found:
        return [(spec, min(count, have) if count > 1 else 1) for spec, have in found]
    return [(card_by_name(name), count) for name in _USUAL]


def local_cpu() -> CardSpec:
    """This machine's CPU as a card."""
    import psutil

    from anycard.jobs.places import cpu_spec

    return cpu_spec(int(psutil.virtual_memory().total))


def offers_folder() -> Path:
    """Where `anycard offers --refresh` keeps what it fetched."""
    from anycard.cli.session import session
    from anycard.config import paths

    return paths(session.home).offers


def said(text: Text) -> str:
    """A pure module's sentence in the reader's language."""
    return sentence(text.msgid, text.params)


def parameters(count: int) -> str:
    """A model's number of weights. Chinese counts in hundreds of millions."""
    return f"{count / 1e8:.4g} 亿" if language() == "zh" else f"{count / 1e9:.2f} billion"


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
