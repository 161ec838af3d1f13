"""YAML text to a small tree that knows where everything stands.

YAML 1.2 through ruamel.yaml's composer: its nodes carry line marks, and building no Python objects keeps ``on`` a word, ``1e-3`` as it
was written, and half the time. Bounded on every side, for the text is somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anycard.jobs.file.faults import Faults, Place

MAX_BYTES = 256 * 1024  # a dense file of this size takes seconds to scan
MAX_NODES = 50_000  # counted after aliases are followed
MAX_DEPTH = 32

# What YAML 1.2 allows (section 5.1); lone surrogates are not characters at all.
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What YAML may write as an escape and no program can be given: not in a script, a path, an argument or a variable.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_CORE_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "map", "seq")
)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
# ruamel.yaml checks versions, escapes and directives with bare Python errors.
_RUAMEL_SLIPS = (
    AssertionError,
    KeyError,
    ValueError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, as written. ``plain``: without quotes, so that ``null`` means nothing at all."""

    place: Place
    text: str
    plain: bool

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class ListNode:
    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    place: Place
    entries: tuple[tuple[Scalar, Node], ...]


Node = Scalar | ListNode | MapNode


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null


def written(node: Node) -> str:
    """What to show of ``node`` in a fault."""
    if isinstance(node, Scalar):
        return node.text
    return "[...]" if isinstance(node, ListNode) else "{...}"


def read_documents(text: str | bytes, file_name: str, faults: Faults) -> list[Node]:
    """The documents of ``text`` up to the first that is not YAML; empty ones are left out. Never raises: what is wrong goes to
    ``faults``."""
    decoded = _decode(text, file_name, faults)
    if decoded is None:
        return []
    documents: list[Node] = []
    composed = _compose(decoded, file_name, faults)
    builder = _Builder(file_name, faults)
    for root in composed:
        node = builder.build(root, 0)
        if node is not None and not is_null(node):
            documents.append(node)
    return documents


def from_option(name: str, value: object) -> Node:
    """A command line option or API field as a node, so that it is read by the code that reads files."""
    place = Place("--" + name.replace("_", "-"), 0, 0)
    return _from_value(place, value)


def _from_value(place: Place, value: object) -> Node:
    if isinstance(value, Mapping):
        return MapNode(
            place, tuple((Scalar(place, str(key), True), _from_value(place, item)) for key, item in value.items())
        )
    if isinstance(value, list | tuple):
        return ListNode(place, tuple(_from_value(place, item) for item in value))
    if isinstance(value, bool):
        return Scalar(place, "true" if value else "false", True)
    return Scalar(place, "" if value is None else str(value), True)


def _decode(text: str | bytes, file_name: str, faults: Faults) -> str | None:
    start = Place(file_name, 1, 1)
    if len(text) > MAX_BYTES:
        faults.add(start, "A job file has at most {limit} bytes, this one has {size}", limit=MAX_BYTES, size=len(text))
        return None
    if isinstance(text, bytes):
        raw = text
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode("utf-8", "replace")
            faults.add(
                _place_after(file_name, before), "This is not UTF-8: byte {byte}", byte=f"0x{raw[error.start]:02x}"
            )
            return None
    text = text.removeprefix("\ufeff")
    wrong = _NOT_ALLOWED.search(text)
    if wrong:
        place = _place_after(file_name, text[: wrong.start()])
        faults.add(place, "YAML does not allow the character {character} here", character=f"U+{ord(wrong.group()):04X}")
        return None
    return text


def _place_after(file_name: str, before: str) -> Place:
    lines = re.split("\r\n|\n|\r", before)
    return Place(file_name, len(lines), len(lines[-1]) + 1)


