"""A job's readings as evidence: what was measured of the cards that one attempt held, as facts with a line a person can read. Pure.

A program can print anything; these lines nobody printed. So they are no text that rules search: a rule asks for such a fact by its name
(``rule.measured``). What was not seen, or not for long enough, is no fact: unknown is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from anycard.doctor.shapes import MEASURED, Fact, Line
from anycard.units import format_bytes, format_duration

SEEN_S = 10.0  # of what was seen; less is no ground for any finding
_THROTTLED_S = 5.0  # one look may be a misreading
_THROTTLED = 0.1  # share of the time from which on a slowed card is told
_IDLE = 0.3  # share of the time that a card waited between its uses: a tenth is nothing
_PAUSES = 3  # one long stage on the CPU is a stage; what feeds too slowly lets the card wait again and again
_UNUSED_S = 15.0  # of a run that is over
_UNUSED_RUNNING_S = 120.0  # what still runs may yet come to it
_USED = 0.3  # mean utilisation from which on nobody says that the program runs on the CPU
_WORKING_CORES = 0.3  # a program that does less than this waits for somebody
_CONTEXT_BYTES = 64 << 20  # no library opens a card for less
_BASE_BYTES = 2 << 30  # what a driver keeps for itself, at most; more is somebody's
_OF_OTHERS = 0.25  # of the card's memory
_FULL = 0.95
_BEYOND = 1.05  # of its memory no card holds; such a number is wrong, or that of the whole
_LAST_RANK = 1 << 30  # behind every source that a program printed
_MOST = 2.0**60  # bytes or seconds; no card counts beyond
_SHARES = ("utilisation", "busiest")
_HEAT = ("software-thermal", "hardware-thermal")


@dataclass(frozen=True, slots=True)
class MeasuredCard:
    """One card as long as an attempt held it. Seconds, bytes, degrees Celsius; ratios 0..1; None: never seen.

    ``seen_s`` is the time in which its utilisation is known, ``throttled_s`` how long it was slowed, by reason. ``idle_between_s`` lies
    between its first and its last use, by what the CPU did meanwhile (``cpu-bound``, ``storage-bound``, ...), in ``pauses`` pieces.
    ``hot_c`` is a temperature that at least two looks reached. ``own_bytes``: the most that the attempt's programs were seen to hold of
    it, 0 when they held none, ``own_is_whole`` when that was looked at to the end; ``grew_bytes``: its used memory's highest less its
    lowest. ``pcie_width`` and ``pcie_generation``: the best under load; ``_before``: the best in the month before. ``ecc_uncorrected``:
    errors that came while it was held.
    """

    card: str
    seen_s: float = 0.0
    utilisation: float | None = None
    busiest: float | None = None
    idle_between_s: Mapping[str, float] = field(default_factory=dict)
    pauses: int = 0
    idle_cores: Mapping[str, float] = field(default_factory=dict)
    throttle_seen_s: float = 0.0
    throttled_s: Mapping[str, float] = field(default_factory=dict)
    hot_c: float | None = None
    memory_bytes: float | None = None
    memory_last_bytes: float | None = None
    memory_total_bytes: float | None = None
    grew_bytes: float | None = None
    own_bytes: float | None = None
    own_is_whole: bool = False
    pcie_width: float | None = None
    pcie_width_before: float | None = None
    pcie_generation: float | None = None
    pcie_generation_before: float | None = None
    ecc_uncorrected: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An attempt's cards. ``runs``: it still does; ``failed``: it ended before it could do what it was made for; ``waits``: a session
    or a service, which waits for somebody. ``cpu_cores`` kept busy, the mean."""

    cards: Sequence[MeasuredCard]
    length_s: float
    runs: bool = False
    failed: bool = False
    waits: bool = False
    cpu_cores: float | None = None

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Measured:
        """Of ``dataclasses.asdict``."""
        return Measured(**{**told, "cards": tuple(MeasuredCard(**card) for card in told["cards"])})


def measured_facts(of: Measured) -> list[Fact]:
    """Each fact's value is a whole number, as ``rule.measured`` compares it; the lines are numbered in their order."""
    of = replace(of, cards=tuple(map(_possible, of.cards)), cpu_cores=_number(of.cpu_cores))
    facts: list[Fact] = []
    unused = bool(of.cards) and all(_is_unused(card, of) for card in of.cards)  # one of several is another story
    for card in of.cards:
        for name, value, text in _of_card(card, of, unused):
            line = Line(MEASURED, len(facts) + 1, f"card {card.card} {text}", rank=_LAST_RANK, measured=True)
            facts.append(Fact(name, str(round(value)), line))
    return facts


def _possible(card: MeasuredCard) -> MeasuredCard:
    """Without what cannot be (a driver's -1, infinity, no number at all): that is not known."""
    known: dict[str, Any] = {}
    for of in fields(card):
        value = getattr(card, of.name)
        if isinstance(value, Mapping):
            known[of.name] = {name: one for name, one in value.items() if _number(one) is not None}
        elif isinstance(value, float) and (_number(value) is None or (of.name in _SHARES and value > 1)):
            known[of.name] = of.default  # seconds that are none, or None
    return replace(card, **known)


def _number(value: float | None) -> float | None:
    return value if value is not None and 0 <= value < _MOST else None


_Told = Iterator[tuple[str, float, str]]


