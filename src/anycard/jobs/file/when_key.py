"""``anycard.retry.when``: after which ends an item is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from anycard.jobs.file.faults import Faults, nearest
from anycard.jobs.file.nodes import ListNode, MapNode, Node, Scalar, written
from anycard.jobs.file.readers import Section
from anycard.jobs.file.resources import read_exit_codes
from anycard.model.end_reason import CONSEQUENCES, EndReason

_PATH = "anycard.retry.when"
_RETRYABLE = tuple(reason.value for reason in EndReason if CONSEQUENCES[reason].retry != "never")


@dataclass(frozen=True, slots=True)
class When:
    """``reasons`` None: nothing was said, so what is retried by default."""

    reasons: tuple[str, ...] | None = None
    exit_codes: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()


def read_when(node: Node, faults: Faults) -> When:
    """End reasons, ``exit: [CODE, ...]``, and causes as the doctor names them."""
    reasons: list[str] = []
    codes: list[int] = []
    causes: list[str] = []
    if isinstance(node, ListNode) and not node.items:
        faults.add(node.place, "{key} is empty: leave it out to retry what is retried by default", key=_PATH)
    for item in node.items if isinstance(node, ListNode) else (node,):
        if isinstance(item, MapNode):
            exit_codes = Section(item, _PATH, faults, ("exit",)).get("exit")
            if exit_codes:
                codes.extend(read_exit_codes(exit_codes, f"{_PATH}.exit", faults))
        elif isinstance(item, Scalar) and item.text in _RETRYABLE:
            reasons.append(item.text)
        elif isinstance(item, Scalar) and item.text in set(EndReason):
            faults.add(item.place, "An attempt that ended with {value} is never tried again", value=item.text)
        elif isinstance(item, Scalar) and item.text in _causes():
            causes.append(item.text)
        else:
            text = written(item)
            faults.add(
                item.place,
                "{key}: {value} is no end reason; they are {reasons}, exit: [CODE, ...], or a cause that `anycard doctor` names",
                key=_PATH,
                value=text,
                reasons=", ".join(_RETRYABLE),
                nearest=nearest(text, (*_RETRYABLE, *_causes())),
            )
    return When(tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(codes)), tuple(dict.fromkeys(causes)))


def _causes() -> frozenset[str]:
    from anycard.doctor.rules import all_rules  # a tenth of a second: only for files that name one, or misspell

    return frozenset(rule.slug for rule in all_rules())
