"""Figures in words: what was found, and what to change, with numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anycard.jobs.report.figures import CPU_BUSY_CORES, HOST_FULL, CardFigures, Cause, CpuFigures, Figures
from anycard.model.text import Param, Text
from anycard.units import format_bytes, format_duration

JUDGED_FROM_S = 10.0  # of what was seen; less is no ground for advice
NOTABLE = 0.1  # share of the time
NOTABLE_NEAR_CAP = 0.01
HALF_USED_BELOW = 0.5  # mean utilisation of a card that did not stand idle
SPARE_MEMORY_BELOW = 0.4  # of the card's memory, at most used
_LOADERS_MOST = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """``share`` 0..1 of the time, of the card that it is worst of; ``cards`` are all that it is true of, the worst first (none: of the
    CPU)."""

    kind: str
    text: Text
    advice: Text | None = None
    share: float | None = None
    cards: tuple[str, ...] = ()


# One rule: what it finds at a card, or None.
Rule = Callable[[CardFigures, str], Finding | None]


def findings(made: Figures, names: Mapping[str, str]) -> tuple[Finding, ...]:
    """``names`` are cards as people know them, by id. What several cards share is told once, of the worst. At least one comes of all that
    ran."""
    told: list[Finding] = []
    judged = [card for card in made.cards if card.seen_s >= JUDGED_FROM_S]
    by_memory = [card for card in made.cards if card.memory_seen_s >= JUDGED_FROM_S]
    for rule in _RULES:
        cards_judged = by_memory if rule in _OF_MEMORY else judged
        found = [
            (card, one)
            for card in cards_judged
            if (one := rule(card, names.get(card.card_id, card.card_id))) is not None
        ]
        for kind in dict.fromkeys(one.kind for _, one in found):
            same = sorted((pair for pair in found if pair[1].kind == kind), key=lambda pair: -(pair[1].share or 0.0))
            worst = same[0][1]
            cards = tuple(card.card_id for card, _ in same)
            told.append(Finding(kind, worst.text, worst.advice, worst.share, cards))
    told += _unjudged(made.cards, names)
    if not made.cards:
        told += _of_cpu(made.cpu)
    if judged and not told:
        told.append(_well_used(judged, names))
    return tuple(told)


def _unused(card: CardFigures, name: str) -> Finding | None:
    if card.idle_s < card.seen_s:
        return None
    return Finding(
        "unused",
        Text("{card} was not used at all in {length}", {"card": name, "length": format_duration(card.seen_s)}),
        Text(
            "see that the program finds its card ($ANYCARD_DEVICE; `anycard doctor` says why it may not), or ask for none"
        ),
        1.0,
    )


def _before(card: CardFigures, name: str) -> Finding | None:
    return _edge(
        card,
        card.before_s,
        "idle-before",
        Text("{card} was held for {length} ({share} % of the time) before the program first used it", {"card": name}),
        Text(
            "what needs no card (downloads, unpacking, building) belongs in `setup:` of the job file, which holds none"
        ),
    )


def _after(card: CardFigures, name: str) -> Finding | None:
    return _edge(
        card,
        card.after_s,
        "idle-after",
        Text("{card} was held for {length} ({share} % of the time) after the program last used it", {"card": name}),
        Text("what comes after the card's work can be a job without a card that waits for this one (`after:`)"),
    )


def _edge(card: CardFigures, length_s: float, kind: str, text: Text, advice: Text) -> Finding | None:
    share = length_s / card.seen_s
    if share < NOTABLE or card.idle_s >= card.seen_s:  # unused says that already
        return None
    return Finding(kind, Text(text.msgid, {**text.params, **_idle_for(length_s, share)}), advice, share)


def _idle_for(length_s: float, share: float) -> dict[str, Param]:
    return {"length": format_duration(length_s), "share": _percent(share)}


def _cpu_bound(card: CardFigures, name: str) -> Finding | None:
    share = _between(card, Cause.CPU)
    if share is None:
        return None
    cores = card.cores.get(Cause.CPU, 0.0)
    workers = max(2, min(_LOADERS_MOST, round(card.cpus)))
    more = max(2, round(card.cpus * 2))
    if (card.host_cpu or 0.0) >= HOST_FULL and cores < CPU_BUSY_CORES * min(1.0, card.cpus):
        advice = Text(
            "all CPUs of the host were busy, and the job got less than it could use: other programs take them, or jobs that use more "
            "than they asked for"
        )
    elif card.cpus < 1.5 or cores > 0.8 * card.cpus:
        advice = Text(
            "give it more CPUs (`--cpus {more}`) and as many loader workers, or prepare the data once and keep it",
            {"more": more},
        )
    elif cores <= 1.3:
        advice = Text(
            "one core feeds the card: let {workers} workers load and prepare (PyTorch: num_workers={workers}, pin_memory=True)",
            {"workers": workers},
        )
    else:
        advice = Text(
            "let more workers load and prepare ({workers} or more), or do that work on the card", {"workers": workers}
        )
    params: dict[str, Param] = {
        "card": name,
        **_idle_for(card.by_cause[Cause.CPU], share),
        "cores": f"{cores:.1f}",
        "cpus": f"{card.cpus:g}",
    }
    said = "{card} idled {length} ({share} % of the time) while the CPU worked ({cores} of {cpus} CPUs): it waited for the CPU"
    return Finding(Cause.CPU.value, Text(said, params), advice, share)


def _storage_bound(card: CardFigures, name: str) -> Finding | None:
    share = _between(card, Cause.STORAGE)
    if share is None:
        return None
    params: dict[str, Param] = {
        "card": name,
        **_idle_for(card.by_cause[Cause.STORAGE], share),
        "rate": format_bytes(round(card.read_bytes_per_s or 0.0)),
    }
    said = "{card} and the CPU idled {length} ({share} % of the time) while data came from storage at {rate} a second"
    return Finding(
        Cause.STORAGE.value,
        Text(said, params),
        Text(
            "copy the data to a local disk in `setup:`, read ahead in more workers, and keep small files together in large ones"
        ),
        share,
    )


def _waiting(card: CardFigures, name: str) -> Finding | None:
    share = _between(card, Cause.WAITING)
    if share is None:
        return None
    return Finding(
        Cause.WAITING.value,
        Text(
            "{card} and the CPU idled {length} ({share} % of the time), and little was read: the program waited for something else",
            {"card": name, **_idle_for(card.by_cause[Cause.WAITING], share)},
        ),
        Text(
            "a network, a lock or a person: `release: {{idle: 10m}}` in the job file gives back a card that does nothing"
        ),
        share,
    )


def _idle_unknown(card: CardFigures, name: str) -> Finding | None:
    share = _between(card, Cause.UNKNOWN)
    if share is None:
        return None
    return Finding(
        "idle",
        Text(
            "{card} idled {length} ({share} % of the time)",
            {"card": name, **_idle_for(card.by_cause[Cause.UNKNOWN], share)},
        ),
        Text("`anycard top` shows, while it runs, what the program does meanwhile"),
        share,
    )


def _between(card: CardFigures, cause: Cause) -> float | None:
    """The share of idle time for this cause between the card's first and last use; None when it is not notable."""
    share = card.by_cause.get(cause, 0.0) / card.seen_s
    return share if share >= NOTABLE else None


