"""submit: submit and return at once."""

from __future__ import annotations

from anycard.cli import options
from anycard.cli.output import document, safe, say
from anycard.cli.session import session
from anycard.cli.submitting import build
from anycard.cli.submitting import submit as send
from anycard.i18n import _


def submit(
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
    answer = send(session.client(), body)
    if json:
        document(answer)
        return 0
    for job in answer["jobs"]:
        count = job["n_items"]
        told = _("job {id} ({name}) submitted, {count} items") if count > 1 else _("job {id} ({name}) submitted")
        say(told.format(id=job["id"], name=safe(job["name"]), count=count))
    return 0
