"""The Python client of the daemon, also what the command line speaks through.

from anycard.api.client import Client

client = Client()
job = client.submit(command=["python3", "train.py"])["jobs"][0]["id"]
for line in client.watch(job):
    print(line["job"]["state"])
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from anycard.api.submission import submission
from anycard.api.transport import Transport, error_of, sockets_of
from anycard.config import paths
from anycard.errors import UsageError

_MANY = 50  # submissions in one request: enough to share its cost, few enough to be answered at once
_MANY_CHARACTERS = 4_000_000  # of job files in it

Json = dict[str, Any]
Ref = int | str
SETUP_ITEM = -1  # the job's setup, where a log is asked for


class Client:
    """Speaks to the daemon of ``home`` (default: ANYCARD_HOME, else the user's data folder), or at ``socket``, or at a loopback ``url``
    with its ``token``. Connects on the first call and keeps the connection.

    Every method raises ``anycard.errors``: UnavailableError when no daemon runs, NotFoundError, UsageError (with ``faults`` for a job
    file), ConflictError, ForbiddenError. One client a thread.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        socket: str | Path | None = None,
        url: str | None = None,
        token: str | None = None,
    ) -> None:
        if socket is not None and url is not None:
            raise UsageError("give a socket or an address, not both")
        if url is not None:
            self._transport = Transport(url, url=url, token=token)
        elif socket is not None:
            self._transport = Transport(os.fspath(socket), (Path(socket),))
        else:
            where = paths(os.fspath(home) if home is not None else None)
            self._transport = Transport(str(where.home), sockets_of(where))

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Connects now rather than at the first call."""
        self._transport.connect()

    def close(self) -> None:
        self._transport.close()

    def submit(self, file: str | Path | None = None, **more: Any) -> Json:
        """Submits a job file or a command; takes what ``anycard.api.submission.submission`` takes.

        Answers {jobs: [{id, name, n_items}], ignored: [key], warnings: [text]}.
        """
        return self.submit_body(submission(file, **more))

    def submit_body(self, body: Mapping[str, Any]) -> Json:
        """Submits what ``submission`` made. Repeatable: the same body again is the same job."""
        return self._transport.request("POST", "/v1/jobs", body)

    def submit_many(self, bodies: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Submits each body by itself, many in one request; the answers in the order of ``bodies``.

        The first error is raised once all were answered: one that is refused keeps no other from its place.
        """
        answers: list[Json] = []
        for part in _parts(bodies):
            answers += self._transport.request("POST", "/v1/jobs/batch", {"submissions": part})["answers"]
        for answer in answers:
            if "error" in answer:
                raise error_of(answer["status"], answer)
        return answers

    def jobs(
        self,
        *,
        state: str | None = None,
        user: str | None = None,
        name: str | None = None,
        limit: int = 100,
        cursor: str | int | None = None,
    ) -> Json:
        """A page of jobs, newest first: {jobs: [JOB], next_cursor}."""
        return self._get("/v1/jobs", state=state, user=user, name=name, limit=limit, cursor=cursor)

    def job(self, ref: Ref) -> Json:
        """One job by id or by name (the latest of that name)."""
        return self._get(_job(ref))

    def items(self, ref: Ref, *, state: str | None = None, limit: int = 100, cursor: str | int | None = None) -> Json:
        """A page of a job's items: {items: [ITEM], next_cursor}."""
        return self._get(_job(ref, "items"), state=state, limit=limit, cursor=cursor)

    def all_items(self, ref: Ref, *, state: str | None = None) -> Iterator[Json]:
        """Every item of the job, page by page."""
        cursor: str | int | None = None
        while True:
            page = self.items(ref, state=state, limit=1000, cursor=cursor)
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def watch(self, ref: Ref, *, timeout_s: float | None = None) -> Iterator[Json]:
        """{job: JOB, items: [ITEM changed since the last line]} at once and at each change, until the job is over. TimeoutError when
        nothing changes for ``timeout_s``."""
        pending = b""
        for chunk in self._transport.stream(_job(ref, "watch"), timeout_s):
            *lines, pending = (pending + chunk).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())
        if pending.strip():
            yield json.loads(pending)

    def log(
        self, ref: Ref, item: int = 0, *, attempt: int | None = None, follow: bool = False, tail: int | None = None
    ) -> Iterator[bytes]:
        """The log's bytes as the program wrote them, of the last attempt unless told; ``tail``: only its last lines; ``follow``: also what
        comes until the attempt is over."""
        return self._transport.stream(
            _with(_job(ref, "log"), item=item, attempt=attempt, follow=int(follow), tail=tail)
        )

    def events(self, ref: Ref, *, after: int | None = None, limit: int = 100) -> Json:
        """What happened to the job, oldest first: {events, next_after}."""
        return self._get(_job(ref, "events"), after=after, limit=limit)

    def cancel(self, ref: Ref, *, item: int | None = None) -> Json:
        """Cancels the job, or one item of it; answers the JOB."""
        return self._post(_job(ref, "cancel"), {} if item is None else {"item": item})

    def retry(self, ref: Ref, *, items: Sequence[int] | None = None) -> Json:
        """Queues the failed items again, or these; answers the JOB."""
        return self._post(
            _job(ref, "retry"), {"failed": True} if items is None else {"items": list(items)}, repeatable=False
        )

    def hold(self, ref: Ref) -> Json:
        """Keeps the job's queued items from starting; answers the JOB."""
        return self._post(_job(ref, "hold"), {})

    def release(self, ref: Ref) -> Json:
        """Lets a held job start again; answers the JOB."""
        return self._post(_job(ref, "release"), {})

    def doctor(self, ref: Ref, *, item: int | None = None) -> Json:
        """Why an item of the job ended as it did (the first that failed, unless told): the document of ``anycard doctor --json``, with what
        is known of the attempt."""
        return self._get(_job(ref, "doctor"), item=item)

    def report(self, ref: Ref) -> Json:
        """What the job made of its cards, so far or in all: {cards: [...], findings: [...]}."""
        return self._get(_job(ref, "report"))

    def cards(self) -> Json:
        """What the daemon sees on its host: {host, cards: [CARD]}."""
        return self._get("/v1/cards")

    def readings(
        self,
        *,
        cards: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        step: float | None = None,
        columns: Sequence[str] | None = None,
    ) -> Json:
        """Cards over time, the last ten minutes unless told: {step_s, since, until, cards: [{card, times, COLUMN...}], marks}."""
        names = ",".join(columns) if columns is not None else None
        return self._get("/v1/readings", card=cards, since=since, until=until, step=step, columns=names)

    def live(self, *, after: str | None = None) -> Json:
        """The last tick: {at, readings, uses, silent}; with ``after`` (an ``at``) the first later one, waited for."""
        return self._get("/v1/readings/live", after=after)

    def job_readings(self, ref: Ref, *, step: float | None = None, columns: Sequence[str] | None = None) -> Json:
        """A job's cards over its time, as ``readings`` has it, and what its attempts did on them (``uses``)."""
        return self._get(_job(ref, "readings"), step=step, columns=",".join(columns) if columns is not None else None)

    def status(self) -> Json:
        """The daemon itself: {version, pid, home, mode, uptime_s, paused, counts}."""
        return self._get("/v1/status")

    def page_link(self) -> Json:
        """Where to log in to the page, once: {url, address, expires_in_s}."""
        return self._post("/v1/page-link", {}, repeatable=False)

    def sizing(self, *, limit: int = 100) -> Json:
        """How far off predictions of what models need were here, and what that teaches: {learnt, runs}."""
        return self._get("/v1/sizing", limit=limit)

    def prune(self, *, older_than_s: float, dry_run: bool = False) -> Json:
        """Removes logs and outputs of jobs that ended longer ago than this; {freed_bytes, ...}."""
        return self._post("/v1/prune", {"older_than_s": older_than_s, "dry_run": dry_run}, repeatable=False)

    def backup(self, path: str | Path) -> Json:
        """Writes a consistent copy of the store to ``path`` on the daemon's host; {path, bytes}."""
        return self._post("/v1/backup", {"path": os.fspath(path)}, repeatable=False)

    def down(self, *, stop: bool = False) -> Json:
        """Ends the daemon. Attempts go on and are found again by the next one; with ``stop`` they are ended first."""
        return self._post("/v1/down", {"attempts": "stop" if stop else "leave"}, repeatable=False)

    def _get(self, path: str, **query: Any) -> Json:
        return self._transport.request("GET", _with(path, **query))

    def _post(self, path: str, body: Json, *, repeatable: bool = True) -> Json:
        return self._transport.request("POST", path, body, repeatable=repeatable)


def _parts(bodies: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """``bodies`` in requests of a bounded number and size."""
    part: list[Mapping[str, Any]] = []
    size = 0
    for body in bodies:
        length = len(body.get("file") or "")
        if part and (len(part) >= _MANY or size + length > _MANY_CHARACTERS):
            yield part
            part, size = [], 0
        part.append(body)
        size += length
    if part:
        yield part


def _job(ref: Ref, part: str | None = None) -> str:
    return f"/v1/jobs/{quote(str(ref), safe='')}" + (f"/{part}" if part else "")


def _with(path: str, **query: Any) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
