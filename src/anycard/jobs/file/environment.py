"""What of the submitter's environment a program sees, and the values of ``envs`` and ``secrets``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anycard.jobs.file.allowed import MAX_VALUE_BYTES, is_utf8
from anycard.jobs.file.faults import Faults, Place
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, is_null, written
from anycard.jobs.file.readers import VARIABLE, read_mapping

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of ``envs`` or ``secrets``. ``value`` None: the submitter must give it. Never printed: it may be a secret."""

    name: str
    value: str | None
    place: Place
    secret: bool = False

    def __repr__(self) -> str:
        shown = HIDDEN if self.secret and self.value is not None else self.value
        return f"Variable({self.name!r}, {shown!r})"


def read_variables(node: Node, key: str, faults: Faults, *, secret: bool) -> tuple[Variable, ...]:
    """``envs`` or ``secrets``; the latter may also be a list of names. Values of secrets get into no fault."""
    if secret and isinstance(node, ListNode):
        node = MapNode(node.place, tuple(_named(item, key, faults) for item in node.items if isinstance(item, Scalar)))
    mapping = read_mapping(node, key, faults) if not (secret and isinstance(node, Scalar)) else None
    if mapping is None:
        if secret and isinstance(node, Scalar):
            faults.add(node.place, "{key} wants a mapping (NAME: value)", key=key)
        return ()
    found: list[Variable] = []
    for name, value in mapping.entries:
        if not check_name(name.text, name.place, key, faults):
            continue
        if not isinstance(value, Scalar):
            faults.add(
                value.place,
                "{key}.{name} wants a single value, not {value}",
                key=key,
                name=name.text,
                value=written(value),
            )
        elif len(value.text) > MAX_VALUE_BYTES:
            faults.add(
                value.place, "{key}.{name} is longer than {limit} bytes", key=key, name=name.text, limit=MAX_VALUE_BYTES
            )
        else:
            found.append(Variable(name.text, None if is_null(value) else value.text, name.place, secret))
    return tuple(found)


def _named(item: Scalar, key: str, faults: Faults) -> tuple[Scalar, Node]:
    return item, Scalar(item.place, "", True)


def check_name(name: str, place: Place, key: str, faults: Faults) -> bool:
    """Whether ``name`` may be set by a job; notes a fault if not."""
    if not VARIABLE.fullmatch(name):
        faults.add(place, "{key}: {value} is no variable name (letters, digits, '_')", key=key, value=name)
        return False
    if name.startswith("ANYCARD_"):
        faults.add(place, "{key}: names that begin with ANYCARD_ are set by anycard, not {value}", key=key, value=name)
        return False
    return True


def values_of(
    variables: tuple[Variable, ...], given: Mapping[str, str], environ: Mapping[str, str], faults: Faults
) -> dict[str, str]:
    """Each variable's value: what was given with the submission, else the file's, else the submitter's own variable of that name."""
    values: dict[str, str] = {}
    for variable in variables:
        value = given.get(variable.name, variable.value)
        if value is None:
            value = environ.get(variable.name)
        if value is None:
            faults.add(
                variable.place,
                "{name} has no value: give it with --env {name}=VALUE, or set it in your environment",
                name=variable.name,
            )
        elif "\0" in value or not is_utf8(value) or len(value) > MAX_VALUE_BYTES:
            faults.add(
                variable.place,
                "The value of {name} is not UTF-8, holds a NUL byte or is longer than {limit} bytes",
                name=variable.name,
                limit=MAX_VALUE_BYTES,
            )
        else:
            values[variable.name] = value
    return values