def _of_card(card: MeasuredCard, of: Measured, unused: bool) -> _Told:
    yield from _slowed(card)
    yield from _waited(card)
    yield from _used(card)
    if unused:
        cores = f", while {of.cpu_cores:.1f} CPUs were busy"
        length = format_duration(card.seen_s)
        yield "card_unused", 100, f"never used in {length}: utilisation 0 %, none of its memory taken{cores}"
    yield from _memory(card)
    yield from _link(card)
    if card.ecc_uncorrected:
        errors = round(card.ecc_uncorrected)
        yield (
            "ecc_uncorrected_grew",
            errors,
            f"counted {errors} more uncorrectable memory errors (ECC) than before the job",
        )


def _slowed(card: MeasuredCard) -> _Told:
    """By heat, by the brake of the chassis, by its power limit, or by hardware that says no more."""
    if card.throttle_seen_s < SEEN_S:
        return
    if card.hot_c is not None and card.card.startswith("nvidia:"):  # what is too hot for others differs by sensor
        yield "temperature", card.hot_c, f"reached {card.hot_c:.0f} °C"
    by = {reason: seconds for reason, seconds in card.throttled_s.items() if _is_notable(seconds, card.throttle_seen_s)}
    heat = {reason: seconds for reason, seconds in by.items() if reason in _HEAT}
    named = heat or "power-brake" in by  # hardware-slowdown accompanies both
    for reason, seconds in by.items():
        name = {
            **dict.fromkeys(_HEAT, "throttled_heat"),
            "power-brake": "throttled_brake",
            "power-cap": "throttled_power",
        }
        if reason in name:
            yield name[reason], 100 * seconds / card.throttle_seen_s, _throttled(card, reason, seconds)
        elif reason == "hardware-slowdown" and not named:
            yield "throttled_hardware", 100 * seconds / card.throttle_seen_s, _throttled(card, reason, seconds)


def _is_notable(seconds: float, seen_s: float) -> bool:
    return seconds >= max(_THROTTLED_S, _THROTTLED * seen_s)


def _throttled(card: MeasuredCard, reason: str, seconds: float) -> str:
    share = f"{100 * seconds / card.throttle_seen_s:.0f} % of {format_duration(card.throttle_seen_s)}"
    highest = "" if card.hot_c is None else f"; highest {card.hot_c:.0f} °C"
    return f"throttled by {reason} {share}{highest}"


def _waited(card: MeasuredCard) -> _Told:
    """Again and again, between its uses."""
    if card.seen_s < SEEN_S or card.pauses < _PAUSES:
        return
    for cause, name, doing in (
        ("cpu-bound", "idle_cpu_busy", "while the job's CPUs worked"),
        ("storage-bound", "idle_storage", "while the CPUs waited for storage"),
    ):
        seconds = card.idle_between_s.get(cause, 0.0)
        if seconds < _IDLE * card.seen_s:
            continue
        cores = card.idle_cores.get(cause)
        busy = f" ({cores:.1f} busy)" if cores is not None and cause == "cpu-bound" else ""
        share = 100 * seconds / card.seen_s
        yield name, share, f"idle {share:.0f} % of {format_duration(card.seen_s)} between its uses {doing}{busy}"


def _used(card: MeasuredCard) -> _Told:
    busy = card.utilisation or 0.0
    if (card.own_bytes or 0.0) > 0 and busy >= _USED and card.seen_s >= SEEN_S:
        yield "card_used", 100 * busy, f"{100 * busy:.0f} % busy, by the job's own programs"


def _is_unused(card: MeasuredCard, of: Measured) -> bool:
    """By a program that worked and had its chance. A list of programs that could not be read looks as if there were none: so the card's
    own memory must not have moved, either."""
    if of.failed or of.waits or of.cpu_cores is None or of.cpu_cores < _WORKING_CORES:
        return False
    if card.seen_s < (_UNUSED_RUNNING_S if of.runs else _UNUSED_S) or card.seen_s < 0.8 * of.length_s:
        return False
    if card.busiest is None or card.memory_bytes is None or card.grew_bytes is None or (card.own_bytes or 0.0) > 0:
        return False
    return card.busiest < 0.005 and card.grew_bytes < _CONTEXT_BYTES and card.memory_bytes < _BASE_BYTES


def _memory(card: MeasuredCard) -> _Told:
    total, most = card.memory_total_bytes, card.memory_bytes
    if total is None or most is None or not 1 <= total >= most / _BEYOND:
        return
    own = card.own_bytes
    held = "" if own is None else f", {format_bytes(round(own))} of it by the job's own programs"
    text = f"memory at most {format_bytes(round(most))} of {format_bytes(round(total))}{held}"
    if most >= _FULL * total:
        yield "memory_full", 100 * most / total, text
    if (card.memory_last_bytes or 0.0) >= _FULL * total:
        yield "memory_full_at_end", 100 * (card.memory_last_bytes or 0.0) / total, f"{text}; full when it ended"
    if own is not None and card.own_is_whole and most - own >= _OF_OTHERS * total:
        others = most - own
        yield "memory_of_others", 100 * others / total, f"{text}; {format_bytes(round(others))} by others"


def _link(card: MeasuredCard) -> _Told:
    if card.pcie_width and card.pcie_width_before and card.pcie_width < card.pcie_width_before:
        now, before = round(card.pcie_width), round(card.pcie_width_before)
        yield "link_narrower", now, f"PCIe link x{now} under load; it was x{before} before this job"
    if card.pcie_generation and card.pcie_generation_before and card.pcie_generation < card.pcie_generation_before:
        now, before = round(card.pcie_generation), round(card.pcie_generation_before)
        yield "link_slower", now, f"PCIe link generation {now} under load; it was {before} before this job"
