"""specs: what cards have and can do, by the shipped table. Nothing of this machine is looked at."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from anycard.cli import options
from anycard.cli.output import document, note, safe, say
from anycard.cli.tables import table
from anycard.i18n import N_, _
from anycard.units import GIB

MORE = N_(
    "QUERY are words of a card's name, its maker's or its architecture's: Ascend, H100 80GB, Hopper; or PCI numbers: 10de:2330."
)
_SCHEMA = "anycard.specs/1"


def specs(
    query: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY...]", help=_("Only cards with all these words"))
    ] = None,
    json: options.Json = False,
) -> int:
    from anycard.cards.pciids import named_by_numbers
    from anycard.cards.specs import find

    asked = " ".join(query or ())
    found = find(named_by_numbers(asked) or asked)
    if json:
        document({"schema": _SCHEMA, "query": asked, "cards": [_json(spec) for spec in found]})
        return 0 if found else 3
    if not found:
        note(_("no card in the table has all these words: {query}", query=safe(asked)))
        return 3
    head = [
        _("CARD"),
        _("MEMORY"),
        _("GB/S"),
        "FP64",
        "FP32",
        "FP16",
        _("FP16 MATRIX"),
        "BF16",
        "FP8",
        "INT8",
        _("WATTS"),
        _("LINK"),
    ]
    lines = table([*head, _("ARCHITECTURE")], [_row(spec) for spec in found], right=frozenset(range(2, 11)))
    for line in lines:
        say(line)
    say()
    say(_("TFLOPS (INT8: TOPS), dense; ? is not known. Where each figure is from: anycard specs --json"))
    for spec in found:
        if len(found) <= _FEW and spec.note:
            say(f"  {safe(spec.model)}: {safe(spec.note)}")
    return 0


_FEW = 20  # cards whose notes are shown


def _row(spec: Any) -> list[str]:
    sizes = "/".join(f"{size / GIB:g}" for size in spec.memory_sizes_bytes)
    return [
        safe(spec.model),
        f"{sizes} GiB" if sizes else "?",
        _number(spec.bandwidth_bytes_s, 1e9),
        _number(spec.fp64_flops),
        _number(spec.fp32_flops),
        _number(spec.fp16_vector_flops),
        _number(spec.fp16_matrix_flops),
        _number(spec.bf16_matrix_flops),
        _number(spec.fp8_matrix_flops),
        _number(spec.int8_matrix_ops),
        _number(spec.tdp_w, 1),
        ", ".join(link for link in (spec.fabric, spec.link) if link) or "?",
        spec.architecture or "?",
    ]


def _number(value: float | None, unit: float = 1e12) -> str:
    return "?" if value is None else f"{value / unit:.4g}"


def _json(spec: Any) -> dict[str, Any]:
    return {
        "vendor": spec.vendor,
        "model": spec.model,
        "memory_sizes_bytes": list(spec.memory_sizes_bytes),
        "unified_memory": spec.unified,
        "memory_type": spec.memory_type,
        "bandwidth_bytes_per_s": spec.bandwidth_bytes_s,
        "fp64_flops": spec.fp64_flops,
        "fp32_flops": spec.fp32_flops,
        "fp16_vector_flops": spec.fp16_vector_flops,
        "fp16_matrix_flops": spec.fp16_matrix_flops,
        "bf16_matrix_flops": spec.bf16_matrix_flops,
        "fp8_matrix_flops": spec.fp8_matrix_flops,
        "int8_matrix_ops": spec.int8_matrix_ops,
        "tdp_w": spec.tdp_w,
        "link": spec.link,
        "fabric": spec.fabric,
        "capability": spec.capability,
        "architecture": spec.architecture,
        "year": spec.year,
        "sources": {_json_name(figure): source for figure, source in spec.sources.items()},
        "note": spec.note,
    }


def _json_name(figure: str) -> str:
    """The key in the JSON document of a column in the table."""
    renamed = {
        "memory_gib": "memory_sizes_bytes",
        "bandwidth_gb_s": "bandwidth_bytes_per_s",
        "unified": "unified_memory",
    }
    return renamed.get(figure) or figure.replace("_tflops", "_flops").replace("_tops", "_ops")
