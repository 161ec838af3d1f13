"""The ``[[hooks]]`` and ``[cards]`` of the configuration (docs/webhooks.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

from anycard.errors import UsageError
from anycard.jobs.cardwatch import DEFAULT_LIMITS, Limits
from anycard.units import parse_duration

Choice = TypeVar("Choice", bound=StrEnum)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")  # it names a file of the home, too
_KEYS = ("name", "url", "shape", "on", "secret", "language")


class Kind(StrEnum):
    """What a hook may be told of."""

    DONE = "done"
    FAILED = "failed"
    CARD_LOST = "card-lost"
    CARD_IDLE = "card-idle"
    TOO_HOT = "too-hot"


class Shape(StrEnum):
    """How the receiver wants to be told."""

    JSON = "json"
    SLACK = "slack"
    FEISHU = "feishu"
    DINGTALK = "dingtalk"
    WECOM = "wecom"


_SIGNED = (Shape.JSON, Shape.FEISHU, Shape.DINGTALK)


@dataclass(frozen=True, slots=True)
class Hook:
    """One receiver. ``url`` holds its token and ``secret`` signs: neither is ever shown or logged; ``host`` may be."""

    name: str
    host: str
    shape: Shape = Shape.JSON
    kinds: frozenset[Kind] = frozenset(Kind)
    language: str = "en"
    url: str = field(default="", repr=False)
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    hooks: tuple[Hook, ...] = ()
    limits: Limits = DEFAULT_LIMITS


def settings(configuration: Mapping[str, Any]) -> Settings:
    """UsageError, with the name of the hook and never its address, when something cannot be meant so."""
    given = configuration.get("hooks", [])
    if not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise UsageError("hooks are tables of the configuration, each under a line [[hooks]]")
    hooks = tuple(_hook(at, one) for at, one in enumerate(given, 1))
    names = [hook.name for hook in hooks]
    for name in names:
        if names.count(name) > 1:
            raise UsageError("two hooks are called {name}", name=name)
    return Settings(hooks, _limits(configuration.get("cards", {})))


def _hook(at: int, given: Mapping[str, Any]) -> Hook:
    name = given.get("name", f"hook-{at}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            "{name} is no name for a hook", hint="use small letters, digits and hyphens, at most 40", name=name
        )
    _known(name, given)
    url = _text(name, given, "url") or ""
    shape = _one_of(name, "shape", given.get("shape", "json"), Shape)
    secret = _text(name, given, "secret")
    if secret is not None and shape not in _SIGNED:
        raise UsageError(
            "hook {name}: {shape} takes no secret", hint="its address is all it needs", name=name, shape=shape
        )
    language = given.get("language", "en")
    if language not in ("en", "zh"):
        raise UsageError("hook {name}: the language is en or zh, not {given}", name=name, given=language)
    told = given.get("on", list(Kind))
    if not isinstance(told, list) or not told:
        raise UsageError("hook {name}: `on` is a list of {known}", name=name, known=", ".join(Kind))
    kinds = frozenset(_one_of(name, "on", kind, Kind) for kind in told)
    return Hook(name, _host(name, url), shape, kinds, language, url, secret)


def _known(name: str, given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in _KEYS:
            raise UsageError("hook {name}: {key} is not a key of a hook", hint="it takes {known}", name=name, key=key,
                             known=", ".join(_KEYS))  # fmt: skip


def _text(name: str, given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise UsageError("hook {name}: {key} must be a text", name=name, key=key)
    return value


def _one_of(name: str, key: str, given: object, known: type[Choice]) -> Choice:
    if not isinstance(given, str) or given not in list(known):
        raise UsageError(
            "hook {name}: {given} is no {key}", hint="use one of {known}", name=name, key=key, given=given,
            known=", ".join(known),
        )  # fmt: skip
    return known(given)


def _host(name: str, url: str) -> str:
    """The part of the address that may be shown. Nothing but printable ASCII passes, so that no line ends within a request."""
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode(
            "idna"
        )  # as a look-up of the name will: UnicodeError for labels that are empty or too long
    except ValueError:
        raise UsageError("hook {name}: its url cannot be read", name=name) from None
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise UsageError("hook {name}: its url must be one of http or https", name=name)
    if "@" in parts.netloc:
        raise UsageError("hook {name}: its url must hold no user and password", name=name)
    return parts.hostname if port is None else f"{parts.hostname}:{port}"


def _limits(given: object) -> Limits:
    if not isinstance(given, Mapping):
        raise UsageError("cards is a table of the configuration, under a line [cards]")
    for key in given:
        if key not in ("idle_after", "hot_c"):
            raise UsageError("{key} is not a key of [cards]", hint="it takes idle_after and hot_c", key=key)
    default = DEFAULT_LIMITS
    hot_c = given.get("hot_c", default.hot_c)
    if isinstance(hot_c, bool) or not isinstance(hot_c, int | float) or not 20 <= hot_c <= 150:
        raise UsageError("hot_c is a temperature in degrees Celsius from 20 to 150, not {given}", given=hot_c)
    return Limits(_length(given.get("idle_after"), default.idle_s), float(hot_c))


def _length(given: object, default: float) -> float:
    if given is None:
        return default
    try:
        return parse_duration(str(given))
    except ValueError:
        raise UsageError("idle_after is a length of time such as 10m, not {given}", given=given) from None
