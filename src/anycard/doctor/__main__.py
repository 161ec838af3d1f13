"""``python -m anycard.doctor [--from PATH]``: the doctor without the rest of the command line (one case a process, fast), always JSON."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(arguments: list[str]) -> int:
    """The exit code; ``arguments`` as ``anycard doctor`` takes them."""
    from anycard.doctor.report import exit_code
    from anycard.errors import AnycardError

    given = [argument for argument in arguments if argument != "--json"]
    if given and (len(given) != 2 or given[0] != "--from"):
        print("usage: python -m anycard.doctor [--from PATH] [--json]", file=sys.stderr)
        return 2
    try:
        told = of_evidence(given[1]) if given else of_host()
    except AnycardError as error:
        print(error, file=sys.stderr)
        print(json.dumps({"error": error.to_json()}))
        return error.exit_code
    print(json.dumps(told, ensure_ascii=False))
    return exit_code(told)


def of_evidence(path: str) -> dict[str, Any]:
    """About what lies at ``path``; a bundle is examined as the machine that it was captured on."""
    from anycard.doctor.bundle import recorded_host
    from anycard.doctor.report import to_json

    host = recorded_host(path)
    if host is not None:
        from anycard.doctor.live import examine

        return to_json(examine(host).diagnosis)
    from anycard.doctor.reading import open_evidence
    from anycard.doctor.reason import diagnose

    return to_json(diagnose(*open_evidence(path)))


def of_host() -> dict[str, Any]:
    """About this machine, with its cards."""
    from anycard.doctor.live import examination_json, examine
    from anycard.host.live import LiveHost

    return examination_json(examine(LiveHost()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
