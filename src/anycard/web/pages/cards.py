"""/cards: the cards of this machine, now and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from anycard.host.clock import now as clock
from anycard.i18n import N_
from anycard.jobs.readingsviews import span_json, tick_json
from anycard.web.nav import Entry
from anycard.web.render import page, render, see_other
from anycard.web.shared import Parts
from anycard.web.visit import Visit, visit

router = APIRouter()
NAV = Entry(N_("Cards"), "/cards", "c")

SPARK_S = 120.0  # of a card's last time, drawn small
CHART_COLUMNS = ("utilisation", "memory_used_bytes", "memory_total_bytes", "temperature_c", "power_w", "power_limit_w")
_RANGES = {"10m": 600.0, "1h": 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "31d": 31 * 86_400.0}


@router.get("/")
async def home(request: Request) -> Response:
    return see_other("/cards")


@router.get("/cards")
async def cards(request: Request) -> Response:
    chosen = visit(request).query("range")
    chosen = chosen if chosen in _RANGES else "10m"
    return page(request, "cards.html", range=chosen, ranges=_RANGES, **await _seen(visit(request)))


@router.get("/cards/now")
async def now(request: Request) -> Response:
    async def made() -> str:
        return render(request, "parts/cards.html", **await _seen(visit(request)))

    parts: Parts = request.app.state.parts
    return await parts.answer(request, made)


@router.get("/cards/readings")
async def readings(request: Request, range: str = "10m") -> Response:
    """What the plots show: the answer of GET /v1/readings."""
    until = clock().utc_s
    span = await visit(request).services.readings.span(since=until - _RANGES.get(range, 600.0), until=until)
    return JSONResponse(span_json(span, CHART_COLUMNS))


async def _seen(who: Visit) -> dict[str, Any]:
    """The cards with their last readings (none: unknown), the programs on them, and how they reach each other."""
    kept = who.services.readings
    seen = await who.system.cards()
    tick = tick_json(kept.last, kept.owners)
    until = clock().utc_s
    recent = span_json(await kept.span(since=until - SPARK_S, until=until, step_s=2), ("utilisation",))
    sparks = {row["card"]: _spark(row, until) for row in recent["cards"]}
    live = {reading["card"]: reading for reading in tick["readings"]}
    jobs = {at: await who.jobs.job(str(at), who.caller.user) for at in {card["job"] for card in seen["cards"]} - {None}}
    rows = [
        {**card, "now": live.get(card["id"]), "spark": sparks.get(card["id"], []), "held_by": jobs.get(card["job"])}
        for card in sorted(seen["cards"], key=lambda card: not card["accelerator"])  # the CPU comes last
    ]
    return {
        "seen": seen,
        "cards": rows,
        "programs": _programs(seen["cards"], tick["uses"]),
        "silent": tick["silent"],
        "matrix": _matrix(seen),
    }


def _spark(row: Mapping[str, Any], until: float) -> list[int | None]:
    """Per cent for each two seconds of SPARK_S, None where nothing was seen."""
    count = round(SPARK_S / 2)
    places: list[int | None] = [None] * count
    for at, value in zip(row["times"], row["utilisation"] or (), strict=False):
        place = count - 1 - int((until - at) // 2)
        if 0 <= place < count and value is not None:
            places[place] = round(value * 100)
    return places


def _programs(cards: Sequence[Mapping[str, Any]], uses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every program that is seen on an accelerator: whose it is, by job where anycard started it."""
    by_place = {(use["card"], use["pid"]): use for use in uses}
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for card in cards:
        for process in card["processes"] or ():
            use = by_place.get((card["id"], process["pid"]), {})
            rows[card["id"], process["pid"]] = {
                "utilisation": None, "job": None, "item": None, **use, **process, "card": card["id"]
            }  # fmt: skip
    known = {card["id"] for card in cards if card["accelerator"]}
    for place, use in by_place.items():
        if place not in rows and use["card"] in known:
            rows[place] = {"user": None, "command": None, **use}
    return [rows[place] for place in sorted(rows)]


def _matrix(seen: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table that people know from `nvidia-smi topo -m`; None where there are no two accelerators."""
    held = [card for card in seen["cards"] if card["accelerator"] and not card["part_of"]]
    if len(held) < 2:
        return None
    between = {frozenset((link["a"], link["b"])): str(link["letters"]) for link in seen["links"]}
    rows = [["X" if a is b else between.get(frozenset((a["id"], b["id"])), "?") for b in held] for a in held]
    used = {letters.rstrip("0123456789") for letters in between.values()}
    return {"cards": held, "rows": rows, "used": used}
