"""run: submit and follow to the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Protocol

from anycard.api.client import Client, Json
from anycard.cli import options
from anycard.cli.follow import Interrupted, LogStream, interruptible, watched
from anycard.cli.output import document, note, say
from anycard.cli.plain import PlainView
from anycard.cli.session import session
from anycard.cli.submitting import build, submit
from anycard.cli.summary import print_summary
from anycard.i18n import N_, _, words

MORE = N_(
    "With one item its output is shown as it comes, and run ends with the program's own exit code when a COMMAND was given. "
    "Ctrl-C on a terminal asks whether to leave the job running or to cancel it; elsewhere the job is left running."
)

_NOT_STARTED = 127
_LEAVE, _CANCEL, _FOLLOW = ("", "l", "leave"), ("c", "cancel"), ("f", "follow")


class _View(Protocol):
    def __enter__(self) -> _View: ...
    def __exit__(self, *_error: object) -> None: ...
    def update(self, job: Json, items: list[Json]) -> None: ...


def run(
    file: options.File = None,
    name: options.Name = None,
    cpus: options.Cpus = None,
    memory: options.Memory = None,
    accelerators: options.Accelerators = None,
    priority: options.Priority = None,
    hold: options.Held = False,
    time_limit: options.TimeLimit = None,
    env: options.Env = None,
    json: options.Json = False,
) -> int:
    asked = options.asked(
        cpus=cpus, memory=memory, accelerators=accelerators, priority=priority, held=hold, time_limit=time_limit
    )
    body = build(file, name, env or (), asked)
    client = session.client()
    submitted = submit(client, body)["jobs"]
    for job in submitted:  # of a pipeline too: all of them are submitted, not only the one that is followed first
        note(_("job {id} submitted; {hint}", id=job["id"], hint=f"anycard job {job['id']}"))
    try:
        with interruptible():
            jobs = [_follow(client, job, as_json=json) for job in submitted]
    except Interrupted as signalled:
        # Left running: what happens to it is not known here, which is what a shell's 128 + signal says.
        return 128 + signalled.number
    if json:
        runs = [{**job, "schema": "anycard.run/1", "items": list(client.all_items(job["id"]))} for job in jobs]
        document(runs[0] if len(runs) == 1 else {"schema": "anycard.runs/1", "runs": runs})
    if session.command:
        return _own_code(client, jobs[0])
    return 0 if all(job["state"] == "succeeded" for job in jobs) else 1


def _follow(client: Client, submitted: Json, *, as_json: bool) -> Json:
    """Follows one job to its end and tells of it; the JOB as it then is. Raises Interrupted when it is left running."""
    number = submitted["id"]
    single = submitted["n_items"] == 1
    log = LogStream(client, number) if single and not as_json else None
    # One view and one stream, also when Ctrl-C comes in between: each line is told once.
    view = _view(note if as_json or single else say, live=not as_json and not single)
    while True:
        try:
            job = _watch(client, number, view, log)
            if log is not None:
                log.finish()
            break
        except Interrupted as signalled:
            if log is not None:
                log.pause()
            _interrupted(client, submitted, signalled)
            if log is not None:
                log.go_on()
    if as_json:
        return job
    if not single:
        print_summary(client, job)
    elif job["state"] != "succeeded":
        item = next(client.all_items(number), None)
        why = words.reason(job) or (words.reason(item) if item else "")
        note(words.told(words.headline(job), why))
    return job


def _watch(client: Client, number: int, view: _View, log: LogStream | None) -> Json:
    job: Json | None = None
    with view:
        for line in watched(client, number):
            job = line["job"]
            view.update(line["job"], line["items"])
            if log is not None and line["items"]:
                log.saw(line["items"][-1]["attempts"])
    return job if job is not None else client.job(number)


def _view(out: Callable[[str], None], *, live: bool) -> _View:
    if live and sys.stdout.isatty():
        from anycard.cli.live import LiveView

        return LiveView()
    return PlainView(out)


def _interrupted(client: Client, submitted: Json, signalled: Interrupted) -> None:
    """Asks on a terminal what to do; returns when the job is cancelled or followed on, raises ``signalled`` to leave it running."""
    number = submitted["id"]
    if signalled.number == signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty():
        answer = _ask(number)
        if answer in _CANCEL:
            client.cancel(number)
            return
        if answer in _FOLLOW:
            return
    look = f"anycard logs -f {number}" if submitted["n_items"] == 1 else f"anycard job {number}"
    note(_("job {id} goes on; look: {look}; end it: anycard cancel {id}", id=number, look=look))
    raise signalled


def _ask(number: int) -> str:
    """One of the answers below; asks again what is none of them. The end of the input, or a second Ctrl-C, leaves the job running."""
    try:  # around the question too: an impatient second Ctrl-C may come while it is written
        while True:
            sys.stderr.write("\n" + _("job {id}: [l]eave it running (Enter), [c]ancel it, or [f]ollow on? ", id=number))
            sys.stderr.flush()
            answer = sys.stdin.readline().strip().lower()
            if answer in (*_LEAVE, *_CANCEL, *_FOLLOW):
                return answer
    except KeyboardInterrupt:
        return _LEAVE[0]


def _own_code(client: Client, job: Json) -> int:
    """The program's own exit code; 127 where it could not be started, as shells say it; else 1 where nobody saw its end."""
    if job["state"] == "succeeded":
        return 0
    item = next(client.all_items(job["id"]), None)
    if item is not None and item.get("exit_code"):
        return int(item["exit_code"])
    return _NOT_STARTED if item is not None and item.get("end_reason") == "start-failed" else 1
