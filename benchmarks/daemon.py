"""`python -m benchmarks.daemon [--json] [--install]`: what the daemon costs and how fast it answers, against the project's budgets."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from anycard.api.client import Client
from anycard.api.submission import submission
from anycard.model.demand import Demand
from anycard.scheduling.plan import CardState, HostState, Policy, QueuedJob, Snapshot
from anycard.scheduling.planner import plan
from benchmarks.measure import cpu_s, finish, median, p95, pss_bytes, say, timed
from benchmarks.own_daemon import OwnDaemon, own_daemon, own_home

PROJECT = Path(__file__).resolve().parents[1]
LISTED_JOBS = 10_000
PAGE = 100
SETTLE_S = 3.0
IDLE_S = 10.0
SEED = 20_261_130


def measure(*, listed: int, install: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    with own_home() as home:
        with own_daemon(home) as daemon:
            result["first_ready_s"] = daemon.ready_s  # an empty home: the store is made
            say(f"first start: ready after {daemon.ready_s:.2f} s")
        ready: list[float] = []
        for _ in range(3):
            with own_daemon(home) as daemon:
                ready.append(daemon.ready_s)
        result["ready_s"] = median(ready)
        say(f"ready after {result['ready_s']:.2f} s")
        with own_daemon(home) as daemon:
            result |= idle(daemon)
            result |= submits(daemon.client, home.parent, listed)
            result |= pages(daemon.client)
            result["pss_mb_10k_jobs"] = megabytes(daemon)
            result |= verbs(home)
    result["plan_10k_s"] = plan_s(10_000)
    say(f"a plan over 10,000 queued jobs: {result['plan_10k_s'] * 1000:.0f} ms")
    if install:
        result |= installed()
    return result


def idle(daemon: OwnDaemon) -> dict[str, float]:
    """After a first job, so that the supervisor is up: memory, and CPU of one core while nothing happens."""
    number = daemon.client.submit(command=[shutil.which("true") or "/bin/true"])["jobs"][0]["id"]
    for _ in daemon.client.watch(number, timeout_s=60):
        pass
    time.sleep(SETTLE_S)
    pids = daemon.pids()
    used, began = sum(map(cpu_s, pids)), timed()
    time.sleep(IDLE_S)
    share = (sum(map(cpu_s, pids)) - used) / (timed() - began)
    size = megabytes(daemon)
    say(f"idle: {size:.0f} MB in {len(pids)} processes, {share:.2%} of a core")
    return {"idle_pss_mb": size, "idle_cpu_share": share}


def megabytes(daemon: OwnDaemon) -> float:
    return sum(map(pss_bytes, daemon.pids())) / 1e6


def submits(client: Client, folder: Path, count: int) -> dict[str, float]:
    """Held jobs, so that only the submission is measured: each is durable when its answer comes."""
    bodies = [
        submission(command=["/bin/true"], cwd=folder, name=f"job-{number % 97}", options={"held": True})
        for number in range(count)
    ]
    singly = min(200, count // 2)
    began = timed()
    for body in bodies[:singly]:
        client.submit_body(body)
    one_by_one = singly / (timed() - began)
    began = timed()
    client.submit_many(bodies[singly:])
    rate = (count - singly) / (timed() - began)
    say(f"submits: {rate:.0f} a second, one at a time {one_by_one:.0f}")
    return {"submits_per_s": rate, "submits_one_by_one_per_s": one_by_one}


def pages(client: Client) -> dict[str, float]:
    """Pages from the newest to the oldest, again and again; all count alike."""
    took: list[float] = []
    cursor: str | int | None = None
    for _ in range(300):
        began = timed()
        page = client.jobs(limit=PAGE, cursor=cursor)
        took.append(timed() - began)
        cursor = page.get("next_cursor")
    say(f"a page of {PAGE}: median {median(took) * 1000:.1f} ms, p95 {p95(took) * 1000:.1f} ms")
    return {"list_p95_ms": p95(took) * 1000, "list_p50_ms": median(took) * 1000}


def verbs(home: Path) -> dict[str, float]:
    """The command line as a person meets it, interpreter start included."""
    program = Path(sys.executable).with_name("anycard")
    env = {**os.environ, "ANYCARD_HOME": str(home)}

    def run(*arguments: str) -> float:
        began = timed()
        subprocess.run([program, *arguments], env=env, check=True, capture_output=True)
        return timed() - began

    result = {
        "help_s": median([run("--help") for _ in range(15)]),
        "jobs_verb_s": median([run("jobs") for _ in range(15)]),
    }
    say(f"anycard --help {result['help_s'] * 1000:.0f} ms, anycard jobs {result['jobs_verb_s'] * 1000:.0f} ms")
    return result


def plan_s(count: int) -> float:
    """The planner alone, over ``count`` queued jobs of mixed demands on a half-used machine of eight cards."""
    snapshot = mixed_snapshot(count)

    def once() -> float:
        began = timed()
        made = plan(snapshot, Policy(), 0.0)
        took = timed() - began
        if len(made.reasons) < count - len(made.placements):
            raise RuntimeError("a waiting job got no reason")
        return took

    return median([once() for _ in range(7)])


def mixed_snapshot(count: int) -> Snapshot:
    rng = random.Random(SEED)
    gib = 1024**3
    cards = tuple(
        CardState(
            f"nvidia:{number}", "nvidia", model, frozenset({"nvidia", model.lower()}), size * gib, number % 2 == 0
        )
        for number, (model, size) in enumerate([("A100", 80)] * 4 + [("T4", 16)] * 4)
    )

    def demand() -> Demand:
        return Demand(
            cpus=rng.choice([0.25, 1, 2, 4, 8]),
            memory_bytes=rng.choice([None, gib, 4 * gib, 64 * gib]),
            card_count=rng.choice([0, 0, 1, 2, 4]),
            card=rng.choice([None, "A100", "T4"]),
        )

    queue = tuple(
        QueuedJob(
            number,
            rng.choice([0, 0, 5]),
            number,
            tuple(demand() for _ in range(rng.choice([1, 1, 2]))),
            rng.choice([1, 10]),
        )
        for number in range(1, count + 1)
    )
    return Snapshot(HostState(64, 20, 512 * gib, 200 * gib, cards), queue)


def installed() -> dict[str, float]:
    """A base install into a fresh environment, from whatever index pip is set to; the environment's own size is taken off."""
    with tempfile.TemporaryDirectory(prefix="anycard-install-") as folder:
        place = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        bare = size_bytes(place)
        began = timed()
        pip = [str(place / "bin" / "pip"), "install", "--quiet", "--no-cache-dir", str(PROJECT)]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        took = timed() - began
        size = (size_bytes(place) - bare) / 1e6
    say(f"install: {took:.1f} s, {size:.0f} MB")
    return {"install_s": took, "install_mb": size}


def size_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.daemon", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="the result as one line of JSON")
    parser.add_argument(
        "--install", action="store_true", help="also install the package into a fresh environment (network)"
    )
    parser.add_argument(
        "--listed", type=int, default=LISTED_JOBS, help="jobs in the store when the list is timed (default 10,000)"
    )
    options = parser.parse_args()
    finish(measure(listed=options.listed, install=options.install), as_json=options.json)


if __name__ == "__main__":
    main()
