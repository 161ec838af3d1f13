"""What fit, offers, quote and advise share: cards of this machine by their specs, sizes and money for a person."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from anycard.cli.output import safe, sentence
from anycard.errors import UsageError
from anycard.i18n import N_, _, language
from anycard.model.text import Text
from anycard.sizing.cardspec import CardSpec
from anycard.sizing.files import card_by_name
from anycard.units import MIB, format_bytes

# Shown where this machine has no accelerator and no card was named: what people own and rent most.
_USUAL = ("RTX 3060 12GB", "RTX 4090", "L40S", "A100 80GB", "H100 SXM")

# Slugs that stay as they are in JSON and in English; N_ puts them into the catalogues.
_SLUGS = frozenset((
    # parts of an estimate
    N_("weights"), N_("kv_cache"), N_("compute"), N_("runtime_context"), N_("rotary_tables"), N_("cache_growth"),
    N_("unpacked_weights"), N_("cuda_graphs"), N_("gradients"), N_("optimizer"), N_("activations"), N_("logits"),
    N_("optimizer_step"), N_("buffers"), N_("allocator_reserve"),
    # options
    N_("shorter-context"), N_("smaller-batch"), N_("smaller-cache"), N_("more-cards"), N_("offload"), N_("accumulate"),
    N_("checkpointing"), N_("shorter-sequence"), N_("optimizer-8bit"), N_("lora"), N_("qlora"),
    # lines of a quote, what an offer does not say
    N_("setup"), N_("failed_tries"), N_("spot_restarts"), N_("forgotten"), N_("billing_step"), N_("storage_running"),
    N_("storage_stopped"), N_("data_out"), N_("billing_step_s"), N_("start_s"), N_("spot_availability"),
    N_("storage_running_per_gb_month"), N_("storage_stopped_per_gb_month"), N_("egress_per_gb"), N_("h"), N_("GB month"),
    # facts about a provider
    N_("card"), N_("link"), N_("queue"), N_("persistence"), N_("storage_read"), N_("network"), N_("open"), N_("closed"),
    N_("persistent"),
))  # fmt: skip
_QUANTISE = "quantise-"


def local_specs() -> list[tuple[CardSpec, int]]:
    """Accelerators of this machine that work, as specs, with how many of each; memory as the driver says it. Cards that we do not know by
    name keep their memory and have no speed."""
    from anycard.cards.probe import probe
    from anycard.host.live import LiveHost
    from anycard.jobs.places import spec_of
    from anycard.model.card import Health

    counted: dict[CardSpec, int] = {}
    for card in probe(LiveHost()).cards:
        if card.is_accelerator and card.health is Health.OK:
            spec = spec_of(card)
            counted[spec] = counted.get(spec, 0) + 1
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


def slug(name: str) -> str:
    """A slug of an estimate, option, quote or fact for a person; what is none of ours (a file's own word) is shown as it is."""
    if name.startswith(_QUANTISE):
        return _("quantise-{format}", format=safe(name.removeprefix(_QUANTISE)))
    return _(name) if name in _SLUGS else safe(name)


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
