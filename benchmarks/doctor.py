"""The doctor's speed: a short case as a process of its own, a case in 5,000 healthy lines, a 100 MB log (time and peak memory).

    python -m benchmarks.doctor [--json]

Last line of --json: {"short_case_s", "buried_case_s", "log_100mb_s", "log_100mb_peak_mb", "re_alternation_100mb_s"}; the last one is what
one ``re`` alternation of the same expressions would need, taken from a tenth of a megabyte.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "doctor"))

from noise import bury, healthy_lines

_CASE = [
    "[74889.644112] NVRM: GPU at PCI:0000:02:00: GPU-00000000-0000-0000-0000-000000000000",
    "[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
]
_MB = 1_000_000


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        short, buried, large = (Path(folder, name) for name in ("short.log", "buried.log", "large.log"))
        short.write_text("\n".join(_CASE))
        buried.write_text("\n".join(bury(_CASE)))
        _write_large(large)
        figures = {
            "short_case_s": _timed(short, 5)[0],
            "buried_case_s": _timed(buried, 3)[0],
        }
        figures["log_100mb_s"], figures["log_100mb_peak_mb"] = _timed(large, 1)
        figures["re_alternation_100mb_s"] = _alternation(large)
    if "--json" in sys.argv[1:]:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:26} {value:8.3f}")
    return 0


def _write_large(path: Path) -> None:
    """100 MB of healthy lines with the case in the middle."""
    block = "\n".join(healthy_lines(40_000)) + "\n"
    with path.open("w") as file:
        size = 0
        while size < 50 * _MB:
            size += file.write(block)
        file.write("\n".join(_CASE) + "\n")
        while size < 100 * _MB:
            size += file.write(block)


def _timed(path: Path, times: int) -> tuple[float, float]:
    """(median seconds, peak MB) of `anycard doctor --from PATH --json`; AssertionError when it does not find the cause."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        command = [sys.executable, "-m", "anycard.cli", "doctor", "--from", str(path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - start)
        found = json.loads(done.stdout)["findings"][0]["cause"]
        assert found == "gpu-fallen-off-bus", found
    peak_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return round(statistics.median(seconds), 3), round(peak_kb / 1024, 1)


def _alternation(path: Path) -> float:
    from anycard.doctor.rules import all_rules

    expressions = dict.fromkeys(pattern for rule in all_rules() for pattern in rule.patterns())
    one = re.compile(
        "|".join(f"(?:{_without_references(expression)})" for expression in expressions), re.IGNORECASE | re.MULTILINE
    )
    sample = path.read_bytes()[:100_000].decode()
    start = time.perf_counter()
    for line in sample.splitlines():
        one.search(line)
    return round((time.perf_counter() - start) * 1000, 1)


def _without_references(expression: str) -> str:
    return re.sub(r"\\\d", r"\\d+", expression)


if __name__ == "__main__":
    raise SystemExit(main())
