"""What `make run` does: brings anycard up, runs job.yaml with a view, and says what became of it and how to look further.

Exit code 0 when everything went as it should, which includes the one item that must fail: its file is damaged on purpose.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from anycard import i18n
from anycard.api.client import Client
from anycard.cli.tables import table
from anycard.errors import AnycardError
from anycard.i18n import _, words
from anycard.units import format_duration

HERE = Path(__file__).resolve().parent
JOB_FILE = HERE / "job.yaml"
DAMAGED = "part-7.csv"
PROGRAM = Path(sys.executable).with_name("anycard")


def main() -> int:
    i18n.use(i18n.choose())
    print(_("Bringing anycard up and training on {count} files of real handwritten digits.", count=len(_files())))
    print(_("One of them, {file}, is damaged on purpose: watch what becomes of it.", file=DAMAGED), flush=True)
    up = _anycard("up", "-d")
    if up != 0:
        return up
    with Client() as client:
        before = _latest(client)
        ran = _anycard("run", str(_shortest(JOB_FILE)))
        job = _latest(client)
        if job is None or job == before:
            return ran or 125
        return _summary(client, client.job(job))


def _anycard(*arguments: str) -> int:
    """The command line of the installation that runs this script, on this terminal. Its python3 is also that of the items."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    return subprocess.run([PROGRAM, *arguments], env=env, check=False).returncode


def _latest(client: Client) -> int | None:
    """The number of the latest job called digits."""
    jobs = client.jobs(name="digits", limit=1)["jobs"]
    return jobs[0]["id"] if jobs else None


def _summary(client: Client, job: dict[str, Any]) -> int:
    items = list(client.all_items(job["id"]))
    number = job["id"]
    print()
    print(_("What came of it"))
    head = [_("FILE"), _("OUTCOME"), _("TOOK"), _("READS"), _("WHY")]
    for line in table(head, [_row(item) for item in items], indent="  ", right=frozenset((2, 3))):
        print(line)
    read = [metrics["accuracy"] for item in items if (metrics := _metrics(item))]
    if read:
        share = f"{sum(read) / len(read):.0%}"
        print(_("  On average {share} of digits that the programs had not seen were read right.", share=share))
    took = [item["run_s"] for item in items if item.get("run_s") is not None]
    if took:
        longest, whole = format_duration(max(took)), format_duration(sum(took))
        print(_("  Time: {whole} of work in all, the longest item {longest}.", whole=whole, longest=longest))
    print()
    print(_("Where things are"))
    print(_("  outputs   {path}", path=job.get("outputs") or "-"))
    failed = [item for item in items if item["state"] == "failed"]
    for item in failed:
        print(_("  log       {path}   (of {file})", path=item.get("log") or "-", file=_file(item)))
    print()
    print(_("To look further"))
    program = _shortest(PROGRAM)  # as it can be called from here, on the PATH or not
    calls = [
        (f"job {number}", _("the job, its items, their files")),
        *((f"logs {number} {item['item']}", _("what {file} said", file=_file(item))) for item in failed),
        ("jobs", _("all jobs")),
        ("cards", _("this machine's cards")),
        ("up -d", _("an address of the page in a browser, for one login")),
        (f"retry {number} --failed", _("once the file is mended")),
        ("down", _("stops anycard")),
    ]
    columns = max(len(call) for call, _meaning in calls)
    for call, meaning in calls:
        print(f"  {program} {call:<{columns}}  {meaning}")
    return _as_expected(items)


def _row(item: dict[str, Any]) -> list[str]:
    metrics = _metrics(item)
    return [
        _file(item),
        words.state(item["state"]),
        format_duration(item.get("run_s")),
        f"{metrics['accuracy']:.0%}" if metrics else "-",
        words.reason(item),
    ]


def _metrics(item: dict[str, Any]) -> dict[str, Any] | None:
    if item["state"] != "succeeded" or not item.get("output"):
        return None
    read: dict[str, Any] = json.loads((Path(item["output"]) / "metrics.json").read_text())
    return read


def _as_expected(items: list[dict[str, Any]]) -> int:
    wrong = [item for item in items if item["state"] != ("failed" if _file(item) == DAMAGED else "succeeded")]
    for item in wrong:
        print(
            _("not as it should be: {file} is {state}", file=_file(item), state=words.state(item["state"])),
            file=sys.stderr,
        )
    return 1 if wrong or len(items) != len(_files()) else 0


def _file(item: dict[str, Any]) -> str:
    return Path((item.get("values") or {}).get("file", "?")).name


def _files() -> list[Path]:
    return sorted((HERE / "data").glob("part-*.csv"))


def _shortest(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    try:
        code = main()
    except AnycardError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
