"""The doctor for a process that must not stop to think: ``python -m anycard.doctor.server`` reads one request a line on standard input
and answers each with one line.

A request is JSON ``{"sources": [{"name", "text", "spoken"}], "platform", "measured"}`` (the last: a job's readings, as ``measured.py``
takes them), the answer the document of ``anycard doctor --json``. It ends with its input, or when nobody asked for a while. Rules, their
automaton and every compiled expression stay: the second log costs a tenth of the first.
"""

from __future__ import annotations

import json
import select
import sys
from typing import Any

from anycard.doctor.measured import Measured, measured_facts
from anycard.doctor.platforms import platform_of
from anycard.doctor.reading import text_source
from anycard.doctor.reason import diagnose
from anycard.doctor.report import to_json
from anycard.host.live import LiveHost

_IDLE_S = 60.0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    sources = [text_source(one["name"], one["text"], spoken=one.get("spoken", False)) for one in request["sources"]]
    told = request.get("measured")
    facts = measured_facts(Measured.from_json(told)) if told else ()
    return to_json(diagnose(sources, request.get("platform") or platform_of(LiveHost()), facts))


def main() -> int:
    requests = sys.stdin.buffer
    while select.select([requests], [], [], _IDLE_S)[0]:
        line = requests.readline()  # one request is answered before the next is sent, so nothing waits in the buffer
        if not line:
            break
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
