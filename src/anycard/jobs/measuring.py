"""What was seen of the cards that one attempt held, as the doctor takes it: sums over the moments that its report is made of, and lines for
what happened to them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from anycard.doctor.measured import Measured, MeasuredCard
from anycard.jobs.report.figures import IDLE_BELOW, CardFigures, figures
from anycard.jobs.report.moments import Hold, Moment, Seen, moments
from anycard.model.instant import rfc3339
from anycard.model.series import Series
from anycard.store.readings import MarkRow, UseRow

_FINE_S = 10.0  # a row that stands for so little tells how long a reason lasted
_AFTER_S = 3.0  # what ended an attempt is seen a moment later
_END_S = 5.0  # the last moments, in which memory may have run out
# Xids that the error of some program causes: of one that ended well it was another's, and one that is killed leaves 45.
_BY_PROGRAMS = frozenset({13, 31, 32, 43, 44, 45, 69})
_TOLD = frozenset({"xid", "ecc", "health", "kernel"})  # the others are about the looking


def measured(
    seen: Seen,
    uses: Iterable[UseRow],
    before: Mapping[str, Sequence[Series]],
    *,
    runs: bool,
    failed: bool,
    waits: bool,
) -> Measured:
    """``seen`` are the holds of one attempt, ``uses`` its rows, ``before`` each card's series of the time before it. See ``Measured``."""
    made = figures(seen)
    laid = {hold.card_id: told for hold, told in moments(seen).items()}
    holds = {hold.card_id: hold for hold in seen.holds}
    rows = list(uses)
    cards = tuple(
        _card(one, holds[one.card_id], laid[one.card_id], seen, rows, before.get(one.card_id, ()), runs)
        for one in made.cards
    )
    length_s = max((hold.length_s for hold in seen.holds), default=0.0)
    return Measured(cards, length_s, runs, failed, waits, made.cpu.cores)


def _card(
    made: CardFigures,
    hold: Hold,
    laid: Sequence[Moment],
    seen: Seen,
    uses: Sequence[UseRow],
    before: Sequence[Series],
    runs: bool,
) -> MeasuredCard:
    used = [moment.memory_bytes for moment in laid if moment.memory_bytes is not None]
    last = [
        moment.memory_bytes
        for moment in laid
        if moment.memory_bytes is not None and moment.until > hold.until - max(_END_S, seen.step_s)
    ]
    temperatures = sorted((moment.temperature_c for moment in laid if moment.temperature_c is not None), reverse=True)
    series = seen.series.get(made.card_id)
    inside = _inside(series, hold, seen.step_s) if series is not None else None
    busiest = max((moment.utilisation for moment in laid if moment.utilisation is not None), default=None)
    own, whole = _own(hold, uses, seen.work_step_s, runs)
    return MeasuredCard(
        card=made.card_id,
        seen_s=made.seen_s,
        utilisation=made.utilisation,
        busiest=busiest,
        idle_between_s={cause.value: seconds for cause, seconds in made.by_cause.items()},
        pauses=_pauses(laid),
        idle_cores={cause.value: cores for cause, cores in made.cores.items()},
        throttle_seen_s=made.throttle_seen_s,
        throttled_s=_throttled(laid, seen.step_s),
        hot_c=temperatures[1] if len(temperatures) > 1 else None,
        memory_bytes=made.memory_peak_bytes,
        memory_last_bytes=max(last, default=None),
        memory_total_bytes=made.memory_total_bytes,
        grew_bytes=max(used) - min(used) if used else None,
        own_bytes=own,
        own_is_whole=whole,
        pcie_width=_best([inside] if inside else (), "pcie_width", busy=True),
        pcie_width_before=_best(before, "pcie_width"),
        pcie_generation=_best([inside] if inside else (), "pcie_generation", busy=True),
        pcie_generation_before=_best(before, "pcie_generation"),
        ecc_uncorrected=_growth(inside) if inside else None,
    )


def _pauses(laid: Sequence[Moment]) -> int:
    """How often the card stood idle between its first and its last use."""
    seen = [moment.utilisation >= IDLE_BELOW for moment in laid if moment.utilisation is not None]
    if True not in seen:
        return 0
    inner = seen[seen.index(True) : len(seen) - seen[::-1].index(True)]
    return sum(1 for one, following in pairwise(inner) if one and not following)


def _throttled(laid: Sequence[Moment], step_s: float) -> dict[str, float]:
    """Seconds by reason. A row of a minute or more names every reason that there was for a moment of it: there only one that stands alone
    tells how long it lasted."""
    slowed: defaultdict[str, float] = defaultdict(float)
    for moment in laid:
        reasons = moment.reasons or ()
        alone = len([one for one in reasons if one != "hardware-slowdown"]) <= 1  # that one accompanies others
        for reason in reasons if step_s <= _FINE_S or alone else ():
            slowed[reason] += (moment.throttled or 0.0) * moment.length_s
    return dict(slowed)


def _own(hold: Hold, uses: Sequence[UseRow], step_s: float, runs: bool) -> tuple[float | None, bool]:
    """The most that the attempt's own programs were seen to hold of the card, and whether they were seen to the end: a row is kept only
    after the ``step_s`` that it stands for."""
    mine = [use for use in uses if use.attempt == hold.attempt and use.card_id == hold.card_id]
    if not mine:
        return None, False
    whole = not runs and max(use.at for use in mine) + step_s >= hold.until
    return max(use.memory_peak_bytes or 0.0 for use in mine), whole


def _inside(series: Series, hold: Hold, step_s: float) -> Series:
    """The rows that tell of the hold alone."""
    kept = [
        (at, row)
        for at, row in zip(series.times, series.rows, strict=True)
        if hold.since <= at and at + step_s <= hold.until
    ]
    return Series(series.card_id, tuple(at for at, _ in kept), tuple(row for _, row in kept))


def _best(all_series: Iterable[Series], column: str, *, busy: bool = False) -> float | None:
    """The highest; ``busy``: while the card worked, for a link rests at less."""
    return max(
        (
            value
            for series in all_series
            for value, utilisation in zip(series.column(column), series.column("utilisation"), strict=True)
            if value is not None and (not busy or (utilisation or 0.0) >= IDLE_BELOW)
        ),
        default=None,
    )


def _growth(inside: Series) -> float | None:
    """How many errors were counted meanwhile."""
    counts = [count for count in inside.column("ecc_uncorrected") if count is not None]
    return max(counts) - counts[0] if counts else None


def mark_lines(marks: Iterable[MarkRow], holds: Sequence[Hold], *, failed: bool) -> str:
    """What drivers and the kernel said of the cards while they were held, a line each, in their words. ``failed``: by itself; else what
    programs' own errors leave is not this one's."""
    told = [
        f"{rfc3339(mark.at)} card {mark.card_id} {_words(mark)}"
        for mark in marks
        if mark.kind in _TOLD
        and (failed or mark.text.params.get("number") not in _BY_PROGRAMS)
        and any(hold.card_id == mark.card_id and hold.since <= mark.at <= hold.until + _AFTER_S for hold in holds)
    ]
    return "".join(f"{line}\n" for line in told)


def _words(mark: MarkRow) -> str:
    """Of the words about a card's health the first sentence: what follows is advice, and no evidence."""
    line = mark.text.params.get("line")
    if line is not None:
        number = mark.text.params.get("number")
        return f"Xid {number}: {line}" if number is not None else str(line)
    return str(mark.text).split(". ")[0]
