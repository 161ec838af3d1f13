"""Charts that are drawn by the server: places and sizes for a template, no script. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 1000.0  # of every drawing, in its own units


@dataclass(frozen=True, slots=True)
class Segment:
    """``kind`` 0 to 7: its colour."""

    name: str
    size: float
    x: float
    width: float
    kind: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Parts side by side. ``low`` to ``high`` is where the truth is expected, ``limit`` what there is (None: unknown); all along x."""

    segments: tuple[Segment, ...]
    low: float
    high: float
    limit: float | None


def stack(parts: Mapping[str, float], low: float, high: float, limit: float | None) -> Stack:
    """Scaled so that all of it can be seen; at least one part must be above zero."""
    total = sum(parts.values())
    scale = WIDTH / (1.04 * max(total, high, limit or 0.0, 1.0))
    segments = []
    at = 0.0
    for kind, (name, size) in enumerate(parts.items()):
        segments.append(Segment(name, size, round(at * scale, 2), round(size * scale, 2), kind % 8))
        at += size
    return Stack(
        tuple(segments),
        round(low * scale, 2),
        round(high * scale, 2),
        None if limit is None else round(limit * scale, 2),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """``points`` as an SVG polyline wants them."""

    name: str
    points: str
    kind: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over x from 0 to ``most_x``. ``x_ticks`` and ``y_ticks``: (place, label). ``mark``: where two lines cross, if they do."""

    height: float
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    mark: tuple[float, float] | None


def curve(
    lines: Sequence[tuple[str, float, float]], most_x: float, x_step: float, mark_x: float | None, height: float = 320.0
) -> Curve:
    """Straight ``lines`` (name, y at 0, slope) from 0 to ``most_x``; ``mark_x`` on the first of them."""
    top = max((start + slope * most_x for _, start, slope in lines), default=1.0)
    top = max(top, *(start for _, start, _ in lines), 1e-9)
    step = nice_step(top)
    top = math.ceil(top / step) * step

    def x_of(value: float) -> float:
        return round(value / most_x * WIDTH, 2)

    def y_of(value: float) -> float:
        return round(height - value / top * height, 2)

    drawn = tuple(
        Line(name, f"0,{y_of(start)} {WIDTH:g},{y_of(start + slope * most_x)}", kind)
        for kind, (name, start, slope) in enumerate(lines)
    )
    x_ticks = tuple((x_of(at * x_step), f"{at * x_step:g}") for at in range(int(most_x // x_step) + 1))
    y_ticks = tuple((y_of(at * step), f"{at * step:g}") for at in range(round(top / step) + 1))
    mark = None
    if mark_x is not None and lines:
        mark = (x_of(mark_x), y_of(lines[0][1] + lines[0][2] * mark_x))
    return Curve(height, drawn, x_ticks, y_ticks, mark)


def nice_step(top: float) -> float:
    """A round step of which four to ten make ``top``: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(top / 4))
    for factor in (1, 2, 5):
        if top / (factor * power) <= 10:
            return factor * power
    return 10 * power
