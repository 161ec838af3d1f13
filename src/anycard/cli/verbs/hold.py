"""hold: see ``VERBS`` in cli/main.py."""

from __future__ import annotations

from anycard.cli import options
from anycard.cli.each import each_job


def hold(jobs: options.JobRefs, json: options.Json = False) -> int:
    return each_job(jobs, lambda client, ref: client.hold(ref), as_json=json)
