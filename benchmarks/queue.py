"""`python -m benchmarks.queue [--json]`: a queue of trivial jobs, anycard beside task-spooler, in turns in the same run.

Two questions: how many jobs a second go through when 200 are handed over at once, eight at a time running; and how long after the
submission a job starts when the queue is idle. The start is told by the job itself (`date`), the same for both.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from anycard.api.client import Client
from anycard.api.submission import submission
from benchmarks.measure import cores, finish, median, say, timed
from benchmarks.own_daemon import own_daemon, own_home
from benchmarks.task_spooler import TaskSpooler, task_spooler

SLOTS = 8
TRIVIAL = (shutil.which("true") or "/bin/true",)
TELLS_ITS_START = (shutil.which("date") or "/bin/date", "+%s.%N")
_START = re.compile(r"^\d+\.\d{9}$", re.MULTILINE)


class Anycard:
    """anycard as a user of its Python client sees it. ``cpus`` a job such that SLOTS of them fill the machine."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.options = {"cpus": f"{cores() * 1000 // SLOTS / 1000:g}"}

    def body(self, command: tuple[str, ...]) -> dict[str, Any]:
        return submission(command=command, cwd=self.folder, options=self.options)

    def jobs_per_s(self, count: int) -> float:
        """Until the last has ended by the daemon's record. Asking when that is would take CPU from what is measured, so it is asked
        seldom, and the times on record count."""
        bodies = [self.body(TRIVIAL) for _ in range(count)]
        began = time.time()
        answers = self.client.submit_many(bodies)
        numbers = [answer["jobs"][0]["id"] for answer in answers]
        while self.open():
            time.sleep(0.25)
        jobs = [self.client.job(number) for number in numbers]
        bad = [job["id"] for job in jobs if job["state"] != "succeeded"]
        if bad:
            raise RuntimeError(f"jobs that did not succeed: {bad[:10]}")
        return count / (max(utc_s(job["ended_at"]) for job in jobs) - began)

    def submit_to_start_s(self) -> float:
        body = self.body(TELLS_ITS_START)
        began = time.time()
        number = self.client.submit_body(body)["jobs"][0]["id"]
        self.await_end(number)
        return told_start(b"".join(self.client.log(number)).decode()) - began

    def await_end(self, number: int) -> None:
        for _ in self.client.watch(number, timeout_s=60):
            pass

    def open(self) -> bool:
        return any(self.client.jobs(state=state, limit=1)["jobs"] for state in ("queued", "running"))


def utc_s(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339).timestamp()


def told_start(output: str) -> float:
    """Seconds since the epoch that `date` printed; the log around it is the queue's own."""
    found = _START.search(output)
    if found is None:
        raise RuntimeError(f"the job did not tell when it started: {output[:300]!r}")
    return float(found.group())


def spooler_jobs_per_s(spooler: TaskSpooler, count: int) -> float:
    spooler.clear()
    began = timed()
    spooler.run_all(TRIVIAL, count)
    took = timed() - began
    ended = spooler.ended()
    if ended != count:
        raise RuntimeError(f"task-spooler ended {ended} of {count} jobs")
    return count / took


def spooler_submit_to_start_s(spooler: TaskSpooler) -> float:
    began = time.time()
    return told_start(spooler.run_one(TELLS_ITS_START)) - began


def measure(rounds: int, count: int, singles: int) -> dict[str, Any]:
    rates: dict[str, list[float]] = {"anycard": [], "task_spooler": []}
    starts: dict[str, list[float]] = {"anycard": [], "task_spooler": []}
    with (
        tempfile.TemporaryDirectory(prefix="tsp-bench-") as folder,
        own_home() as home,
        own_daemon(home) as daemon,
        task_spooler(Path(folder), SLOTS) as spooler,
    ):
        ours = Anycard(daemon.client, Path(folder))
        contestants: list[tuple[str, Callable[[int], float], Callable[[], float]]] = [
            ("anycard", ours.jobs_per_s, ours.submit_to_start_s),
            ("task_spooler", lambda n: spooler_jobs_per_s(spooler, n), lambda: spooler_submit_to_start_s(spooler)),
        ]
        for _, many, one in contestants:  # first touches: files, pages, caches
            many(SLOTS * 2)
            one()
        for number in range(rounds):
            for name, many, _ in contestants:
                rates[name].append(many(count))
            for _ in range(singles):
                for name, _, one in contestants:
                    starts[name].append(one())
            contestants.reverse()  # neither always goes first
            said = ", ".join(f"{name} {rates[name][-1]:.0f} jobs/s" for name in rates)
            say(f"round {number + 1} of {rounds}: {said}")
    result: dict[str, Any] = {
        name: {"jobs_per_s": median(rates[name]), "submit_to_start_p50_s": median(starts[name])} for name in rates
    }
    result["ratio_jobs_per_s"] = result["anycard"]["jobs_per_s"] / result["task_spooler"]["jobs_per_s"]
    result["ratio_p50"] = result["anycard"]["submit_to_start_p50_s"] / result["task_spooler"]["submit_to_start_p50_s"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="the result as one line of JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=200, help="handed over at once (default 200)")
    parser.add_argument("--singles", type=int, default=20, help="jobs one at a time, a round (default 20)")
    options = parser.parse_args()
    finish(measure(options.rounds, options.jobs, options.singles), as_json=options.json)


if __name__ == "__main__":
    main()
