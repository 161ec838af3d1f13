"""What a failed program's log proves: the one cause that is named on the attempt, and the end reason that it means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anycard.doctor.rule import SHOWS
from anycard.model.end_reason import EndReason

# Causes that are an end reason of their own, whatever the exit code was. Which kind of out of memory it was is often less certain than
# that it was one: the lines that these rules rest on are the allocators' own messages.
ENDS_AS: Mapping[str, EndReason] = {
    "oom-allocator-settings": EndReason.OUT_OF_MEMORY,
    "oom-fragmentation": EndReason.OUT_OF_MEMORY,
    "oom-other-process": EndReason.OUT_OF_MEMORY,
    "oom-model-too-large": EndReason.OUT_OF_MEMORY,
    "intel-oom-reported-as-997": EndReason.OUT_OF_MEMORY,
    # the card answers nobody until it was reset: another try belongs on another card
    "gpu-fallen-off-bus": EndReason.CARD_LOST,
    "gsp-heartbeat-timeout": EndReason.CARD_LOST,
    "gsp-rpc-timeout": EndReason.CARD_LOST,
    "pmu-halt": EndReason.CARD_LOST,
    "ecc-uncorrectable-error": EndReason.CARD_LOST,
}
_MEMORY_IS_CERTAIN = 0.7  # what an allocator's own message carries
_HARMLESS = frozenset({"healthy", "expected", "undecided"})


@dataclass(frozen=True, slots=True)
class Cause:
    """``slug`` as ``anycard doctor --explain`` knows it; ``says`` is its sentence, a key of the catalogue without fields; ``line`` is
    what the program printed; ``ends_as`` None: the end stays a program error."""

    slug: str
    says: str
    line: str
    ends_as: EndReason | None


def proven_cause(diagnosis: Mapping[str, Any]) -> Cause | None:
    """The leading finding of a diagnosis (the document of ``report.to_json``), if it is certain; None when the log proves nothing."""
    findings = diagnosis["findings"]
    if not findings:
        return None
    lead = findings[0]
    ends_as = ENDS_AS.get(lead["cause"])
    needed = _MEMORY_IS_CERTAIN if ends_as is EndReason.OUT_OF_MEMORY else SHOWS
    if lead["certainty"] < needed or lead["verdict"] in _HARMLESS or not lead["evidence"]:
        return None
    return Cause(lead["cause"], lead["says_msgid"], lead["evidence"][0].strip(), ends_as)