def _half_used(card: CardFigures, name: str) -> Finding | None:
    if card.utilisation is None or card.utilisation >= HALF_USED_BELOW or card.idle_s / card.seen_s >= NOTABLE:
        return None
    return Finding(
        "half-used",
        Text(
            "{card} was only {share} % busy, although it never stood idle for long",
            {"card": name, "share": _percent(card.utilisation)},
        ),
        Text("larger batches, compiled steps, and fewer values copied back in each step keep a card busy"),
        card.utilisation,
    )


def _near_cap(card: CardFigures, name: str) -> Finding | None:
    share = card.near_cap_share
    if share is None or share < NOTABLE_NEAR_CAP:
        return None
    return Finding(
        "near-cap",
        Text(
            "memory of {card} was at 95 % or more for {share} % of the time: at most {peak} of {total}",
            {"card": name, "share": _percent(share), **_memory(card)},
        ),
        Text(
            "a little more input ends out of memory, unless the program takes all memory on purpose: a smaller batch, or recomputed "
            "activations; `anycard fit` says what a model needs"
        ),
        share,
    )


def _spare_memory(card: CardFigures, name: str) -> Finding | None:
    if not card.memory_total_bytes or not card.memory_peak_bytes or 0 < card.seen_s <= card.idle_s:
        return None
    share = card.memory_peak_bytes / card.memory_total_bytes
    if share >= SPARE_MEMORY_BELOW:
        return None
    return Finding(
        "spare-memory",
        Text(
            "at most {peak} of {total} of {card}'s memory was used ({share} %)",
            {"card": name, "share": _percent(share), **_memory(card)},
        ),
        Text("a larger batch has room; else a smaller card would do (`anycard advise`)"),
        share,
    )


def _memory(card: CardFigures) -> dict[str, Param]:
    return {
        "peak": format_bytes(round(card.memory_peak_bytes or 0.0)),
        "total": format_bytes(round(card.memory_total_bytes or 0.0)),
    }


_HEAT = ("software-thermal", "hardware-thermal")
_POWER = ("power-cap", "current-limit")


