"""`kill -9` of the daemon, of the supervisor and of everything, at random moments of a batch: every item ends exactly once, none runs twice
at the same time, no output is half-written, and the events say what happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from anycard.api.client import Client
from anycard.config import Paths
from anycard.errors import AnycardError

ITEMS = 40
# Each item proves that it is alone (an flock), leaves a line for each start, and writes its output in two steps.
PROGRAM = """
import fcntl, os, sys, time
proof, item = sys.argv[1], os.environ["ANYCARD_ITEM"]
with open(f"{proof}/starts", "a") as starts:
    starts.write(f"{item} {os.environ['ANYCARD_ATTEMPT']}\\n")
lock = open(f"{proof}/lock.{item}", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(f"{proof}/overlap.{item}", "w").close()
print("item", item, flush=True)
out = open(os.environ["ANYCARD_OUTPUT_DIR"] + "/result", "w")
out.write("first half, ")
out.flush()
time.sleep(0.15)
out.write("second half")
out.close()
"""


class Platform:
    """A daemon of its own on a home of its own, to be killed."""

    def __init__(self, home: Path) -> None:
        self.paths = Paths(home)
        self.daemon: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        log = (self.paths.home.parent / "daemon.log").open("ab")
        env = {**os.environ, "ANYCARD_HOME": str(self.paths.home)}
        env.pop("XDG_RUNTIME_DIR", None)
        self.daemon = subprocess.Popen([sys.executable, "-m", "anycard.daemon"], env=env, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.client().status()
                return
            except AnycardError:
                assert self.daemon.poll() is None, (self.paths.home.parent / "daemon.log").read_text()[-3000:]
                time.sleep(0.02)
        raise AssertionError("the daemon did not come up")

    def client(self) -> Client:
        return Client(socket=self.paths.socket)

    def processes(self) -> list[psutil.Process]:
        """The supervisor and the attempts: whatever carries the home in its command line or its environment."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if str(self.paths.home) in words or process.environ().get("ANYCARD_HOME") == str(self.paths.home):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return [process for process in found if process.pid != os.getpid()]

    def supervisor(self) -> psutil.Process | None:
        for process in self.processes():
            try:
                if any(word.endswith("supervisor/__main__.py") for word in process.cmdline()):
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    def kill_daemon(self) -> None:
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def kill_everything(self) -> None:
        """Stopped first, so that nobody sees the others go: as a power cut would."""
        victims = self.processes()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in victims:
                try:
                    process.send_signal(number)
                except psutil.NoSuchProcess:
                    continue
        assert self.daemon is not None
        self.daemon.wait()


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = Platform(tmp_path / "home")
    made.up()
    yield made
    made.kill_everything()


def submit(platform: Platform, proof: Path, retry: str = "") -> int:
    proof.mkdir()
    (proof / "item.py").write_text(PROGRAM)
    text = f"""
name: killed
resources: {{cpus: 0.25}}
run: exec {sys.executable} {proof}/item.py {proof}
anycard: {{foreach: {{count: {ITEMS}}}{retry}}}
"""
    answer = platform.client().submit(text=text, cwd=proof)
    return int(answer["jobs"][0]["id"])


def wait_over(platform: Platform, job: int, timeout_s: float = 120) -> dict[str, object]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = platform.client().job(job)
        if found["state"] not in ("queued", "running"):
            return found
        time.sleep(0.1)
    raise AssertionError(f"job {job} is not over: {found}")


def check_books(platform: Platform, job: int, proof: Path, *, tries: int | None) -> None:
    """``tries``: how often each item's program may have been started in all; None: as often as the events say."""
    client = platform.client()
    items = list(client.all_items(job))
    assert [item["item"] for item in items] == list(range(ITEMS))
    assert {(item["state"], item["end_reason"], item["reason"]) for item in items} == {("succeeded", "succeeded", None)}
    for item in items:
        assert (Path(item["output"]) / "result").read_text() == "first half, second half"
    assert not list(proof.glob("overlap.*")), "two attempts of one item ran at the same time"
    starts = Counter(line.split()[0] for line in (proof / "starts").read_text().splitlines())
    pairs = Counter((proof / "starts").read_text().splitlines())
    assert set(pairs.values()) == {1}, "one attempt ran its program twice"
    events, after = [], 0
    while after is not None:
        page = client.events(job, after=after, limit=1000)
        events += page["events"]
        after = page["next_after"]
    kinds = Counter((event["kind"], event["item"]) for event in events)
    for item in range(ITEMS):
        started, ended = kinds["item.started", item], kinds["item.ended", item]
        assert started == ended >= 1, f"item {item}: {started} starts, {ended} ends"
        good = [
            e for e in events if e["kind"] == "item.ended" and e["item"] == item and e["data"]["reason"] == "succeeded"
        ]
        assert len(good) == 1, "an item succeeds exactly once"
        assert starts[str(item)] <= started
        if tries is not None:
            assert (started, starts[str(item)]) == (tries, tries)
    assert kinds["job.ended", None] == 1
    assert json.loads(json.dumps(client.job(job)))["counts"]["succeeded"] == ITEMS


@pytest.mark.kill
@pytest.mark.timeout(600)
def test_daemon_killed_fifty_times(platform: Platform, tmp_path: Path) -> None:
    """Programs go on while the daemon is dead; none is started twice."""
    random.seed(20261130)
    proof = tmp_path / "proof"
    job = submit(platform, proof)
    for _ in range(50):
        time.sleep(random.uniform(0.0, 0.35))
        platform.kill_daemon()
        platform.up()
    wait_over(platform, job)
    check_books(platform, job, proof, tries=1)


@pytest.mark.kill
@pytest.mark.timeout(300)
def test_daemon_killed_while_jobs_are_submitted(platform: Platform, tmp_path: Path) -> None:
    """A submit that was cut off is repeated with its key: each job exists once."""
    random.seed(7)
    from anycard.api.submission import submission

    for number in range(12):
        body = submission(command=["/bin/echo", str(number)], name=f"echo{number}", cwd=tmp_path)
        if number % 3 == 0:
            subprocess.Popen(["sh", "-c", f"sleep {random.uniform(0, 0.01):.4f}; kill -9 {platform.daemon.pid}"]).wait(
                5
            )
        while True:
            try:
                platform.client().submit_body(body)
                break
            except AnycardError:
                platform.daemon.wait()
                platform.up()
        if number % 3 == 1:
            assert platform.client().submit_body(body)["jobs"][0]["name"] == f"echo{number}"
    names = Counter(job["name"] for job in platform.client().jobs()["jobs"])
    assert names == Counter({f"echo{number}": 1 for number in range(12)})


@pytest.mark.kill
@pytest.mark.timeout(300)
def test_supervisor_killed(platform: Platform, tmp_path: Path) -> None:
    random.seed(3)
    proof = tmp_path / "proof"
    job = submit(platform, proof)
    for _ in range(15):
        time.sleep(random.uniform(0.0, 0.3))
        supervisor = platform.supervisor()
        if supervisor is not None:
            supervisor.kill()
    wait_over(platform, job)
    check_books(platform, job, proof, tries=1)


@pytest.mark.kill
@pytest.mark.timeout(300)
def test_everything_killed_at_once(platform: Platform, tmp_path: Path) -> None:
    """The programs die, too: what became of them is unknown, and only because the file asks are they tried again."""
    random.seed(11)
    proof = tmp_path / "proof"
    job = submit(platform, proof, retry=", retry: {times: 30, when: [outcome-unknown]}")
    for _ in range(8):
        time.sleep(random.uniform(0.2, 0.8))
        platform.kill_everything()
        platform.up()
    wait_over(platform, job)
    check_books(platform, job, proof, tries=None)


@pytest.mark.kill
def test_unknown_outcome_is_not_tried_again_unasked(platform: Platform, tmp_path: Path) -> None:
    answer = platform.client().submit(command=["sleep", "60"], cwd=tmp_path)
    job = answer["jobs"][0]["id"]
    deadline = time.monotonic() + 20
    while platform.client().job(job)["counts"]["running"] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    platform.kill_everything()
    platform.up()
    assert wait_over(platform, job)["state"] == "failed"
    item = next(platform.client().all_items(job))
    assert (item["end_reason"], item["attempts"]) == ("outcome-unknown", 1)
    assert "nobody saw how it ended" in item["reason"]
