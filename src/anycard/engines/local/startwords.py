"""Why an attempt could not be started: the supervisor's codes, in sentences that the faces translate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.i18n import N_
from anycard.model.text import Text

_SENTENCES = {
    # of shim.sh
    "cwd-missing": N_("could not start: its folder {cwd} does not exist"),
    "cwd-refused": N_("could not start: its folder {cwd} may not be entered"),
    "limits-refused": N_("could not start: its control group could not be entered"),
    "program-missing": N_("could not start: the program {program} was not found"),
    "program-refused": N_("could not start: {program} is not a program that may be run"),
    # of the supervisor
    "no-command": N_("could not start: there is no command to run"),
    "no-user": N_("could not start: there is no user {uid} on this machine"),
    "too-large": N_("could not start: its arguments and environment are larger than the system allows"),
    "odd-words": N_("could not start: its arguments or environment hold what no program can be given: {reason}"),
    "unrecorded": N_("could not start: its start could not be recorded"),
    "group": N_("could not start: entering its control group failed: {reason}"),
    "user": N_("could not start: becoming its user failed: {reason}"),
    "output": N_("could not start: making its output folder failed: {reason}"),
    "log": N_("could not start: opening its log failed: {reason}"),
    "shell": N_("could not start: starting its shell failed: {reason}"),
}
_OTHER = N_("could not start: {reason}")


def start_failure(value: Mapping[str, Any] | str | None) -> Text | None:
    """``value`` as it comes over the socket: ``{"code", "params"}``, or the words of a supervisor that an older version left running.
    ``reason`` among the params is the system's own."""
    if value is None:
        return None
    if isinstance(value, str):
        return Text(_OTHER, {"reason": value})
    params = dict(value["params"])
    return Text(_SENTENCES.get(value["code"], _OTHER), {"reason": value["code"], **params})
