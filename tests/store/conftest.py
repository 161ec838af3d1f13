"""Stores to test with: a file, and a database on a private PostgreSQL server (a real one; skipped loudly where there is none)."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from anycard.config import Paths
from anycard.store.changes import Changes
from anycard.store.engine import Store
from anycard.store.tables import metadata

BOOT = "b0071d00-0000-4000-8000-000000000000"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "home")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """None: the SQLite file of ``paths``."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(paths: Paths, database_url: str | None) -> Iterator[Store]:
    opened = Store.open(paths, database_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(paths: Paths) -> Iterator[Store]:
    opened = Store.open(paths)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The folder of a fresh cluster's socket."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(programs[-1]) if programs else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL is missing, nothing was tested on it: apt-get install postgresql")
    pytest.importorskip(
        "psycopg", reason="psycopg is missing, nothing was tested on PostgreSQL: pip install 'psycopg[binary]'"
    )
    folder = Path(tempfile.mkdtemp(prefix="anycard-pg-", dir="/tmp"))
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    run: dict[str, Any] = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, **as_user}
    control = str(Path(initdb).with_name("pg_ctl"))
    data = str(folder / "data")
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=40"
    try:
        subprocess.run([initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"], **run)
        subprocess.run([control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start"], **run)
        yield str(folder)
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A new, empty database."""
    import psycopg

    name = f"store_{next(_numbers)}"
    with psycopg.connect(f"host={postgres_server} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?host={postgres_server}"


@pytest.fixture
def table_rows() -> Callable[[Store, str], list[dict[str, Any]]]:
    """Every row of a table, by primary key."""

    def read(store: Store, table: str) -> list[dict[str, Any]]:
        target = metadata.tables[table]
        with store.read() as connection:
            found = connection.execute(select(target).order_by(*target.primary_key.columns)).mappings()
            return [dict(row) for row in found]

    return read


class Rows:
    """Whole rows with what a test cares about."""

    def job(self, job_id: int, **values: Any) -> dict[str, Any]:
        counts = dict.fromkeys(("n_queued", "n_running", "n_succeeded", "n_failed", "n_cancelled"), 0)
        return {
            "id": job_id,
            "submit_key": f"key-{job_id}",
            "name": f"job-{job_id}",
            "tenant": "default",
            "user": "ann",
            "kind": "batch",
            "state": "queued",
            "held": False,
            "priority": 0,
            "spec_json": '{"options":[{"cpus":1.0,"memory_bytes":null,"card_count":0,"card":null}]}',
            "submitted_at": 1000.0 + job_id,
            "n_items": 1,
            **counts,
            **values,
        }

    def item(self, job_id: int, item: int = 0, **values: Any) -> dict[str, Any]:
        return {"job_id": job_id, "item": item, "state": "queued", "attempts": 0, **values}

    def attempt(self, attempt_id: int, job_id: int, item: int = 0, number: int = 1, **values: Any) -> dict[str, Any]:
        return {
            "id": attempt_id,
            "job_id": job_id,
            "item": item,
            "number": number,
            "engine": "local",
            "state": "running",
            "stem": f"/home/jobs/{job_id}/{item}.{number}",
            "started_at": 1.0,
            "started_boot_s": 1.0,
            "boot_id": BOOT,
            **values,
        }

    def grant(self, grant_id: int, attempt_id: int, job_id: int, **values: Any) -> dict[str, Any]:
        return {
            "id": grant_id,
            "attempt_id": attempt_id,
            "job_id": job_id,
            "tenant": "default",
            "user": "ann",
            "cards_json": "[]",
            "cpus": 1.0,
            "from_utc": 1.0,
            "from_boot_s": 1.0,
            "boot_id": BOOT,
            **values,
        }

    def event(self, kind: str, job_id: int | None = None, **values: Any) -> dict[str, Any]:
        return {
            "at": 1.0,
            "boot_s": 1.0,
            "boot_id": BOOT,
            "kind": kind,
            "tenant": "default",
            "user": "ann",
            "job_id": job_id,
            **values,
        }

    def commit_job(self, store: Store, job_id: int, *, items: int = 1, **values: Any) -> None:
        """One turn: a job and its queued items."""
        changes = Changes()
        changes.insert("jobs", self.job(job_id, n_items=items, **values))
        for item in range(items):
            changes.insert("items", self.item(job_id, item))
        changes.event(self.event("job.submitted", job_id))
        store.commit(changes)


@pytest.fixture
def rows() -> Rows:
    return Rows()
