"""kill -9 of a writer in the middle of commits: every turn is there whole or not at all, and none that was promised is missing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
from sqlalchemy import func, select

from anycard.config import Paths
from anycard.store.engine import Store
from anycard.store.tables import attempts, events, grants, items, jobs

_ITEMS = 5

_WRITER = """
import sys
from pathlib import Path
from anycard.config import Paths
from anycard.store.changes import Changes
from anycard.store.engine import Store

home, url, item_count = Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3])
store = Store.open(Paths(home), url)
number = store.next_ids().job
who = {"tenant": "default", "user": "ann"}
when = {"at": 1.0, "boot_s": 1.0, "boot_id": "b"}
counts = {"n_items": item_count, "n_queued": item_count, "n_running": 0, "n_succeeded": 0, "n_failed": 0, "n_cancelled": 0}
while True:
    turn = Changes()
    turn.insert("jobs", {"id": number, "submit_key": str(number), "name": "j", "kind": "batch", "state": "queued", "held": False,
                         "priority": 0, "spec_json": "{}" + " " * 2000, "submitted_at": 1.0, **who, **counts})
    for item in range(item_count):
        turn.insert("items", {"job_id": number, "item": item, "state": "queued", "attempts": 0})
        turn.event({"kind": "item.queued", "job_id": number, "item": item, **when, **who})
    turn.insert("attempts", {"id": number, "job_id": number, "item": 0, "number": 1, "engine": "local", "state": "running", "stem": "f",
                             "started_at": 1.0, "started_boot_s": 1.0, "boot_id": "b"})
    turn.insert("grants", {"id": number, "attempt_id": number, "job_id": number, "cards_json": "[]", "cpus": 1.0, "from_utc": 1.0,
                           "from_boot_s": 1.0, "boot_id": "b", **who})
    if number > 1:
        turn.update("jobs", number - 1, state="succeeded")
        turn.update("attempts", number - 1, state="ended")
    store.commit(turn)
    print(number, flush=True)
    number += 1
"""


@pytest.mark.kill
@pytest.mark.slow
def test_twenty_kills(paths: Paths, database_url: str | None) -> None:
    chance = random.Random(2)
    promised = 0
    for _ in range(20):
        argv = [sys.executable, "-c", _WRITER, str(paths.home), database_url or "", str(_ITEMS)]
        writer = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, "the writer could not go on from what the kill before had left"
        time.sleep(chance.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        said = [first, *writer.stdout.readlines()]
        writer.wait()
        promised = max(int(line) for line in said if line.endswith("\n"))
        _check(paths, database_url, promised)


def _check(paths: Paths, url: str | None, promised: int) -> None:
    store = Store.open(paths, url)
    with store.read() as connection:
        last = connection.execute(select(func.max(jobs.c.id))).scalar_one()
        assert promised <= last <= promised + 1
        everything = list(range(1, last + 1))
        assert list(connection.execute(select(jobs.c.id).order_by(jobs.c.id)).scalars()) == everything
        for table in (items, events):
            found = connection.execute(select(table.c.job_id, func.count()).group_by(table.c.job_id)).all()
            assert sorted(map(tuple, found)) == [(number, _ITEMS) for number in everything]
        for table in (attempts, grants):
            assert list(connection.execute(select(table.c.job_id).order_by(table.c.id)).scalars()) == everything
        still_open = connection.execute(select(jobs.c.id).where(jobs.c.state == "queued")).scalars().all()
        running = connection.execute(select(attempts.c.id).where(attempts.c.state == "running")).scalars().all()
        assert still_open == running == [last]
    assert store.find_damage() is None
    store.close()
