"""Templates to answers. A template shows only what is escaped: autoescape is on, and a value that is not there is an error, not a blank."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

import anycard
from anycard import i18n
from anycard.i18n import _, words
from anycard.i18n.sentences import safe, sentence
from anycard.jobs.states import ItemState
from anycard.units import format_bytes, format_duration
from anycard.web.guard import THEME_COOKIE

HERE = Path(__file__).parent
ASSETS = HERE / "assets"


def page(request: Request, template: str, /, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A whole page, or a part of one: whatever ``template`` is. ``context`` are its variables beside those that every template has: ``_``,
    ``session`` (None before login), ``here`` (the path asked for), ``nav``, ``language``, ``theme``, ``asset(name)``, ``words``."""
    return HTMLResponse(render(request, template, **context), status)


def render(request: Request, template: str, /, **context: Any) -> str:
    state = request.scope["state"]
    return (
        _environment()
        .get_template(template)
        .render(
            request=request,
            session=state["session"],
            here=request.url.path,
            back=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            nav=request.app.state.nav,
            mark=request.app.state.hub.mark,
            language=i18n.language(),
            theme=state["cookies"].get(THEME_COOKIE, ""),
            **context,
        )
    )


def see_other(address: str) -> RedirectResponse:
    """After a form: the browser gets ``address``, so that a reload sends nothing twice."""
    return RedirectResponse(address, status_code=303)


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(
        _=_, asset=asset, words=words, version=anycard.__version__, sentence=sentence, told=told, word_states=_states
    )
    made.filters.update(
        moment=moment,
        bytes=format_bytes,
        duration=format_duration,
        plain=safe,
        took=words.took,
        percent=percent,
        json=_json,
    )
    return made


def asset(name: str) -> str:
    """The address of a shipped file; its hash in it lets browsers keep it for ever."""
    return f"/assets/{name}?{_hash(name)}"


@functools.cache
def _hash(name: str) -> str:
    return hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:10]


def moment(rfc3339: str | None) -> Markup:
    """A time as an element that assets/app.js shows in the visitor's own zone; without scripts it reads in UTC."""
    if not rfc3339:
        return Markup("–")
    shown = datetime.fromisoformat(rfc3339).strftime("%Y-%m-%d %H:%M")
    return Markup('<time datetime="{0}" title="{1} UTC">{1}</time>').format(rfc3339, shown)


def _states() -> dict[str, str]:
    """Every state in the visitor's language, for scripts."""
    return {state.value: words.state(state.value) for state in ItemState}


def percent(share: float | None) -> str:
    """``0.314`` as ``31 %``; ``?`` for what is not known."""
    return "?" if share is None else f"{share * 100:.0f} %"


def told(thing: Mapping[str, Any], name: str) -> str:
    """A sentence of an answer's ``NAME_msgid`` and ``NAME_params`` in the visitor's language; empty when there is none."""
    msgid = thing.get(f"{name}_msgid")
    if msgid:
        return sentence(msgid, thing.get(f"{name}_params"))
    return safe(thing.get(name) or "")


def _json(value: Any) -> Markup:
    """For a ``<script type="application/json">``: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
    return Markup(text)  # noqa: S704  ASCII JSON without < and &
