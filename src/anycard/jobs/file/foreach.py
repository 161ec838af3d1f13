"""``anycard.foreach``: one item for each file, line, number or point of a matrix.

An item's values are kept by plain names (``file``, ``line``, ``index``, the matrix's own keys) and reach the program as environment
variables only. Bytes that are not UTF-8 (file names may be so) are kept beside the readable value as ``NAME#bytes``, in hexadecimal, so
that everything in between can stay UTF-8 and the program still gets the true name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.looking import (
    MAX_LOOKED_AT,
    MAX_SECONDS,
    NOT_PLAIN,
    Budget,
    NotPlainError,
    TooMuchError,
    matches,
    read_plain,
)
from anycard.jobs.file.nodes import ListNode, Node, Scalar, is_null, written
from anycard.jobs.file.readers import VARIABLE, Section, read_mapping, read_text, read_texts, read_whole

MAX_ITEMS = 1_000_000
MAX_VALUE_BYTES = 64 * 1024  # Linux refuses an environment string of 128 KiB
MAX_LIST_BYTES = 256 * 1024 * 1024  # of a `lines` file
_KINDS = ("files", "matrix", "lines", "count")
# Names that an attempt has anyway: a matrix key must not hide them.
RESERVED_VARIABLES = frozenset(
    (
        "JOB",
        "ITEM",
        "ATTEMPT",
        "OUTPUT_DIR",
        "CHECKPOINT_DIR",
        "CARDS",
        "CPUS",
        "DEVICE",
        "HOME",
        "LANG",
        "NAME",
        "WORKDIR",
        "MEMORY_BYTES",
    )
)
_BYTES_SUFFIX = "#bytes"


@dataclass(frozen=True, slots=True)
class Files:
    """Patterns relative to the workdir, or absolute; ``**`` crosses folders; a trailing slash means folders instead of files."""

    place: Place
    patterns: tuple[tuple[Place, str], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Every line of a file that is not empty."""

    place: Place
    path: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every combination; the last key turns fastest."""

    place: Place
    axes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Count:
    place: Place
    count: int


Foreach = Files | Lines | Matrix | Count
Item = dict[str, str]


def read_foreach(node: Node, faults: Faults) -> Foreach | None:
    path = "anycard.foreach"
    mapping = read_mapping(node, path, faults)
    if mapping is None:
        return None
    section = Section(mapping, path, faults, _KINDS)
    given = [kind for kind in _KINDS if section.get(kind)]
    if len(given) != 1:
        faults.add(mapping.place, "{key} has exactly one of {kinds}", key=path, kinds=", ".join(_KINDS))
        return None
    value = section.get(given[0])
    assert value is not None
    name = section.name(given[0])
    if given[0] == "files":
        patterns = tuple((scalar.place, text) for scalar, text in read_texts(value, name, faults))
        if isinstance(value, ListNode) and not value.items:
            faults.add(value.place, "{key} is empty", key=name)
        return Files(value.place, patterns) if patterns else None
    if given[0] == "lines":
        text = read_text(value, name, faults)
        return Lines(value.place, text) if text else None
    if given[0] == "count":
        count = read_whole(value, name, faults, least=1, most=MAX_ITEMS)
        return None if count is None else Count(value.place, count)
    return _read_matrix(value, name, faults)


def _read_matrix(node: Node, path: str, faults: Faults) -> Matrix | None:
    mapping = read_mapping(node, path, faults)
    if mapping is None:
        return None
    axes: list[tuple[str, tuple[str, ...]]] = []
    variables: set[str] = set()
    for key, value in mapping.entries:
        variable = key.text.upper()
        if not VARIABLE.fullmatch(key.text):
            faults.add(key.place, "{key}: {value} is no variable name (letters, digits, '_')", key=path, value=key.text)
        elif variable in RESERVED_VARIABLES:
            faults.add(key.place, "{key}: ANYCARD_{variable} has a meaning of its own, choose another name than {value}", key=path,
                       variable=variable, value=key.text)  # fmt: skip
        elif variable in variables:
            faults.add(key.place, "{key}: two keys become ANYCARD_{variable}", key=path, variable=variable)
        variables.add(variable)
        values = _axis_values(value, f"{path}.{key.text}", faults)
        if values:
            axes.append((key.text, values))
    if not mapping.entries:
        faults.add(node.place, "{key} is empty", key=path)
    if math.prod(len(values) for _, values in axes) > MAX_ITEMS:
        faults.add(node.place, "{key}: more than {limit} combinations", key=path, limit=MAX_ITEMS)
        return None
    return Matrix(node.place, tuple(axes)) if axes else None


def _axis_values(node: Node, path: str, faults: Faults) -> tuple[str, ...]:
    values: list[str] = []
    if isinstance(node, ListNode) and not node.items:
        faults.add(node.place, "{key} is empty", key=path)
    for item in node.items if isinstance(node, ListNode) else (node,):
        if isinstance(item, Scalar) and not is_null(item):
            values.append(item.text)
        else:
            faults.add(item.place, "{key} wants single values, not {value}", key=path, value=written(item))
    return tuple(values)


def expand(
    foreach: Foreach, workdir: Path, spell: Callable[[str], str], faults: Faults, budget: Budget | None = None
) -> tuple[Item, ...]:
    """The items in a fixed order: files sorted by name, lines and matrix as written. Looks into ``workdir`` within ``budget``; ``spell``
    writes out ``~`` and variables in a path. Empty after a fault."""
    if isinstance(foreach, Matrix):
        names = [name for name, _ in foreach.axes]
        return tuple(
            dict(zip(names, point, strict=True)) for point in itertools.product(*(values for _, values in foreach.axes))
        )
    if isinstance(foreach, Count):
        return tuple({"index": str(index)} for index in range(foreach.count))
    if isinstance(foreach, Lines):
        return _expand_lines(foreach, workdir / spell(foreach.path), faults)
    return _expand_files(foreach, workdir, spell, faults, budget or Budget())


def _expand_files(
    foreach: Files, workdir: Path, spell: Callable[[str], str], faults: Faults, budget: Budget
) -> tuple[Item, ...]:
    found: set[str] = set()
    for place, written_pattern in foreach.patterns:
        pattern = spell(written_pattern)
        some = False
        try:
            for path in matches(pattern, workdir, budget):
                some = True
                found.add(path)
                if len(found) > MAX_ITEMS:
                    faults.add(place, "More than {limit} items: no job may have so many", limit=MAX_ITEMS)
                    return ()
        except TooMuchError:
            faults.add(place, "{value} leads through more than {limit} files, or takes longer than {seconds} s to look for: name a smaller"
                       " folder", value=pattern, limit=MAX_LOOKED_AT, seconds=round(MAX_SECONDS))  # fmt: skip
            return ()
        if not some:
            faults.add(place, "No file matches {value} in {folder}", value=pattern, folder=str(workdir))
    return tuple(_item("file", path) for path in sorted(found))


def _expand_lines(foreach: Lines, path: Path, faults: Faults) -> tuple[Item, ...]:
    try:
        content = read_plain(path, MAX_LIST_BYTES + 1)
    except NotPlainError:
        faults.add(foreach.place, NOT_PLAIN.msgid, value=foreach.path)
        return ()
    except OSError as error:
        faults.add(
            foreach.place,
            "{value} cannot be read: {why}",
            value=foreach.path,
            why=error.strerror or type(error).__name__,
        )
        return ()
    if len(content) > MAX_LIST_BYTES:
        faults.add(foreach.place, "{value} has more than {limit} bytes", value=foreach.path, limit=MAX_LIST_BYTES)
        return ()
    items: list[Item] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        if b"\0" in line or len(line) > MAX_VALUE_BYTES:
            faults.add(foreach.place, "Line {number} of {value} holds a NUL byte or is longer than {limit} bytes", number=number,
                       value=foreach.path, limit=MAX_VALUE_BYTES)  # fmt: skip
            return ()
        items.append(_item("line", line.decode("utf-8", "surrogateescape")))
        if len(items) > MAX_ITEMS:
            faults.add(foreach.place, "More than {limit} items: no job may have so many", limit=MAX_ITEMS)
            return ()
    if not items:
        faults.add(foreach.place, "{value} has no line that is not empty", value=foreach.path)
    return tuple(items)


def _item(name: str, value: str) -> Item:
    """``value`` may hold surrogate escapes, as Python keeps bytes that are not UTF-8."""
    if value.isascii() or not any("\udc80" <= character <= "\udcff" for character in value):
        return {name: value}
    raw = value.encode("utf-8", "surrogateescape")
    return {name: raw.decode("utf-8", "replace"), name + _BYTES_SUFFIX: raw.hex()}


def item_variables(values: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of an item with these values: ``{"file": "a b.csv"}`` -> ``{"ANYCARD_FILE": "a b.csv"}``. Bytes that
    are not UTF-8 come as surrogate escapes, which ``os.fsencode`` turns back."""
    variables: dict[str, str] = {}
    for name, value in values.items():
        if name.endswith(_BYTES_SUFFIX):
            continue
        raw = values.get(name + _BYTES_SUFFIX)
        variables["ANYCARD_" + name.upper()] = (
            value if raw is None else bytes.fromhex(raw).decode("utf-8", "surrogateescape")
        )
    return variables
