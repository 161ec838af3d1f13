"""``python -m anycard.doctor --from PATH --json``: the doctor without the rest of the command line (one case a process, fast)."""

from __future__ import annotations

import json
import sys


def main(arguments: list[str]) -> int:
    """The exit code; ``arguments`` as ``anycard doctor`` takes them."""
    from anycard.doctor.reading import open_evidence
    from anycard.doctor.reason import diagnose
    from anycard.doctor.report import EXIT_CODES, to_json
    from anycard.errors import AnycardError

    try:
        path = arguments[arguments.index("--from") + 1]
    except (ValueError, IndexError):
        print("usage: python -m anycard.doctor --from PATH [--json]", file=sys.stderr)
        return 2
    try:
        diagnosis = diagnose(*open_evidence(path))
    except AnycardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(to_json(diagnosis), ensure_ascii=False))
    return EXIT_CODES[diagnosis.verdict]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
