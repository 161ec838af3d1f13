"""Text as a value: pure code says what it means, the faces (CLI, page) translate and format it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Param = str | int | float


@dataclass(frozen=True, slots=True)
class Text:
    """``msgid`` is the English sentence with ``{name}`` fields, also the gettext key; ``params`` fill the fields.

    A param may hold raw user text: it is inserted, never interpreted.
    """

    msgid: str
    params: Mapping[str, Param] = field(default_factory=dict)

    def __str__(self) -> str:
        return fill(self.msgid, self.params)

    def to_json(self) -> dict[str, Any]:
        return {"msgid": self.msgid, "params": dict(self.params), "text": str(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Text:
        return Text(value["msgid"], dict(value.get("params", {})))


def fill(template: str, params: Mapping[str, Param]) -> str:
    """``template`` with its fields filled; a template that does not match its params is shown bare, never an exception."""
    try:
        return template.format_map(params)
    except (KeyError, IndexError, ValueError):
        return template