def _throttled(card: CardFigures, name: str) -> Finding | None:
    share = card.throttled_share
    if share is None or share < NOTABLE or not card.throttle_reasons:
        return None
    main = max(card.throttle_reasons, key=lambda reason: card.throttle_reasons[reason])
    params: dict[str, Param] = {"card": name, "share": _percent(share), "reason": main}
    if main in _HEAT:
        params["temperature"] = "?" if card.temperature_peak_c is None else f"{card.temperature_peak_c:.0f}"
        return Finding(
            "throttled-heat",
            Text("{card} was slowed down by heat for {share} % of the time (up to {temperature} °C)", params),
            Text(
                "it needs air: fans, filters, room between cards; a lower power limit costs little speed (`nvidia-smi -pl`)"
            ),
            share,
        )
    if main in _POWER:
        return Finding(
            "throttled-power",
            Text("{card} ran at its power limit for {share} % of the time", params),
            Text("that is usual for a card at full work; a higher limit, where the maker allows it, makes it faster"),
            share,
        )
    return Finding(
        "throttled-hardware",
        Text("{card} was slowed down for {share} % of the time ({reason})", params),
        Text(
            "`anycard doctor` looks for what the driver says; power supply, its cables and the slot are the usual causes"
        ),
        share,
    )


_RULES: Sequence[Rule] = (
    _unused, _before, _cpu_bound, _storage_bound, _waiting, _idle_unknown, _after, _half_used, _near_cap, _throttled, _spare_memory,
)  # fmt: skip
_OF_MEMORY = (_near_cap, _spare_memory)  # they need no utilisation: some cards tell none, MIG instances among them


def _unjudged(cards: Iterable[CardFigures], names: Mapping[str, str]) -> Iterator[Finding]:
    """Cards of which too little was seen, told once each way."""
    silent = [card for card in cards if card.seen_s <= 0 < card.memory_seen_s]
    blind = [card for card in cards if card.seen_s <= 0 and card.memory_seen_s <= 0]
    short = [card for card in cards if 0 < card.seen_s < JUDGED_FROM_S]
    if silent:
        yield Finding(
            "utilisation-unknown",
            Text("how busy {card} was is not known", {"card": names.get(silent[0].card_id, silent[0].card_id)}),
            Text("its driver tells no utilisation; NVIDIA's tells none of a MIG instance"),
            cards=tuple(card.card_id for card in silent),
        )
    if blind:
        params: dict[str, Param] = {"card": names.get(blind[0].card_id, blind[0].card_id)}
        yield Finding(
            "no-readings",
            Text("of {card} nothing is known for this time", params),
            Text("readings are kept for a month, and only while the daemon runs"),
            cards=tuple(card.card_id for card in blind),
        )
    if short:
        params = {
            "card": names.get(short[0].card_id, short[0].card_id),
            "length": format_duration(short[0].seen_s),
        }
        yield Finding(
            "too-short",
            Text("{card} was seen for {length} only: too short to judge", params),
            cards=tuple(card.card_id for card in short),
        )


def _of_cpu(cpu: CpuFigures) -> Iterator[Finding]:
    """Of a job without a card."""
    if cpu.cores is None:
        yield Finding("no-readings", Text("the job held no card, and what its CPUs did is not known"))
        return
    share = min(1.0, cpu.cores / cpu.cpus) if cpu.cpus else 0.0
    params: dict[str, Param] = {"cores": f"{cpu.cores:.1f}", "cpus": f"{cpu.cpus:.3g}", "share": _percent(share)}
    if cpu.seen_s < JUDGED_FROM_S:
        yield Finding("too-short", Text("the job held no card and ran too short to judge its CPUs"))
    elif share < 0.5 and cpu.each >= 1.5:
        yield Finding(
            "cpus-spare",
            Text("{cores} of {cpus} CPUs were busy ({share} %)", params),
            Text(
                "asking for fewer (`--cpus {fewer}`) lets others start sooner",
                {"fewer": max(1, math.ceil(share * cpu.each))},
            ),
            share,
        )
    elif share > 0.9:
        yield Finding(
            "cpus-full",
            Text("{cores} of {cpus} CPUs were busy ({share} %)", params),
            Text("if the program can use more threads, more CPUs make it faster"),
            share,
        )
    else:
        yield Finding("cpus-used", Text("{cores} of {cpus} CPUs were busy ({share} %)", params), share=share)


def _well_used(cards: Sequence[CardFigures], names: Mapping[str, str]) -> Finding:
    least = min(cards, key=lambda card: card.utilisation or 0.0)
    share = least.utilisation or 0.0
    params: dict[str, Param] = {"card": names.get(least.card_id, least.card_id), "share": _percent(share)}
    return Finding(
        "well-used",
        Text("{card} was {share} % busy, and nothing held it up", params),
        share=share,
        cards=tuple(card.card_id for card in cards),
    )


def _percent(share: float) -> int:
    return round(100 * share)
