"""What runs on this machine taught about predictions: `anycard fit --errors`, and the line under a prediction of such a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycard.api.transport import NoDaemonError
from anycard.cli.output import document, note, safe, say
from anycard.cli.session import session
from anycard.cli.sizingwords import size
from anycard.cli.tables import table
from anycard.errors import AnycardError
from anycard.i18n import N_, _

_SOURCES = {"printed": N_("the server's own lines"), "card": N_("the driver"), "host": N_("its programs' memory")}


def show_errors(*, as_json: bool) -> int:
    """Kinds of runs with what they teach, then the latest runs. The truth lies with the daemon, so it is started when none runs."""
    answer = session.client().sizing()
    if as_json:
        document(answer)
        return 0
    if not answer["runs"]:
        say(_("no run of a job that names its model (anycard.model in its file) has been compared yet"))
        return 0
    head = [_("TASK"), _("SERVER"), _("ON"), _("RUNS"), _("MEAN ERROR"), _("WITHIN"), _("BUFFERS"), _("SPEED"), ""]
    rows = [
        [
            one["task"],
            one["server"] or "-",
            safe(one["device"]),
            str(one["runs"]),
            f"{one['mean_error']:.1%}",
            f"{one['inside']:.0%}",
            f"x {one['factor']:.2f}",
            "?" if one["rate_factor"] is None else f"x {one['rate_factor']:.2f}",
            _("corrects predictions") if one["used"] else _("too few runs, or beyond belief: shown only"),
        ]
        for one in answer["learnt"]
    ]
    for line in table(head, rows, right=frozenset((3, 4, 5, 6, 7))):
        say(line)
    say()
    head = [_("JOB"), _("Model").upper(), _("ON"), _("PREDICTED"), _("MEASURED"), _("ERROR"), _("TOKENS/S"), _("BY")]
    rows = [_run(one) for one in answer["runs"]]
    for line in table(head, rows, right=frozenset((0, 3, 4, 5, 6))):
        say(line)
    return 0


def _run(one: dict[str, Any]) -> list[str]:
    rates = [one["predicted_tokens_per_s"], one["measured_tokens_per_s"]]
    return [
        str(one["job"]),
        safe(one["model"]),
        safe(f"{one['cards']} x {one['card']}" if one["cards"] else one["card"]),
        size(one["predicted_bytes"]),
        size(one["measured_bytes"]),
        f"{one['error']:+.1%}",
        " / ".join("?" if rate is None else f"{rate:.1f}" for rate in rates),
        _(_SOURCES.get(one["source"], one["source"])),
    ]


def learnt_of(task: str, server: str, devices: set[str]) -> list[dict[str, Any]]:
    """What a running daemon has learnt of such runs and corrects by; nothing when none runs, or it does not say."""
    try:
        found = session.client(start=False).sizing(limit=1)["learnt"]
    except (NoDaemonError, AnycardError):
        return []
    return [
        one
        for one in found
        if one["used"] and (one["task"], one["server"] or "") == (task, server) and one["device"] in devices
    ]


def learnt_note(learnt: list[dict[str, Any]], parts: Mapping[str, int]) -> None:
    """A line a kind, under the prediction that it corrects."""
    from anycard.sizing.learning import rest_of

    for one in learnt:
        total = sum(parts.values()) + round((one["factor"] - 1) * rest_of(parts))
        note(
            _(
                "in {runs} such runs on this machine ({device}) buffers took {factor} times the formula: about {size} then",
                runs=one["runs"],
                device=safe(one["device"]),
                factor=f"{one['factor']:.2f}",
                size=size(total),
            )
        )
