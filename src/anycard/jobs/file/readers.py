"""Single values out of nodes. Each reader answers None and notes a fault that says what is accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from anycard.jobs.file.faults import Faults, nearest
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, is_null, written
from anycard.units import parse_duration

MAX_SECONDS = 10 * 366 * 86400.0  # ten years: anything longer is a slip
_WHOLE = re.compile(r"[+-]?[0-9]{1,12}")
_TRUE, _FALSE = frozenset(("true", "True", "TRUE")), frozenset(("false", "False", "FALSE"))
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Not in a name: blanks and slashes, control characters, those that turn the direction of what is shown, half characters.
_NOT_IN_NAME = r"\s/\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
NAME = re.compile(f"[^{_NOT_IN_NAME}-][^{_NOT_IN_NAME}]{{0,99}}")


class Section:
    """One mapping of the file: hands out values by key and, when it is opened, names the keys that nobody knows.

    ``path`` is how the mapping is called in faults (``resources``; empty for the top). ``ignored`` keys are accepted and noted;
    ``elsewhere`` maps keys that belong to another mapping to the path where they do.
    """

    def __init__(
        self,
        node: MapNode,
        path: str,
        faults: Faults,
        known: Sequence[str],
        *,
        ignored: Iterable[str] = (),
        elsewhere: dict[str, str] | None = None,
    ) -> None:
        self.node = node
        self.path = path
        self.ignored: list[str] = []
        self._values: dict[str, Node] = {}
        self._keys: dict[str, Scalar] = {}
        ignorable = frozenset(ignored)
        for key, value in node.entries:
            if key.text in known:
                self._keys[key.text] = key
                if not is_null(value):  # as in SkyPilot, `key:` without a value is as if it were left out
                    self._values[key.text] = value
            elif key.text in ignorable:
                self.ignored.append(self.name(key.text))
            else:
                self._unknown(key, known, elsewhere or {}, faults)

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str) -> Node | None:
        return self._values.get(key)

    def key(self, key: str) -> Scalar:
        """The key as it stands in the file; only for keys that are there."""
        return self._keys[key]

    def mentions(self, key: str) -> bool:
        """The key is there, perhaps without a value."""
        return key in self._keys

    def _unknown(self, key: Scalar, known: Sequence[str], elsewhere: dict[str, str], faults: Faults) -> None:
        place, word = key.place, key.text
        near = elsewhere.get(word) or nearest(word, known)
        if near is None:
            other = nearest(word, elsewhere)
            near = elsewhere[other] if other else None
        if near and self.path:
            faults.add(place, "{value} is not a key of {where}", value=word, nearest=near, where=self.path)
        elif near:
            faults.add(place, "{value} is not a key of a job file", value=word, nearest=near)
        elif self.path:
            keys = ", ".join(known)
            faults.add(
                place, "{value} is not a key of {where}, which has {keys}", value=word, where=self.path, keys=keys
            )
        else:
            faults.add(place, "{value} is not a key of a job file, which has {keys}", value=word, keys=", ".join(known))


def read_mapping(node: Node, key: str, faults: Faults) -> MapNode | None:
    if isinstance(node, MapNode):
        return node
    faults.add(node.place, "{key} wants a mapping (key: value), not {value}", key=key, value=written(node))
    return None


def read_text(node: Node, key: str, faults: Faults) -> str | None:
    if isinstance(node, Scalar):
        return node.text
    faults.add(node.place, "{key} wants a single value, not {value}", key=key, value=written(node))
    return None


def read_texts(node: Node, key: str, faults: Faults) -> list[tuple[Scalar, str]]:
    """A value, or a list of them, each with its node."""
    nodes = node.items if isinstance(node, ListNode) else (node,)
    found = []
    for item in nodes:
        text = read_text(item, key, faults)
        if text is not None and isinstance(item, Scalar):
            if text:
                found.append((item, text))
            else:
                faults.add(item.place, "{key} has an empty entry", key=key)
    return found


def read_whole(node: Node, key: str, faults: Faults, *, least: int, most: int) -> int | None:
    if isinstance(node, Scalar) and _WHOLE.fullmatch(node.text):
        number = int(node.text)
        if least <= number <= most:
            return number
    faults.add(
        node.place,
        "{key} wants a whole number from {least} to {most}, not {value}",
        key=key,
        least=least,
        most=most,
        value=written(node),
    )
    return None


def read_flag(node: Node, key: str, faults: Faults) -> bool | None:
    if isinstance(node, Scalar) and node.plain:
        if node.text in _TRUE:
            return True
        if node.text in _FALSE:
            return False
    faults.add(node.place, "{key} wants true or false, not {value}", key=key, value=written(node))
    return None


def read_seconds(node: Node, key: str, faults: Faults, *, positive: bool = False) -> float | None:
    """A length of time in seconds: ``90s``, ``1h30m``, ``2d``, or a bare number of seconds."""
    if isinstance(node, Scalar) and len(node.text) <= 40:
        try:
            seconds = parse_duration(node.text)
        except ValueError:
            seconds = -1.0
        if 0 <= seconds <= MAX_SECONDS and (seconds > 0 or not positive):
            return seconds
    if positive:
        faults.add(
            node.place,
            "{key} wants a length of time above zero such as 90s, 30m, 1h30m or 2d, not {value}",
            key=key,
            value=written(node),
        )
    else:
        faults.add(
            node.place,
            "{key} wants a length of time such as 90s, 30m, 1h30m or 2d, not {value}",
            key=key,
            value=written(node),
        )
    return None


def read_choice(node: Node, key: str, faults: Faults, choices: Sequence[str]) -> str | None:
    text = written(node)
    if isinstance(node, Scalar) and text in choices:
        return text
    faults.add(
        node.place,
        "{key} is one of {choices}, not {value}",
        key=key,
        choices=", ".join(choices),
        value=text,
        nearest=nearest(text, choices) if isinstance(node, Scalar) else None,
    )
    return None


def read_job_name(node: Node, key: str, faults: Faults) -> str | None:
    text = read_text(node, key, faults)
    if text is None:
        return None
    if NAME.fullmatch(text) and not text.isdecimal():
        return text
    faults.add(
        node.place,
        "{value} is no name for a job: 1 to 100 characters without spaces and slashes, no '-' first, and not a number",
        value=text,
    )
    return None