def _compose(text: str, file_name: str, faults: Faults) -> Iterator[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import MaxDepthExceededError
    from ruamel.yaml.docinfo import DocInfo
    from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLStreamError

    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False
    try:
        # What compose_all does, except that its cleaning up would forget how far it had come.
        yaml.doc_infos.append(DocInfo())
        yaml.tags = {}
        composer = yaml.get_constructor_parser(text)[0].composer
        while composer.check_node():
            yield composer.get_node()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file_name, mark.line + 1, mark.column + 1) if mark else _reached(yaml, file_name)
        if isinstance(error, MaxDepthExceededError):
            faults.add(place, "Nested deeper than {limit} levels", limit=MAX_DEPTH)
        else:
            _add_syntax_fault(_within(place, text), error.problem or error.context or "", faults)
    except (YAMLError, YAMLStreamError, *_RUAMEL_SLIPS):
        faults.add(_within(_reached(yaml, file_name), text), "This is not YAML 1.2")


def _reached(yaml: Any, file_name: str) -> Place:
    return Place(file_name, yaml.reader.line + 1, yaml.reader.column + 1)


def _within(place: Place, text: str) -> Place:
    """``place``, or the end of the text when the scanner had already run past it."""
    last = _place_after(place.file, text.rstrip("\r\n"))
    return place if place.line <= last.line else last


def _add_syntax_fault(place: Place, problem: str, faults: Faults) -> None:
    """A sentence for the mistakes people make; ruamel's own words, without the quoted text (it may be a secret), for the rest."""
    if "'\\t'" in problem:
        faults.add(place, "A tab stands where YAML wants spaces")
    elif "undefined alias" in problem:
        faults.add(place, "There is no anchor of this name (a value that begins with * needs quotes)")
    elif "mapping values are not allowed" in problem:
        faults.add(
            place, "A second ': ' in one line (a value that holds ': ' needs quotes), or the line is indented wrongly"
        )
    elif "could not find expected ':'" in problem:
        faults.add(place, "A key needs ': ' behind it, or the line is indented wrongly")
    else:
        bare = re.sub(r"'[^'\s<]{3,}'|\"[^\"\s<]{3,}\"", "'…'", problem)
        faults.add(place, "This is not YAML: {problem}", problem=" ".join(bare.split()))


class _Builder:
    """Ruamel's nodes to ours: follows aliases and ``<<`` within bounds, finds doubled keys and foreign tags."""

    def __init__(self, file_name: str, faults: Faults) -> None:
        self._file_name = file_name
        self._faults = faults
        self._left = MAX_NODES

    def build(self, node: Any, depth: int) -> Node | None:
        place = Place(self._file_name, node.start_mark.line + 1, node.start_mark.column + 1)
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            self._faults.add(
                place, "Aliases unfold to more than {limit} values or {depth} levels", limit=MAX_NODES, depth=MAX_DEPTH
            )
            return None
        if str(node.ctag) not in _CORE_TAGS:
            self._faults.add(place, "A tag means nothing in a job file (a value that begins with ! needs quotes)")
            return None
        if isinstance(node.value, str):
            if wrong := _NO_TEXT.search(node.value):
                self._faults.add(
                    place, "No value may hold the character {character}", character=f"U+{ord(wrong.group()):04X}"
                )
            return Scalar(place, _NO_TEXT.sub("\ufffd", node.value), node.style is None)
        if str(node.ctag).endswith("map"):
            return self._mapping(node, place, depth)
        items = [self.build(item, depth + 1) for item in node.value]
        return ListNode(place, tuple(item for item in items if item is not None))

    def _mapping(self, node: Any, place: Place, depth: int) -> MapNode | None:
        entries: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Node] = []
        for raw_key, raw_value in node.value:
            key, value = self.build(raw_key, depth + 1), self.build(raw_value, depth + 1)
            if key is None or value is None:
                continue
            if not isinstance(key, Scalar):
                self._faults.add(key.place, "A key must be a single word")
            elif key.plain and key.text == "<<":
                merged.extend(value.items if isinstance(value, ListNode) else [value])
            elif key.text in entries:
                first = entries[key.text][0].place.line
                self._faults.add(key.place, "{value} was given already in line {line}", value=key.text, line=first)
            else:
                entries[key.text] = (key, value)
        for other in merged:
            if not isinstance(other, MapNode):
                self._faults.add(other.place, "<< wants a mapping, or a list of them")
                continue
            for key, value in other.entries:
                entries.setdefault(key.text, (key, value))
        return MapNode(place, tuple(entries.values()))
