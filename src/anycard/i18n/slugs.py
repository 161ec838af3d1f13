"""Slugs of estimates, options, quotes and facts about providers: as they are in JSON, in a person's words on a face."""

from __future__ import annotations

from anycard.i18n import N_, _
from anycard.i18n.sentences import safe

_SLUGS = frozenset((
    # parts of an estimate
    N_("weights"), N_("kv_cache"), N_("compute"), N_("runtime_context"), N_("rotary_tables"), N_("cache_growth"),
    N_("unpacked_weights"), N_("cuda_graphs"), N_("gradients"), N_("optimizer"), N_("activations"), N_("logits"),
    N_("optimizer_step"), N_("buffers"), N_("allocator_reserve"),
    # options
    N_("shorter-context"), N_("smaller-batch"), N_("smaller-cache"), N_("more-cards"), N_("offload"), N_("accumulate"),
    N_("checkpointing"), N_("shorter-sequence"), N_("optimizer-8bit"), N_("lora"), N_("qlora"),
    N_("tiled-decode"), N_("smaller-picture"), N_("offload-fp8"),
    # lines of a quote, what an offer does not say
    N_("setup"), N_("failed_tries"), N_("spot_restarts"), N_("forgotten"), N_("billing_step"), N_("storage_running"),
    N_("storage_stopped"), N_("data_in"), N_("data_out"), N_("billing_step_s"), N_("start_s"), N_("spot_availability"),
    N_("storage_running_per_gb_month"), N_("storage_stopped_per_gb_month"), N_("egress_per_gb"), N_("ingress_per_gb"), N_("h"),
    N_("GB month"),
    # facts about a provider
    N_("card"), N_("link"), N_("queue"), N_("persistence"), N_("storage_read"), N_("network"), N_("open"), N_("closed"),
    N_("persistent"), N_("volumes-only"), N_("stop"), N_("disk-billed"), N_("billed-in-full"), N_("no-stop"),
))  # fmt: skip
_QUANTISE = "quantise-"


def slug(name: str) -> str:
    """A slug of an estimate, option, quote or fact for a person; what is none of ours (a file's own word) is shown as it is."""
    if name.startswith(_QUANTISE):
        return _("quantise-{format}", format=safe(name.removeprefix(_QUANTISE)))
    return _(name) if name in _SLUGS else safe(name)
